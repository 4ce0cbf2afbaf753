"""What `profile` tells of a model, as text, JSON, CSV, and as a treemap."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnxlift.errors import OnnxLiftError, OutputError
from onnxlift.saving import save_files
from onnxlift.unforeseen import answered

from .amount import Amount
from .measured import Measured
from .rows import GroupCosts, NodeCosts

FORMATS = ("csv", "json", "svg")
GROUPS = ("operator", "module", "node")
COLUMNS = ("flops", "macs", "parameters", "bytes", "time")


@dataclass(frozen=True)
class Profile:
    """What a model costs. In a notebook it shows itself as a treemap."""

    name: str
    total: GroupCosts
    nodes: tuple[NodeCosts, ...] = field(repr=False)
    """All nodes in the order of execution, those in a graph of another one after it."""
    operators: tuple[GroupCosts, ...] = field(repr=False)
    modules: tuple[GroupCosts, ...] = field(repr=False)
    """Each module with all that is below it, in the order of execution."""
    peak: Amount
    """The most bytes that activations take at a time."""
    peak_node: str = ""
    """The node that runs then; "" if that depends on sizes."""
    dimensions: Mapping[str, str] = field(default_factory=dict)
    """The open sizes that formulas are written with: what each of them is."""
    iterations: Mapping[str, str] = field(default_factory=dict)
    """The symbols for the iterations of loops: the node that each is about."""
    example: Mapping[str, int] = field(default_factory=dict)
    """Numbers for open sizes, by which rows are sorted and drawn."""
    measured: Measured | None = None
    strict: bool = False
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Tell whether there is an answer; if `strict`, whether nothing in it is unknown."""
        return not (self.strict and self.total.unknown)

    def __bool__(self) -> bool:
        return self.passed

    @property
    def unknown(self) -> tuple[NodeCosts, ...]:
        """The nodes with a cost that is not known."""
        return tuple(row for row in self.nodes if row.reason)

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as plain dicts and lists, for `json.dumps`."""
        return {
            "passed": self.passed,
            "total": self.total.to_dict(),
            "peak_bytes": self.peak.plain(),
            "peak_node": self.peak_node,
            "dimensions": dict(self.dimensions),
            "iterations": dict(self.iterations),
            "operators": [group.to_dict() for group in self.operators],
            "modules": [group.to_dict() for group in self.modules],
            "nodes": [row.to_dict() for row in self.nodes],
            "unknown": [{"name": row.name, "operator": row.operator, "reason": row.reason} for row in self.unknown],
            "measured": None if self.measured is None else self.measured.to_dict(),
            "notes": list(self.notes),
        }

    def table(
        self, by: str | Sequence[str] = (), *, depth: int | None = None, sort: str | None = None, top: int | None = None
    ) -> str:
        """Return the profile as text: the whole, and tables by operator, module or node, or by what is in `by`.

        `depth` is the number of levels of modules, `sort` the column that rows are sorted by, and `top` the number of
        rows."""
        from .table import write_table

        wanted = [by] if isinstance(by, str) else list(by)
        for each in wanted:
            if each not in GROUPS:
                raise OnnxLiftError(f"there is no table by {each!r}: they are by {', '.join(GROUPS)}.")
        return write_table(self, wanted or ["operator", "module"], depth, known_column(sort, self), top)

    def csv(self) -> str:
        """Return all nodes as CSV."""
        from .csv_text import write_csv

        with answered():
            return write_csv(self.nodes)

    def svg(self, sort: str | None = None) -> str:
        """Return a treemap: modules in modules, and nodes in these, as large as their share of what `sort` names."""
        from .treemap import write_treemap

        with answered():
            return write_treemap(self, known_column(sort, self))

    def render(self, format: str, *, sort: str | None = None) -> bytes:
        """Return the profile in a format: csv, json or svg."""
        format = known_format(format)
        if format == "svg":
            return self.svg(sort).encode()
        return (self.csv() if format == "csv" else json.dumps(self.to_dict(), indent=2) + "\n").encode()

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        format: str | None = None,
        sort: str | None = None,
    ) -> list[Path]:
        """Write the profile to a file, in the format that its suffix tells, and return the files that were written.

        A file that is there already is replaced only with `force`."""
        path = Path(path)
        content = self.render(format or format_of(path), sort=sort)

        def write(folder: Path) -> list[Path]:
            (folder / path.name).write_bytes(content)
            return [folder / path.name]

        ours = re.compile(re.escape(path.name))
        return save_files(path.parent, path.name, write, ours=ours, last=path.name, force=force)

    def _repr_svg_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        return self.table()


def known_column(name: str | None, profile: Profile) -> str:
    """Return the column to sort by: the one that is named, or else the time, if it was measured, or FLOPs."""
    if name is None:
        return "flops" if profile.measured is None else "time"
    if name not in COLUMNS:
        raise OnnxLiftError(f"there is no column {name!r} to sort by: they are {', '.join(COLUMNS)}.")
    if name == "time" and profile.measured is None:
        raise OnnxLiftError("the time was not measured, so nothing can be sorted by it: add --measure (measure=True).")
    return name


def known_format(name: str) -> str:
    """Return the format of a name. Raises an error that lists all if there is none."""
    if name.lower() not in FORMATS:
        raise OutputError(f"{name!r} is no format of profiles: they are {', '.join(FORMATS)}.")
    return name.lower()


def format_of(path: Path) -> str:
    """Return the format that the suffix of a file tells."""
    if not path.suffix:
        raise OutputError(f"{str(path)!r} has no suffix that tells a format: .csv, .json or .svg.")
    return known_format(path.suffix[1:])


def weight_of(row: GroupCosts | NodeCosts, column: str, example: Mapping[str, int]) -> float:
    """Return a number to compare rows by: what a column says for one run of the model, at example sizes."""
    costs = row.costs
    if column == "time":
        return costs.seconds or 0.0
    amount: Amount = getattr(costs, column)
    if isinstance(row, NodeCosts) and column != "parameters":
        amount = amount * row.times
    found = amount.at(example)
    return float(next((size for size in (found.high, found.low) if isinstance(size, int)), 0))
