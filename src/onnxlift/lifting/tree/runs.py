"""Find repeats in a sequence of symbols: runs (`ababab`), and stretches that come again elsewhere (`abc...abc`).

Both are found from windows of 1, 2, 4, ... symbols. Equal windows have equal ranks. The distance from a window to the
last one before it of the same rank is the period of a run, if there is one. That takes n log n steps for n symbols. The
found repeats are then grown. The steps for that come out of a budget, so no sequence takes longer, whoever made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

STEPS = 64  # steps of growing, for each symbol of the sequence


@dataclass(frozen=True, order=True)
class Run:
    """A run of `count` times the same `period` symbols, from `start` on, and then the first `rest` of them once
    more."""

    start: int
    period: int
    count: int
    rest: int

    @property
    def end(self) -> int:
        return self.start + self.period * self.count + self.rest


def find_runs(symbols: Sequence[int]) -> list[Run]:
    """Return the maximal runs. A run whose period is itself a run is left out: it is there with the shorter period."""
    budget = STEPS * len(symbols)
    found: set[Run] = set()
    for _, ranks in _windows(symbols):
        last: dict[int, int] = {}
        grown: dict[int, int] = {}  # period -> where the last run of that period ended
        for later, rank in enumerate(ranks):
            earlier = last.get(rank, later)
            last[rank] = later
            period = later - earlier
            if period == 0 or grown.get(period, 0) > later or budget < 0:
                continue
            start, end = earlier, later
            while start > 0 and symbols[start - 1] == symbols[start - 1 + period]:
                start -= 1
            while end < len(symbols) and symbols[end] == symbols[end - period]:
                end += 1
            budget -= end - start
            grown[period] = end
            if end - start >= 2 * period:
                found.add(Run(start, period, (end - start) // period, (end - start) % period))
    return [run for run in sorted(found) if not is_run(symbols[run.start : run.start + run.period])]


def _windows(symbols: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield the lengths 1, 2, 4, ... with the rank of the window at each position, as long as some window is there
    twice."""
    ranks, length = list(symbols), 1
    while ranks and len(set(ranks)) < len(ranks):
        yield length, ranks
        numbers: dict[tuple[int, int], int] = {}
        ranks = [numbers.setdefault((a, b), len(numbers)) for a, b in zip(ranks, ranks[length:], strict=False)]
        length *= 2


def is_run(body: Sequence[int]) -> bool:
    """Tell whether `body` is itself a run."""
    parts = (part for part in range(1, len(body) // 2 + 1) if len(body) % part == 0)
    return any(body[part:] == body[:-part] for part in parts)


def find_repeats(symbols: Sequence[int]) -> set[tuple[int, int]]:
    """Return the stretches `(start, end)` that are there several times. Each is grown as far as all its places are
    equal. Negative symbols are equal to nothing."""
    own = [symbol if symbol >= 0 else -1 - position for position, symbol in enumerate(symbols)]
    budget = STEPS * len(symbols)
    found: set[tuple[int, int]] = set()
    for length, ranks in _windows(own):
        places: dict[int, list[int]] = {}
        for position, rank in enumerate(ranks):
            seen = places.setdefault(rank, [])
            if not seen or position >= seen[-1] + length:
                seen.append(position)
        for starts in places.values():
            if len(starts) > 1 and budget > 0:
                before, after = _grown(own, starts, length)
                budget -= (before + after) * len(starts)
                found.add((starts[0] - before, starts[0] + after))
    return found


def _grown(symbols: Sequence[int], starts: Sequence[int], length: int) -> tuple[int, int]:
    """Return how far equal windows can grow before and after their starts, and still be equal and not overlap."""
    room = min(later - earlier for earlier, later in pairwise(starts))
    before, after = 0, length
    while before + after < room and _agree(symbols, [start - before - 1 for start in starts]):
        before += 1
    while before + after < room and _agree(symbols, [start + after for start in starts]):
        after += 1
    return before, after


def _agree(symbols: Sequence[int], places: Sequence[int]) -> bool:
    return places[0] >= 0 and places[-1] < len(symbols) and len({symbols[place] for place in places}) == 1
