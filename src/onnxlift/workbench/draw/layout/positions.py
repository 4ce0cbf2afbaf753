"""Give each node its place from left to right, so that main chains are straight.

1. Links are chosen that are drawn straight: at most one up and one down a node, none crossing another, first those
   between bends, then those on the longest paths. Nodes that they join are a column, which moves as one.
2. Nodes of a row must not overlap. So every column has columns left and right of it. They are packed to the left, and
   then moved, again and again, each as far as its neighbours let it, to the median of where its links want it.

Each round costs the nodes and links once.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from .graph import BEND, TAG, Link, Node

ROUNDS = 12
GAP = 22.0
MOST_SIBLINGS = 8  # among which a link is looked for that is in the middle


class Column:
    """Nodes that move as one. The axis of a node is `offsets[node]` to the right of the column's `x`."""

    __slots__ = ("lefts", "nodes", "offsets", "rights", "x")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.offsets: dict[Node, float] = {}
        self.x = 0.0
        self.lefts: list[tuple[Column, float]] = []
        self.rights: list[tuple[Column, float]] = []


def place_columns(rows: Sequence[Sequence[Node]]) -> None:
    """Set the `x` of all nodes. The nodes of each row must be in their order."""
    column_of = _columns(rows, _straight(rows))
    columns = list(dict.fromkeys(column_of[node] for row in rows for node in row))
    _neighbours(rows, column_of)
    order = _from_the_left(columns)
    for column in order:
        column.x = max((left.x + distance for left, distance in column.lefts), default=0.0)
    rounds = ROUNDS if len(columns) < 20_000 else 4
    for number in range(rounds):
        for column in reversed(order) if number % 2 == 0 else order:
            _move(column, column_of)
    for column in columns:
        for node, offset in column.offsets.items():
            node.x = column.x + offset


def _weight(link: Link) -> int:
    ends = {link.source.kind, link.target.kind}
    if ends == {BEND}:
        return 3
    return 1 if ends & {BEND, TAG} else 2


def _straight(rows: Sequence[Sequence[Node]]) -> list[Link]:
    """Return the links to draw straight."""
    above: dict[Node, int] = {}
    below: dict[Node, int] = {}
    for row in rows:
        for node in row:
            above[node] = max((above[link.source] + (link.source.kind != BEND) for link in node.up), default=0)
    for row in reversed(rows):
        for node in row:
            below[node] = max((below[link.target] + (link.target.kind != BEND) for link in node.down), default=0)
    chosen: list[Link] = []
    for row in rows[1:]:
        links = [link for node in row for link in node.up]
        ranked = [
            (-_weight(link), -(above[link.source] + below[link.target]), _off_centre(link), number)
            for number, link in enumerate(links)
        ]
        chosen += _without_crossings([links[number] for *_, number in sorted(ranked)])
    return chosen


def _off_centre(link: Link) -> float:
    """Return how far a link is from the middle one of those at its ends."""
    off = 0.0
    if len(link.target.up) <= MOST_SIBLINGS:
        places = sorted(each.source.place for each in link.target.up)
        off += abs(places.index(link.source.place) - (len(places) - 1) / 2)
    if len(link.source.down) <= MOST_SIBLINGS:
        places = sorted(each.target.place for each in link.source.down)
        off += abs(places.index(link.target.place) - (len(places) - 1) / 2)
    return off


def _without_crossings(links: Sequence[Link]) -> Iterator[Link]:
    """Yield links of two rows, the first ones preferred, that share no end and do not cross."""
    taken: set[tuple[str, int]] = set()
    found: list[tuple[int, int]] = []
    for link in links:
        ends = (link.source.place, link.target.place)
        if ("up", ends[0]) in taken or ("down", ends[1]) in taken:
            continue
        index = bisect_left(found, ends)
        if index and found[index - 1][1] > ends[1]:
            continue
        if index < len(found) and found[index][1] < ends[1]:
            continue
        insort(found, ends)
        taken |= {("up", ends[0]), ("down", ends[1])}
        yield link


def _columns(rows: Sequence[Sequence[Node]], straight: Sequence[Link]) -> dict[Node, Column]:
    upper = {link.target: link for link in straight}
    column_of: dict[Node, Column] = {}
    for row in rows:
        for node in row:
            link = upper.get(node)
            column = Column() if link is None else column_of[link.source]
            column.offsets[node] = 0.0 if link is None else column.offsets[link.source] + link.shift
            column.nodes.append(node)
            column_of[node] = column
    return column_of


def _neighbours(rows: Sequence[Sequence[Node]], column_of: dict[Node, Column]) -> None:
    """Note for each column those beside it, and how far apart they must be."""
    distances: dict[tuple[Column, Column], float] = {}
    for row in rows:
        for left, right in pairwise(row):
            first, second = column_of[left], column_of[right]
            distance = left.right + GAP + right.left + first.offsets[left] - second.offsets[right]
            distances[first, second] = max(distances.get((first, second), distance), distance)
    for (first, second), distance in distances.items():
        first.rights.append((second, distance))
        second.lefts.append((first, distance))


def _from_the_left(columns: Sequence[Column]) -> list[Column]:
    """Return the columns so that each comes after all that are left of it."""
    waiting = {column: len(column.lefts) for column in columns}
    ready = [column for column in reversed(columns) if not column.lefts]
    ordered: list[Column] = []
    while ready:
        column = ready.pop()
        ordered.append(column)
        for right, _ in column.rights:
            waiting[right] -= 1
            if not waiting[right]:
                ready.append(right)
    assert len(ordered) == len(columns), "columns that do not cross have an order"
    return ordered


def _move(column: Column, column_of: dict[Node, Column]) -> None:
    """Move a column to where its links are shortest, as far as its neighbours let it."""
    wishes: list[float] = []
    for node in column.nodes:
        offset = column.offsets[node]
        for link in node.up:
            other = column_of[link.source]
            if other is not column:
                wishes += [other.x + other.offsets[link.source] + link.shift - offset] * _weight(link)
        for link in node.down:
            other = column_of[link.target]
            if other is not column:
                wishes += [other.x + other.offsets[link.target] - link.shift - offset] * _weight(link)
    if not wishes:
        return
    x = median(wishes)
    x = min(x, min((right.x - distance for right, distance in column.rights), default=x))
    column.x = max(x, max((left.x + distance for left, distance in column.lefts), default=x))
