"""A trace: the values inside a model in the order of its nodes, each with how far two sides are apart there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from onnxlift.terminal import plain

from .compare import Comparison

WIDEST = 60
"""Longer names are cut in a table."""


@dataclass(frozen=True)
class Traced:
    """A value, the node that computes it, and how the two sides compare there.

    A sequence has as many comparisons as elements. `other` is the name of the value on the second side, if that is not
    simply the same value."""

    value: str
    node: str
    operator: str
    comparisons: tuple[Comparison, ...]
    other: str = ""

    @property
    def passed(self) -> bool:
        return all(each.passed for each in self.comparisons)

    @property
    def is_equal(self) -> bool:
        """Tell whether no number differs, not even in the last digit."""
        return self.passed and not self.max_abs

    @property
    def max_abs(self) -> float | None:
        return max((each.max_abs for each in self.comparisons if each.max_abs is not None), default=None)

    @property
    def max_rel(self) -> float | None:
        return max((each.max_rel for each in self.comparisons if each.max_rel is not None), default=None)

    @property
    def problem(self) -> str:
        return next((each.problem for each in self.comparisons if each.problem), "")

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain dicts and lists."""
        comparisons = [{**asdict(each), "passed": each.passed} for each in self.comparisons]
        names = {name: getattr(self, name) for name in ("value", "node", "operator", "other")}
        return {**names, "comparisons": comparisons}


def trace_lines(rows: Sequence[Traced]) -> list[str]:
    """Write the rows as a table: the value, its operator, its form, the distances, and what is wrong."""
    cells = [
        ["value", "operator", "form", "max abs", "max rel", ""],
        *(
            [
                _cut(row.value) + (f" (there {_cut(row.other)})" if row.other else ""),
                _cut(row.operator),
                _form(row),
                _number(row.max_abs),
                _number(row.max_rel),
                row.problem and f"DIFFERS: {plain(row.problem)}",
            ]
            for row in rows
        ),
    ]
    widths = [max(len(line[place]) for line in cells) for place in range(5)]
    return [
        "  ".join([*(f"{text:{width}}" for text, width in zip(line, widths, strict=False)), line[5]]).rstrip()
        for line in cells
    ]


def _cut(name: str) -> str:
    text = plain(name)
    return text if len(text) <= WIDEST else f"...{text[3 - WIDEST :]}"


def _form(row: Traced) -> str:
    first = row.comparisons[0] if row.comparisons else None
    if first is None:
        return ""
    more = f" and {len(row.comparisons) - 1} more" if len(row.comparisons) > 1 else ""
    return f"{first.dtype} {first.shape}{more}"


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}"
