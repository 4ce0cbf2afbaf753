"""The result of a bench: latency, throughput and memory of each contender, and how they compare."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxlift.errors import OutputError
from onnxlift.saving import save_files
from onnxlift.sizes import format_bytes

from ..runtime.timings import format_seconds
from .contest import Samples
from .plot import Line, draw_plot
from .statistics import NOISY, Estimate, mean, noise, percentile, ratio, verdict

VERDICTS = {
    "slower": "slower",
    "faster": "faster",
    "same": "no difference",
    "unclear": "too noisy to tell",
}


@dataclass(frozen=True)
class Measured:
    """A contender at one size: percentiles of its latency in seconds, and the ratio to the first contender.

    `ratio` is the median over that of the first; it is None for the first itself. `batch` is the number of samples in
    one run, where the inputs leave their first size open."""

    model: str
    engine: str
    sizes: Mapping[str, int]
    samples: Samples
    p50: Estimate
    p90: Estimate | None
    p99: Estimate | None
    mean: Estimate
    batch: int
    ratio: Estimate | None
    noise: float

    @property
    def runs(self) -> int:
        """The number of runs that were measured."""
        return sum(map(len, self.samples.rounds))

    @property
    def throughput(self) -> float:
        """Samples (or runs, if there is no batch) in a second."""
        return self.batch / self.mean.value

    @property
    def verdict(self) -> str:
        """How it compares with the first contender: slower, faster, same or unclear; "" for the first itself."""
        return "" if self.ratio is None else verdict(self.ratio)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data; times in seconds, memory in bytes."""
        estimates = {name: getattr(self, name) for name in ("p50", "p90", "p99", "mean", "ratio")}
        return {
            "model": self.model,
            "engine": self.engine,
            "sizes": dict(self.sizes),
            "runs": self.runs,
            "rounds": len(self.samples.rounds),
            **{name: None if found is None else found.to_dict() for name, found in estimates.items()},
            "verdict": self.verdict or None,
            "throughput": self.throughput,
            "batch": self.batch,
            "load": self.samples.load,
            "first": self.samples.first,
            "memory": self.samples.memory,
            "peak": self.samples.peak,
            "noise": self.noise,
        }


def measured(
    model: str, engine: str, sizes: Mapping[str, int], samples: Samples, baseline: Samples | None, batch: int
) -> Measured:
    """Work out what samples tell; `baseline` are those of the first contender."""
    middle = percentile(samples.rounds, 50)
    assert middle is not None, "there is one run at least"
    return Measured(
        model,
        engine,
        sizes,
        samples,
        middle,
        percentile(samples.rounds, 90),
        percentile(samples.rounds, 99),
        mean(samples.rounds),
        batch,
        None if baseline is None else ratio(samples.rounds, baseline.rounds),
        noise(samples.rounds),
    )


@dataclass(frozen=True)
class BenchReport:
    """What was measured: a row for each model, engine and size. Rows of one size were measured by turns."""

    name: str
    rows: tuple[Measured, ...]
    swept: str = ""
    """The dimension whose sizes were tried."""
    threads: int | None = None
    notes: tuple[str, ...] = ()
    clock: str = "wall"
    """What was measured: the time of the clock, or that of the "processor"."""

    @property
    def passed(self) -> bool:
        """Tell whether the machine was quiet enough to tell: no ratio is unclear."""
        return not any(row.verdict == "unclear" for row in self.rows)

    @property
    def is_noisy(self) -> bool:
        """Tell whether the machine did something else as well."""
        return any(row.noise > NOISY for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists."""
        return {
            "passed": self.passed,
            "threads": self.threads,
            "clock": self.clock,
            "sweep": self.swept or None,
            "noisy": self.is_noisy,
            "rows": [row.to_dict() for row in self.rows],
            "notes": list(self.notes),
        }

    def svg(self) -> str:
        """Return a plot: latency over the sizes of a sweep, or a bar for each contender."""
        return draw_plot(self.name, self.lines_of_plot(), self.swept)

    def lines_of_plot(self) -> list[Line]:
        """Return what the plot shows: a line for each contender, with a point for each size."""
        lines: dict[tuple[str, str], list[tuple[float, Estimate]]] = {}
        for row in self.rows:
            at = float(row.sizes.get(self.swept, 0)) if self.swept else 0.0
            lines.setdefault((row.model, row.engine), []).append((at, row.p50))
        return [Line(self._title(model, engine), tuple(points)) for (model, engine), points in lines.items()]

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
        """Write the plot as SVG to a file, and return its path in a list. It is replaced only with `force`."""
        path = Path(path)
        if path.suffix.lower() != ".svg":
            raise OutputError(f"a plot is written as .svg, and not as {str(path)!r}.")
        content = self.svg()

        def write(folder: Path) -> list[Path]:
            (folder / path.name).write_text(content, encoding="utf-8", newline="\n")
            return [folder / path.name]

        ours = re.compile(re.escape(path.name))
        return save_files(path.parent, path.name, write, ours=ours, last=path.name, force=force)

    def _title(self, model: str, engine: str) -> str:
        several = len({row.model for row in self.rows}) > 1
        engines = len({row.engine for row in self.rows}) > 1
        return f"{model} {engine}" if several and engines else model if several else engine

    def __str__(self) -> str:
        cells = [
            [
                "seconds of the processor" if self.clock == "processor" else "",
                "p50",
                "",
                "p90",
                "p99",
                "per s",
                "memory",
                "ratio",
                "",
            ]
        ]
        for sizes in dict.fromkeys(tuple(row.sizes.items()) for row in self.rows):
            here = [row for row in self.rows if tuple(row.sizes.items()) == sizes]
            if self.swept:
                cells.append([f"{self.swept}={dict(sizes)[self.swept]}"])
            cells += [self._cells(row, indent=bool(self.swept)) for row in here]
        lines = [self.name, *_aligned(cells)]
        return "\n".join([*lines, *(f"  note           {note}" for note in self.notes)])

    def _cells(self, row: Measured, *, indent: bool) -> list[str]:
        found = row.ratio
        told = "" if found is None else f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"
        return [
            f"{'  ' * indent}{self._title(row.model, row.engine)}",
            format_seconds(row.p50.value),
            f"[{format_seconds(row.p50.low)}, {format_seconds(row.p50.high)}]",
            "-" if row.p90 is None else format_seconds(row.p90.value),
            "-" if row.p99 is None else format_seconds(row.p99.value),
            f"{row.throughput:,.0f}" if row.throughput >= 100 else f"{row.throughput:.3g}",
            format_bytes(row.samples.memory),
            told or "1",
            VERDICTS.get(row.verdict, ""),
        ]


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Write rows as a table: names to the left, numbers to the right."""
    widths = [max((len(row[place]) for row in cells if len(row) > 1), default=0) for place in range(len(cells[0]))]
    lines: list[str] = []
    for first, *numbers in cells:
        parts = [f"{first:{widths[0]}}"]
        for place, text in enumerate(numbers, 1):
            parts.append(text if place == len(widths) - 1 else f"{text:>{widths[place]}}")
        lines.append(f"  {'  '.join(parts)}".rstrip())
    return lines
