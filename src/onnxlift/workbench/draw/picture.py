"""Hold a picture before it is laid out: boxes with ports, edges between them, and pictures inside boxes.

A box has ports at its top, where values come in, and at its bottom, where they leave. If there is a picture inside, the
values cross the border of the box: in the inner picture an edge begins or ends at `BORDER`, at the port's number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

BORDER = -1
"""Stands for the box around a picture, in the edges of that picture."""

INPUT, OUTPUT, MODULE, LAYER, CALL, NODE, CONTROL, FUNCTION = (
    "input",
    "output",
    "module",
    "layer",
    "call",
    "node",
    "control",
    "function",
)
"""The kinds of boxes. A call is code without weights; control is a branch or a loop."""


@dataclass(frozen=True)
class Port:
    """A value where it enters or leaves a box: its name in the model, and its type for people."""

    name: str = ""
    label: str = ""


@dataclass
class Box:
    """One box: `title` is its class or operator, `name` its name in the module around it, `path` that in the model.

    `lines` stand below the title, `detail` is the whole text where the title is cut. `times` is the number of equal
    boxes in a row that it stands for. `inputs` are the ports at its top."""

    kind: str
    title: str
    name: str = ""
    path: str = ""
    lines: tuple[str, ...] = ()
    detail: str = ""
    family: str = ""
    times: int = 1
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    inside: Picture | None = None
    hidden: int = 0
    """The number of boxes inside that are not shown."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data; the picture inside is listed with its own boxes and edges."""
        facts: dict[str, Any] = {"kind": self.kind, "title": self.title, "name": self.name, "path": self.path}
        facts |= {"lines": list(self.lines), "times": self.times, "hidden": self.hidden}
        for side, ports in (("inputs", self.inputs), ("outputs", self.outputs)):
            facts[side] = [{"name": port.name, "type": port.label} for port in ports]
        facts["inside"] = None if self.inside is None else self.inside.to_dict()
        return facts


@dataclass(frozen=True)
class Edge:
    """A value on its way from a port at the bottom of one box to a port at the top of another.

    Boxes are counted from 0 in their picture; `BORDER` is the box around it."""

    source: int
    source_port: int
    target: int
    target_port: int


@dataclass
class Picture:
    """Boxes in the order of the computation, and the edges between them. No edge leads to an earlier box."""

    boxes: list[Box] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    def walk(self) -> Iterator[Box]:
        """Yield all boxes, those inside a box after it."""
        for box in self.boxes:
            yield box
            if box.inside is not None:
                yield from box.inside.walk()

    def count(self) -> tuple[int, int]:
        """Return how many boxes and edges there are, with those inside boxes."""
        inner = [box.inside.count() for box in self.boxes if box.inside is not None]
        return len(self.boxes) + sum(n for n, _ in inner), len(self.edges) + sum(n for _, n in inner)

    def to_dict(self) -> dict[str, Any]:
        """Return boxes and edges as plain data. An edge has the places of its boxes in `boxes`; -1 is the border."""
        return {
            "boxes": [box.to_dict() for box in self.boxes],
            "edges": [
                {
                    "from": edge.source,
                    "from_port": edge.source_port,
                    "to": edge.target,
                    "to_port": edge.target_port,
                }
                for edge in self.edges
            ],
        }
