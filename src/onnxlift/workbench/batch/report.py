"""What a batch returns: a row for each model, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxlift.terminal import plain

from .records import Row

MOST_SHOWN = 30
LONGEST = 160


@dataclass(frozen=True)
class BatchReport:
    """What became of all models, in the order of the configuration. It is true if all have passed."""

    name: str
    folder: Path
    rows: tuple[Row, ...]
    seconds: float = 0.0
    stopped: int = 0
    """The number of models that were not worked on, since an earlier one failed (`on_error: stop`)."""
    page: Path | None = None
    """The page with the table of all models."""
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Tell whether all models have passed all steps."""
        return not self.stopped and all(row.passed for row in self.rows)

    def __bool__(self) -> bool:
        return self.passed

    @property
    def failed(self) -> list[Row]:
        """The rows of the models that have not passed."""
        return [row for row in self.rows if not row.passed]

    @property
    def counts(self) -> dict[str, int]:
        """The number of models by what became of them: passed, failed, error, timeout, memory, crash."""
        return dict(Counter(row.kind for row in self.rows))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists, for `json.dumps`."""
        return {
            "passed": self.passed,
            "counts": self.counts,
            "kept": sum(row.kept for row in self.rows),
            "stopped": self.stopped,
            "seconds": self.seconds,
            "folder": str(self.folder),
            "notes": list(self.notes),
            "rows": [row.to_dict() for row in self.rows],
        }

    def __str__(self) -> str:
        return "\n".join([*self._failures(self.failed), self.closing])

    @property
    def closing(self) -> str:
        """The end of the text: the summary, what a reader should know, and where the report is."""
        page = [] if self.page is None else [f"  report         {self.page}"]
        return "\n".join([self.summary, *(f"  note           {note}" for note in self.notes), *page])

    @property
    def summary(self) -> str:
        """One line: how many models passed, what the others died of, and how many were done before."""
        total, failed = len(self.rows) + self.stopped, self.failed
        kinds = Counter(row.kind for row in failed)
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        parts = [f"{len(self.rows) - len(failed):,} of {total:,} models passed"]
        parts += [f"{len(failed):,} did not ({told})"] if failed else []
        parts += [f"{self.stopped:,} were not tried after a failure"] if self.stopped else []
        kept = sum(row.kept for row in self.rows)
        parts += [f"{kept:,} had been done before"] if kept else []
        return f"{'; '.join(parts)}; {self.seconds:.1f} s"

    @staticmethod
    def _failures(failed: Sequence[Row]) -> list[str]:
        lines = [failure_line(row) for row in failed[:MOST_SHOWN]]
        if len(failed) > MOST_SHOWN:
            lines.append(f"... and {len(failed) - MOST_SHOWN:,} more: the report has them all")
        return lines


def failure_line(row: Row) -> str:
    """Return one line on a model that has not passed."""
    first = plain(row.reason.split("\n")[0])
    return f"{plain(row.model)}: {row.kind} in {first if len(first) <= LONGEST else f'{first[:LONGEST]}...'}"
