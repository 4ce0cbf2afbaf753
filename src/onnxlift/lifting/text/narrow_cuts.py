"""Find where a long list of statements is best cut: where few variables cross, into parts of a good length.

The statements are gone through once from the end, to count the variables that are needed behind each place, and once
from the beginning, for the cheapest way to each place. Only the last `WINDOW` places are asked for a way, so the time
is linear in the statements.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate
from math import inf

from .name_flow import Flow

LONGEST = 40  # statements of a part that still reads well
SHORTEST = 8  # a shorter one hardly deserves a name
WINDOW = 120  # statements; where no narrow cut is nearer, a part is longer
MOST_VALUES = 8  # that cross a cut
_FEW_VALUES = 3
_MANY = 1000  # statements from which on only the narrowest of several neighbouring places are tried
_NEIGHBOURS = 4


def find_cuts(
    flows: Sequence[Flow], lengths: Sequence[int], given: Collection[str], untyped: Collection[str]
) -> list[int]:
    """Return the places to cut: `i` is before statement `i`. `lengths` are the numbers of statements with those nested
    in them, `given` the names that are there at the beginning, and `untyped` those that cannot cross a cut."""
    widths = _widths(flows, given, untyped)
    ends = [0, *accumulate(lengths)]
    last = len(flows)
    costs = {0: 0.0}  # of the cheapest way to each place
    before: dict[int, int] = {}
    places = [0]
    for place in _candidates(widths):
        cut = 0.0 if place == last else _cost_of_cut(widths[place])
        if cut == inf:
            continue
        found = inf
        for start in reversed(places):
            length = ends[place] - ends[start]
            if length > WINDOW and found < inf:
                break
            cost = costs[start] + cut + _cost_of_length(length)
            if cost < found:
                found, before[place] = cost, start
        costs[place] = found
        places.append(place)
    cuts: list[int] = []
    place = last
    while (place := before[place]) > 0:
        cuts.append(place)
    return cuts[::-1]


def _cost_of_cut(width: float) -> float:
    """Return what it costs to hand so many values from one part to the next: most, if they are many."""
    return inf if width > MOST_VALUES else max(width - 1, 0) + 2 * max(width - _FEW_VALUES, 0)


def _cost_of_length(length: int) -> float:
    """Return the cost of a part of so many statements, and one to return what they compute."""
    excess = length + 1 - LONGEST
    return 2 + 0.5 * max(SHORTEST - length, 0) + (4 + 2 * excess if excess > 0 else 0)


def _candidates(widths: Sequence[float]) -> Sequence[int]:
    """Return the places that are tried, in order; the last one is the end."""
    last = len(widths) - 1
    if last < _MANY:
        return range(1, last + 1)
    groups = (range(start, min(start + _NEIGHBOURS, last)) for start in range(1, last, _NEIGHBOURS))
    return [*(min(group, key=widths.__getitem__) for group in groups), last]


def _widths(flows: Sequence[Flow], given: Collection[str], untyped: Collection[str]) -> list[float]:
    """Return for each place how many variables are written before it and read behind it. What was given is at hand
    everywhere, and counts only once it is written anew. A width is infinite where some variable is not surely written,
    or cannot cross."""
    first = dict.fromkeys(given, -1)  # the statement that first writes each name for sure
    local = {*given}
    for index, flow in enumerate(flows):
        local.update(flow.may_write)
        for name in flow.writes:
            first.setdefault(name, index)
    barred = [0] * (len(flows) + 2)  # differences between the numbers of variables that bar neighbouring places

    def bar(begin: int, end: int) -> None:
        if begin <= end:
            barred[begin] += 1
            barred[end + 1] -= 1

    widths = [0] * (len(flows) + 1)
    alive: dict[str, int] = {}  # the name of each variable that is needed -> the last place where it is

    def close(name: str, begin: int) -> None:
        end = alive.pop(name)
        bar(begin, end if name in untyped else min(end, first.get(name, len(flows))))

    for index in range(len(flows) - 1, -1, -1):
        for name in flows[index].writes:
            if name in alive:
                close(name, index + 1)
        for name in flows[index].reads:
            if name in local:
                alive.setdefault(name, index)
        widths[index] = len(alive)
    untouched = [0] * (len(flows) + 2)
    for name, end in [*alive.items()]:
        untouched[0] += 1
        untouched[end + 1] -= 1
        close(name, 0)
    rows = zip(widths, accumulate(untouched), accumulate(barred), strict=False)
    return [inf if bars else width - kept for width, kept, bars in rows]
