"""Match nodes that stand in the same place with another operator.

1. All that they read and all that reads them is matched.
2. Or at least all that they read is matched, there is no other such node, and they take as many values and constants:
   an Add that became a Sub, also if the next node changed as well.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from .view import Item

if TYPE_CHECKING:
    from .matching import Matching

MOST_ROUNDS = 8
"""How often replaced operators are looked for: one match may make room for the next."""


def match_replaced(matching: Matching) -> None:
    """Match what has been replaced."""
    for _ in range(MOST_ROUNDS):
        if not _same_neighbours(matching):
            break
    _in_step(matching)


def _same_neighbours(matching: Matching) -> int:
    """Match items with the same first input and the same readers, and return how many."""
    places: dict[Hashable, list[Item]] = {}
    for b in matching.left(1):
        place = _place(matching, b, 1)
        if place is not None:
            places.setdefault(place, []).append(b)
    count = 0
    for a in matching.left(0):
        found = places.get(_place(matching, a, 0), [])
        if len(found) == 1 and found[0] not in matching.partner[1]:
            matching.pair(a, found[0])
            count += 1
    return count


def _place(matching: Matching, item: Item, side: int) -> Hashable:
    """Return where an item stands, by its first input and its readers; None if a neighbour has no match."""
    body, view = matching.graphs[side], matching.labels[side].side
    read = [value for value in item.operands if value is not None and view.tensor(value) is None]
    first = matching.source(read[0], side) if read else None
    readers = [
        (matching.number(reader, side), place)
        for value in item.outputs
        for reader, place in body.readers.get(value, ())
    ]
    if first is None or any(number is None for number, _ in readers):
        return None
    returned = [number for value in item.outputs for number in matching.returned[side].get(value, ())]
    return (first, tuple(sorted(readers, key=str)), tuple(returned)) if readers or returned else None


def _in_step(matching: Matching) -> None:
    """Match items by all that they read, from the inputs on, so that a row of replaced nodes is matched one by one."""
    by_source: dict[Hashable, dict[Item, None]] = {}

    def note(item: Item) -> None:
        key = _reads(matching, item, 1) if item not in matching.partner[1] else None
        if key is not None:
            by_source.setdefault(key, {})[item] = None

    for item in matching.left(1):
        note(item)
    for a in matching.left(0):
        found = by_source.get(_reads(matching, a, 0), {})
        if len(found) == 1:
            (b,) = found
            found.clear()
            matching.pair(a, b)
            for value in b.outputs:
                for reader, _ in matching.graphs[1].readers.get(value, ()):
                    note(reader)


def _reads(matching: Matching, item: Item, side: int) -> Hashable:
    """Return all that an item reads; None if something has no match, or it reads constants only."""
    view = matching.labels[side].side
    values = [value for value in item.operands if value is not None]
    sources = [matching.source(value, side) for value in values if view.tensor(value) is None]
    if not sources or any(source is None for source in sources):
        return None
    return len(values) - len(sources), len(item.outputs), tuple(sources)
