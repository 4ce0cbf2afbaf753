"""The result of `bisect`: whether the two sides agree, and if not, where the difference begins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.terminal import plain
from onnxlift.verification.report import describe_comparison
from onnxlift.verification.trace import Traced, trace_lines
from onnxlift.workbench.diff.changes import to_plain

from .reproducer import Reproducer

MOST_ROWS = 4
"""So many values before the first difference are shown, unless all are asked for."""
MOST_CHANGES = 6
MOST_NAMED = 5


@dataclass(frozen=True)
class Culprit:
    """The node to blame: what it reads agrees on both sides, and what it computes does not.

    `a` and `b` are the names of the node in the two models; None if only one of them has it. If it has a subgraph or
    calls a function, `inside` is the node in there."""

    operator: str
    a: str | None
    b: str | None
    module: str
    value: Traced
    nodes: tuple[tuple[str, ...], tuple[str, ...]]
    """The names of all nodes between the values that agree and the one that does not, in either model."""
    changes: tuple[str, ...] = ()
    """What differs between the models there: attributes, weights, operators."""
    reads: tuple[Traced, ...] = ()
    graph: str = ""
    """The branch, the loop's body or the function that it is in; "" for the main graph."""
    line: int = 0
    """The line of the lifted source that computes the value; 0 if there is none."""
    source: str = ""
    note: str = ""
    inside: Culprit | None = None

    @property
    def innermost(self) -> Culprit:
        """The node itself: of a call or a loop, the one inside, as far as it was found."""
        return self if self.inside is None else self.inside.innermost

    @property
    def title(self) -> str:
        if self.a is not None and self.b is not None and self.a != self.b:
            name = f"{quote(self.a)} ({quote(self.b)} in the second)"
        else:
            name = quote(self.a if self.a is not None else self.b or "")
        only = (
            ""
            if self.a is not None and self.b is not None
            else f", only in the {'first' if self.b is None else 'second'}"
        )
        return f"{plain(self.operator)} {name}{only}"

    def lines(self) -> list[str]:
        """Return what to tell of it, line by line."""
        lines = [f"node      {self.title}" + (f", in {plain(self.graph)}" if self.graph else "")]
        lines += [f"module    {plain(self.module)}"] if self.module else []
        lines += [f"diff      {change}" for change in self.changes[:MOST_CHANGES]]
        if len(self.changes) > MOST_CHANGES:
            lines.append(f"          and {len(self.changes) - MOST_CHANGES} more changes")
        for side, names in zip(("first", "second"), self.nodes, strict=True):
            others = [quote(name) for name in names if name not in (self.a, self.b)]
            if others and (side == "first" or self.nodes[0] != names):
                more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
                lines.append(f"with      {', '.join(others[:MOST_NAMED])}{more}, in the {side}")
        compared = self.value.comparisons
        wrong = next((each for each in compared if not each.passed), compared[0] if compared else None)
        told = "" if wrong is None else f": {describe_comparison(wrong)}"
        lines.append(f"value     {quote(self.value.value)}{told}")
        lines += [f"source    line {self.line}"] if self.line else []
        lines += [f"          {text}" for text in self.source.splitlines()] if self.line else []
        lines += [f"note      {self.note}"] if self.note else []
        if self.inside is not None:
            lines += ["inside", *(f"  {line}" for line in self.inside.lines())]
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain dicts and lists."""
        return {
            **{
                name: getattr(self, name)
                for name in ("operator", "a", "b", "module", "graph", "line", "source", "note")
            },
            "value": self.value.to_dict(),
            "reads": [each.to_dict() for each in self.reads],
            "nodes": [list(names) for names in self.nodes],
            "changes": list(self.changes),
            "inside": None if self.inside is None else self.inside.to_dict(),
        }


@dataclass(frozen=True)
class BisectReport:
    """Where two models, or two ways to run a model, first differ. It is true if they agree, and readable if printed."""

    a: str
    b: str
    runtimes: tuple[str, str]
    inputs: Mapping[str, str]
    """The inputs on which they differ, or the last ones that were tried."""
    seeds: tuple[int, ...]
    outputs: tuple[Traced, ...]
    culprit: Culprit | None = None
    others: tuple[Culprit, ...] = ()
    """Other places where a difference begins that the first one does not explain."""
    trace: tuple[Traced, ...] = field(default=(), repr=False)
    """The values that were compared, in the order of the nodes, up to the first that differs."""
    compared: int = 0
    """How many values inside were compared, in how many runs of each side."""
    runs: int = 0
    notes: tuple[str, ...] = ()
    reproducer: Reproducer | None = field(default=None, repr=False)

    @property
    def passed(self) -> bool:
        """Tell whether all outputs agree."""
        return all(output.passed for output in self.outputs)

    def __bool__(self) -> bool:
        return self.passed

    def save(self, folder: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
        """Write the reproducer to a folder: model.onnx, perhaps other.onnx, inputs.npz, reproduce.py."""
        if self.reproducer is None:
            raise OnnxLiftError("there is no reproducer to save: " + (self._no_reproducer() or "nothing differs."))
        return self.reproducer.save(Path(folder), force=force)

    def _no_reproducer(self) -> str:
        return next((note for note in self.notes if note.startswith("no reproducer")), "")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists, for `json.dumps`."""
        found = {
            "passed": self.passed,
            "a": self.a,
            "b": self.b,
            "runtimes": list(self.runtimes),
            "inputs": dict(self.inputs),
            "seeds": list(self.seeds),
            "outputs": [output.to_dict() for output in self.outputs],
            "culprit": None if self.culprit is None else self.culprit.to_dict(),
            "others": [other.to_dict() for other in self.others],
            "trace": [row.to_dict() for row in self.trace],
            "compared": self.compared,
            "runs": self.runs,
            "reproducer": None if self.reproducer is None else self.reproducer.to_dict(),
            "notes": list(self.notes),
        }
        plain_dict: dict[str, Any] = to_plain(found)
        return plain_dict

    def __str__(self) -> str:
        return self.text()

    def text(self, *, show_all: bool = False) -> str:
        """Return the report for people; with `show_all`, all values of the trace."""
        lines = [self._verdict()]
        lines += [f"  input     {plain(name)}  {kind}" for name, kind in self.inputs.items()]
        lines += [f"  note      {note}" for note in self.notes]
        for row in self.outputs if self.passed else ():
            lines += [f"  ok        {plain(each.name)}  {describe_comparison(each)}" for each in row.comparisons]
        details = self.details(show_all=show_all)
        return "\n".join([*lines, "", details] if details else lines)

    def details(self, *, show_all: bool = False) -> str:
        """Return the nodes to blame, and the values before them: a few, or with `show_all` all that were compared."""
        blocks = []
        if self.culprit is not None:
            blocks.append(["The difference begins here:", *(f"  {line}" for line in self.culprit.lines())])
        blocks += [["Another one begins here:", *(f"  {line}" for line in each.lines())] for each in self.others]
        if self.trace and (show_all or self.culprit is not None):
            rows = self.trace if show_all else self.trace[-1 - MOST_ROWS :]
            more = len(self.trace) - len(rows)
            told = [f"  ({more:,} more values before these were compared, and agree)"] if more else []
            blocks.append([*(f"  {line}" for line in trace_lines(rows)), *told])
        return "\n\n".join("\n".join(block) for block in blocks)

    def _verdict(self) -> str:
        a, b = plain(self.a), plain(self.b)
        with_ = " and ".join(dict.fromkeys(self.runtimes))
        if self.passed:
            return f"{a} and {b} agree ({with_})"
        if self.culprit is None:
            return f"{a} and {b} differ, and it could not be found where that begins ({with_})"
        return f"{a} and {b} differ, beginning at {self.culprit.innermost.title} ({with_})"
