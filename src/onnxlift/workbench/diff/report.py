"""The result of `diff`: the verdict and all that differs, for people and for programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from onnxlift.terminal import plain

from .changes import Fact, NodeChange, Renamed, Size, WeightChange, to_dict
from .text import counted, fact_lines, name_lines, size_lines, weight_lines
from .tree import node_lines

ASPECTS = ("interface", "names", "nodes", "weights", "opset", "metadata")
"""What may differ: `names` are those of inputs, outputs and sizes; `opset` has the IR version with it."""


@dataclass(frozen=True)
class DiffReport:
    """What changed from model `a` to model `b`. It is true if nothing did, and readable when printed."""

    a: str
    b: str
    sizes: tuple[Size, Size] = field(repr=False)
    matched: int = 0
    """How many nodes of the one are matched with nodes of the other."""
    interface: tuple[Fact, ...] = ()
    nodes: tuple[NodeChange, ...] = ()
    weights: tuple[WeightChange, ...] = ()
    opset: tuple[Fact, ...] = ()
    metadata: tuple[Fact, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    """Names inside the models that differ, which is no change."""
    reordered: bool = False
    """Whether matched nodes are in another order, which is no change."""
    notes: tuple[str, ...] = ()
    source: str | None = field(default=None, repr=False)
    """A unified diff of the lifted text of both; None if nobody asked, "" if it is the same."""

    @property
    def passed(self) -> bool:
        """Tell whether the models are the same."""
        return not (self.interface or self.nodes or self.weights or self.opset or self.metadata)

    @property
    def same(self) -> bool:
        """Tell whether the models are the same."""
        return self.passed

    def __bool__(self) -> bool:
        return self.passed

    @property
    def counts(self) -> dict[str, int]:
        """The number of changes by aspect; those of nodes by kind."""
        kinds = Counter(change.kind for change in self.nodes)
        return {
            "interface": len(self.interface),
            **{kind: kinds[kind] for kind in ("added", "removed", "moved", "changed")},
            "weights": len(self.weights),
            "opset": len(self.opset),
            "metadata": len(self.metadata),
        }

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        names = f"{plain(self.a)} and {plain(self.b)}"
        if self.passed:
            return f"{names} are the same"
        counts = self.counts
        parts = [counted(counts["interface"], "change") + " of the interface"] if counts["interface"] else []
        kinds = [(kind, counts[kind]) for kind in ("added", "removed", "moved", "changed") if counts[kind]]
        parts += [
            f"{counted(count, 'node')} {kind}" if place == 0 else f"{count:,} {kind}"
            for place, (kind, count) in enumerate(kinds)
        ]
        parts += [counted(counts["weights"], "weight")] if counts["weights"] else []
        parts += [aspect for aspect in ("opset", "metadata") if counts[aspect]]
        return f"{names} differ: {', '.join(parts)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists, for `json.dumps`."""
        sizes = {name: asdict(size) for name, size in zip("ab", self.sizes, strict=True)}
        found = {
            "same": self.same,
            "a": self.a,
            "b": self.b,
            "counts": self.counts,
            "sizes": sizes,
            "matched": self.matched,
            **{
                aspect: [to_dict(change) for change in getattr(self, aspect)]
                for aspect in ("interface", "nodes", "weights", "opset", "metadata", "renamed")
            },
            "reordered": self.reordered,
            "notes": list(self.notes),
        }
        return found if self.source is None else {**found, "source": self.source}

    def text(self, *, show_all: bool = False) -> str:
        """Return the report for people. If not `show_all`, long lists are summed up by module."""
        sections = {
            "interface": fact_lines(self.interface),
            "nodes": node_lines(self.nodes, show_all=show_all),
            "weights": weight_lines(self.weights, show_all=show_all),
            "opset": fact_lines(self.opset),
            "metadata": fact_lines(self.metadata),
            "sizes": size_lines(self.sizes, self.matched),
            "notes": [*name_lines(self.renamed, self.reordered), *map(plain, self.notes)],
        }
        lines = [self.verdict]
        for title, found in sections.items():
            if found:
                lines += ["", f"  {title}", *(f"    {line}" if line else "" for line in found)]
        if self.source is not None:
            lines += ["", self.source.rstrip("\n") or "  the lifted source is the same"]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()
