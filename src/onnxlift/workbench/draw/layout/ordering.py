"""Order the nodes of each row so that few edges cross: sweeps down and up, by the barycentre of the neighbours.

A sweep costs the edges once, and their sorting. The best order that was seen is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from .graph import Link, Node

Row = list[Node]


def order_rows(rows: list[Row], sweeps: int | None = None) -> None:
    """Sort the nodes of each row, and number them by `place`."""
    size = sum(map(len, rows))
    sweeps = sweeps if sweeps is not None else 12 if size < 3_000 else 4
    _number(rows)
    best, fewest = [list(row) for row in rows], count_crossings(rows)
    for sweep in range(sweeps):
        if not fewest:
            break
        down = sweep % 2 == 0
        for row in rows[1:] if down else rows[-2::-1]:
            _sort(row, down)
        crossings = count_crossings(rows)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    for row, ordered in zip(rows, best, strict=True):
        row[:] = ordered
    _number(rows)


def _number(rows: Sequence[Row]) -> None:
    for row in rows:
        for place, node in enumerate(row):
            node.place = place


def _sort(row: Row, down: bool) -> None:
    """Sort a row by the mean place of the neighbours above, or below. Nodes without any stay where they are."""
    if len(row) < 2:
        return
    keys: dict[Node, float] = {}
    for place, node in enumerate(row):
        near = [_above(link) for link in node.up] if down else [_below(link) for link in node.down]
        keys[node] = sum(near) / len(near) if near else -1.0 - place
    fixed = {place: node for place, node in enumerate(row) if keys[node] < 0 or keys[node] == -1.0 - place}
    moving = iter(sorted((node for place, node in enumerate(row) if place not in fixed), key=keys.__getitem__))
    row[:] = [fixed[place] if place in fixed else next(moving) for place in range(len(row))]
    for place, node in enumerate(row):
        node.place = place


def _above(link: Link) -> float:
    """Return the place of a link's source; its ports lie between it and the next node."""
    return link.source.place + link.source_port / (len(link.source.outs) + 1)


def _below(link: Link) -> float:
    return link.target.place + link.target_port / (len(link.target.ins) + 1)


def count_crossings(rows: Sequence[Row]) -> int:
    """Return how many edges cross, in n log n steps: by counting inversions."""
    total = 0
    for row in rows[1:]:
        ends: list[tuple[float, float]] = []
        for node in row:
            ends += [(_above(link), _below(link)) for link in node.up]
        ends.sort()
        total += _inversions([end for _, end in ends])
    return total


def _inversions(ends: Sequence[float]) -> int:
    ranks = {end: rank for rank, end in enumerate(sorted(set(ends)), 1)}
    tree = [0] * (len(ranks) + 1)
    found = 0
    for seen, end in enumerate(ends):
        rank = ranks[end]
        index, below = rank, 0
        while index:
            below += tree[index]
            index -= index & -index
        found += seen - below
        index = rank
        while index < len(tree):
            tree[index] += 1
            index += index & -index
    return found
