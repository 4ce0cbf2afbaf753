"""Hold what a layout works on: nodes with sizes, edges between their ports, and rows of nodes.

A node is a box, a port of the border, a tag (the name of a value that is drawn without a line), or a bend of an edge
that passes a row. Its `x` is the place of its axis; it reaches `left` and `right` of that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BOX, ENTRY, EXIT, TAG, BEND = "box", "entry", "exit", "tag", "bend"


@dataclass(eq=False)
class Node:
    """One node. `ins` and `outs` are the places of its ports, counted from its axis; a port without one is free.

    `order` is its place in the computation, `box` the number of its box or port."""

    kind: str
    order: int
    box: int = 0
    left: float = 0.0
    right: float = 0.0
    height: float = 0.0
    ins: tuple[float, ...] = ()
    outs: tuple[float, ...] = ()
    text: str = ""
    row: int = 0
    place: int = 0
    x: float = 0.0
    y: float = 0.0
    up: list[Link] = field(default_factory=list)
    down: list[Link] = field(default_factory=list)

    def out_at(self, port: int) -> float:
        """Return where a port at the bottom is, counted from the axis."""
        return self.outs[port] if port < len(self.outs) else 0.0

    def in_at(self, port: int) -> float:
        """Return where a port at the top is, counted from the axis; on the axis if it is free."""
        return self.ins[port] if port < len(self.ins) else 0.0


@dataclass(eq=False)
class Link:
    """An edge, or a part of one, between nodes of two rows. `value` tells which value it carries: a source and a port.

    After the layout, `start` and `end` are the x of its ends."""

    source: Node
    source_port: int
    target: Node
    target_port: int
    value: tuple[int, int] = (0, 0)
    start: float = 0.0
    end: float = 0.0

    @property
    def shift(self) -> float:
        """How far the target's axis is to the right of the source's, if the link is straight."""
        return self.source.out_at(self.source_port) - self.target.in_at(self.target_port)


def connect(link: Link) -> None:
    """Enter a link at both of its ends."""
    link.source.down.append(link)
    link.target.up.append(link)
