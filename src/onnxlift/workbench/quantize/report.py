"""What `quantize` tells: the noise of outputs and layers, what stayed in float, size and speed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from onnxlift.sizes import format_bytes

from ..extract import quoted
from ..report import ModelReport
from .recipe import Recipe
from .sqnr import EXACT, MEASURED

FLOOR = 10.0
"""The SQNR in decibels that every output must have if nobody asks for another: noise of a tenth of the signal."""
FEWEST_EQUAL = 0.9
"""The share of whole numbers of an output that must be the same."""
MOST_SHOWN = 10


@dataclass(frozen=True)
class Quality:
    """How close a value is to that of the original, over all samples that were measured.

    `sqnr` is in decibels, and None if the state is not "measured": "exact", "not finite", "other shape", "no numbers".
    `largest` is the largest difference, `equal` the share of numbers that are the same."""

    name: str
    state: str
    sqnr: float | None
    largest: float
    equal: float | None
    whole: bool = False

    @classmethod
    def of(cls, name: str, data: Mapping[str, Any]) -> Self:
        return cls(name, **data)

    def reaches(self, bound: float) -> bool:
        """Tell whether it is good enough: an SQNR of so many decibels, or nine tenths of whole numbers equal."""
        if self.whole:
            return self.state in (MEASURED, EXACT) and (self.equal is None or self.equal >= FEWEST_EQUAL)
        return self.state == EXACT or (self.sqnr is not None and self.sqnr >= bound)

    def __str__(self) -> str:
        if self.whole and self.equal is not None:
            return f"{self.equal:.1%} of its whole numbers are the same"
        if self.sqnr is not None:
            return f"{self.sqnr:.1f} dB"
        return {"not finite": "NOT FINITE", "other shape": "OTHER SHAPE"}.get(self.state, self.state)


@dataclass(frozen=True)
class Layer:
    """A node that is quantised, or was kept in float for a reason.

    `own` is the noise that it adds by itself, `total` that which has come together there in the result."""

    name: str
    op_type: str
    own: Quality | None = None
    total: Quality | None = None
    kept: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name,
            "op_type": self.op_type,
            "own": None if self.own is None else _plain(self.own),
            "total": None if self.total is None else _plain(self.total),
            "kept": self.kept,
        }

    @property
    def power(self) -> float:
        """The noise that it adds by itself, as a share of its signal. Without bounds if it gives no numbers."""
        if self.own is None or self.own.state == EXACT:
            return 0.0
        return float("inf") if self.own.sqnr is None else 10 ** (-self.own.sqnr / 10)


@dataclass(frozen=True)
class Speed:
    """Seconds of a run before and after (medians of runs by turns), how many times as fast, and the middle half of
    that ratio over all pairs of runs."""

    before: float
    after: float
    ratio: float
    quartiles: tuple[float, float]
    runs: int

    def __str__(self) -> str:
        low, high = self.quartiles
        times = f"{_milliseconds(self.before)} -> {_milliseconds(self.after)}"
        clear = "" if low > 1 or high < 1 else ": too close to tell"
        return f"{times}, {self.ratio:.2f} times as fast ({low:.2f} to {high:.2f} in {self.runs} pairs of runs){clear}"


@dataclass(frozen=True)
class QuantizeReport(ModelReport):
    """A quantised model, and what that has cost."""

    recipe: Recipe = field(default_factory=lambda: Recipe("dynamic"))
    outputs: tuple[Quality, ...] = ()
    """The noise of each output; empty if it was not measured."""
    layers: tuple[Layer, ...] = ()
    """The nodes that are quantised, and those that were kept in float, in the order of the graph."""
    bytes_before: int = 0
    bytes_after: int = 0
    """The size of the files."""
    speed: Speed | None = None
    target: float | None = None
    samples: int = 0
    """How many samples the ranges are from."""
    measured_on: int = 0
    made_up: bool = False
    """Whether the noise was measured on inputs that were made up."""
    probes: tuple[tuple[int, float | None], ...] = ()
    """What the search for nodes to keep tried: their number, and the SQNR of the worst output."""

    @property
    def bound(self) -> float:
        """The SQNR that every output must have."""
        return FLOOR if self.target is None else self.target

    @property
    def passed(self) -> bool:
        """Tell whether every output is as close to the original's as it must be, if that was measured."""
        return all(output.reaches(self.bound) for output in self.outputs)

    @property
    def why_not_written(self) -> str:
        return f"an output is below {self.bound:g} dB: " + super().why_not_written

    @property
    def sqnr(self) -> float | None:
        """The SQNR of the worst output; None if it was not measured, or none has noise."""
        return worst(self.outputs)

    @property
    def kept(self) -> tuple[Layer, ...]:
        """The nodes that were kept in float."""
        return tuple(layer for layer in self.layers if layer.kept)

    def facts(self) -> dict[str, Any]:
        return {
            "recipe": self.recipe.to_dict(),
            "bound": self.bound,
            "target": self.target,
            "sqnr": self.sqnr,
            "outputs": [{**_plain(output), "passed": output.reaches(self.bound)} for output in self.outputs],
            "layers": [layer.to_dict() for layer in self.layers],
            "bytes": {"before": self.bytes_before, "after": self.bytes_after},
            "speed": None if self.speed is None else {**asdict(self.speed), "quartiles": list(self.speed.quartiles)},
            "samples": {"calibrated": self.samples, "measured": self.measured_on, "made_up": self.made_up},
            "probes": [{"kept": kept, "sqnr": sqnr} for kept, sqnr in self.probes],
        }

    def lines(self) -> list[str]:
        lines = [f"  quantised      {self.recipe}"]
        size = f"{format_bytes(self.bytes_before)} -> {format_bytes(self.bytes_after)}"
        lines.append(f"  size           {size}, {self.bytes_before / max(1, self.bytes_after):.2f} times smaller")
        if self.speed is not None:
            lines.append(f"  speed          {self.speed}")
        if self.samples:
            lines.append(f"  ranges from    {_samples(self.samples)}")
        if self.outputs:
            source = "made-up inputs, not real samples" if self.made_up else _samples(self.measured_on)
            lines.append(f"  noise          measured on {source}; each output must have {self.bound:g} dB")
            width = max(len(quoted(output.name)) for output in self.outputs)
            for output in self.outputs:
                verdict = "" if output.reaches(self.bound) else "  TOO LOW"
                lines.append(f"    output       {quoted(output.name):{width}}  {output}{verdict}")
        return lines + self._layer_lines()

    def _layer_lines(self) -> list[str]:
        quantised = [layer for layer in self.layers if not layer.kept]
        lines = [f"  layers         {len(quantised):,} quantised, {len(self.kept):,} kept in float"]
        noisy = sorted((layer for layer in quantised if layer.own is not None), key=lambda layer: -layer.power)
        if noisy:
            lines += _table(noisy[:MOST_SHOWN])
        for layer in self.kept[:MOST_SHOWN]:
            lines.append(f"    kept         {quoted(layer.name)} ({layer.op_type}): {layer.kept}")
        if len(self.kept) > MOST_SHOWN:
            lines.append(f"    kept         ... and {len(self.kept) - MOST_SHOWN:,} more")
        return lines

    def page(self) -> str:
        """Return the report as a page of HTML with a plot, in one file that asks for no other."""
        from .page import page_of

        return page_of(self)

    def save_page(self, path: str | Path, *, force: bool = False) -> list[Path]:
        """Write the page to `path`, and return it in a list. A file that is there is replaced only with `force`."""
        from .page import write_page

        return write_page(self, Path(path), force=force)


def worst(outputs: Iterable[Quality]) -> float | None:
    """Return the lowest SQNR of these; None if none was measured. One that is not finite counts as minus infinity."""
    found = [output.sqnr for output in outputs if output.sqnr is not None and not output.whole]
    return min(found, default=None)


def _plain(quality: Quality) -> dict[str, Any]:
    return {key: value for key, value in asdict(quality).items() if key != "whole"}


def _table(layers: list[Layer]) -> list[str]:
    names = [f"{_short(quoted(layer.name))} ({layer.op_type})" for layer in layers]
    title = "the noisiest"
    width = max(len(title) + 2, *map(len, names))
    return [f"    {title:{width + 2}}  by itself     in all"] + [
        f"      {name:{width}}  {layer.own!s:>9}  {'' if layer.total is None else str(layer.total):>9}"
        for name, layer in zip(names, layers, strict=True)
    ]


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"...{text[3 - most :]}"


def _samples(count: int) -> str:
    return f"{count:,} sample{'s' if count != 1 else ''}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
