"""Turn edges that cross borders into edges between the boxes at their ends, for formats that know no ports.

The edges of a value that enters a box by one port from several sources, and goes on to several readers, would be as
many as the product of both. There the port stays, as a point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .picture import BORDER, Box, Picture


@dataclass(eq=False)
class Leaf:
    """A box, a group of boxes, or a port that stays. `identity` is unique, and a plain word."""

    identity: str
    box: Box | None = None
    inside: list[Leaf] = field(default_factory=list)

    @property
    def is_group(self) -> bool:
        """Tell whether others are inside it."""
        return bool(self.inside)


@dataclass(frozen=True)
class LeafEdge:
    """An edge between two boxes, by their identities, with the type of its value."""

    source: str
    target: str
    label: str
    to_port: bool = False


Place = tuple[str, int, bool]
"""The identity of a box, a port, and whether it is one at the bottom."""


def flatten(picture: Picture) -> tuple[list[Leaf], list[LeafEdge]]:
    """Return the boxes, nested as they are, and the edges between those that hold no others."""
    collected = _Collected()
    leaves = collected.add(picture, "")
    points = {place: f"p{number}" for number, place in enumerate(collected.crossroads())}
    for place, point in points.items():
        collected.groups[place[0]].inside.append(Leaf(point))
    return leaves, list(collected.edges(points))


class _Collected:
    """The boxes of all levels, and the edges between their ports."""

    def __init__(self) -> None:
        self.groups: dict[str, Leaf] = {}
        self._labels: dict[Place, str] = {}
        self._down: dict[Place, list[Place]] = {}
        self._up: dict[Place, int] = {}
        self._number = 0

    def add(self, picture: Picture, around: str) -> list[Leaf]:
        leaves: list[Leaf] = []
        for box in picture.boxes:
            leaf = Leaf(f"b{self._number}", box)
            self._number += 1
            leaves.append(leaf)
            for port, each in enumerate(box.outputs):
                self._labels[leaf.identity, port, True] = each.label
            if box.inside is not None and box.inside.boxes:
                self.groups[leaf.identity] = leaf
                leaf.inside = self.add(box.inside, leaf.identity)
        for edge in picture.edges:
            source = (around, edge.source_port, False)
            target = (around, edge.target_port, True)
            if edge.source != BORDER:
                source = (leaves[edge.source].identity, edge.source_port, True)
            if edge.target != BORDER:
                target = (leaves[edge.target].identity, edge.target_port, False)
            self._down.setdefault(source, []).append(target)
            self._up[target] = self._up.get(target, 0) + 1
        return leaves

    def crossroads(self) -> Iterator[Place]:
        """Yield the ports of groups with several sources and several readers."""
        for place, count in self._up.items():
            if place[0] in self.groups and count > 1 and len(self._down.get(place, ())) > 1:
                yield place

    def edges(self, points: dict[Place, str]) -> Iterator[LeafEdge]:
        """Yield the edges from each box, or port that stays, to those that its values reach."""
        seen: set[LeafEdge] = set()
        starts = [place for place in self._down if place[2] and place[0] not in self.groups]
        for start in (*starts, *points):
            label = self._labels.get(start, "")
            name = points.get(start, start[0])
            stack = list(reversed(self._down.get(start, [])))
            while stack:
                place = stack.pop()
                if place in points or place[0] not in self.groups:
                    edge = LeafEdge(name, points.get(place, place[0]), label, place in points)
                    if edge not in seen:
                        seen.add(edge)
                        yield edge
                else:
                    stack.extend(reversed(self._down.get(place, [])))
