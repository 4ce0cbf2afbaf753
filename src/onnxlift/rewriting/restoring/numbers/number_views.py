"""Find the numbers of one array in another: some rows, every second column, in reverse, with the axes in another order.

    find_view(part, whole)   ->   what to pick along each axis of `whole`, and the order of the axes, to get `part`

All numbers are compared; the first one tells where to look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Pick = slice | int | tuple[int, ...]

MOST_AXES = 4
MOST_PLACES = 8  # where the first number may lie; if it is in more places, it tells little
LONGEST_LIST = 64

_SMALL = 1 << 12  # so few numbers that all are searched for the first one, before anything else

_ALL, _REVERSED = slice(None), slice(None, None, -1)


@dataclass(frozen=True)
class View:
    """A view of an array: `whole[picks]` with its axes in this order, and new axes of size one at `new_axes`."""

    picks: tuple[Pick, ...]
    order: tuple[int, ...]
    new_axes: tuple[int, ...] = ()

    @property
    def is_turned(self) -> bool:
        return self.order != tuple(sorted(self.order))

    @property
    def is_cut(self) -> bool:
        """Tell whether some numbers are left out, or come in another order along an axis."""
        return any(pick != _ALL for pick in self.picks)

    @property
    def is_all(self) -> bool:
        """Tell whether the part is the whole, unchanged."""
        return not (self.is_cut or self.is_turned or self.new_axes)

    def of(self, whole: Array) -> Array:
        """Return the numbers of `whole` that the view takes."""
        for axis in reversed(range(whole.ndim)):
            pick = self.picks[axis]
            index = list(pick) if isinstance(pick, tuple) else pick
            whole = whole[(_ALL,) * axis + (index,)]
        turned = whole.transpose(self.order)
        return np.expand_dims(turned, self.new_axes) if self.new_axes else turned


Same = Callable[[Array, Array], Array]
"""Tells for each number of `whole` whether it gives the number of `part` at the same place: by being equal, or by a
formula."""


def find_view(part: Array, whole: Array, same: Same = np.equal) -> View | None:
    """Return the view that takes `part` out of `whole`; None if there is none. Neither may be empty."""
    if whole.ndim > MOST_AXES or part.ndim > MOST_AXES or not part.size:
        return None
    if whole.size <= _SMALL and not same(whole, part.flat[0]).any():
        return None
    long = [axis for axis, size in enumerate(part.shape) if size != 1]
    numbers = part.reshape([part.shape[axis] for axis in long])
    for axes in permutations(range(whole.ndim), len(long)):
        if all(size <= whole.shape[axis] for size, axis in zip(numbers.shape, axes, strict=True)):
            for picks in _picks(numbers, whole, axes, same):
                view = _view(part, whole, axes, picks)
                if same(view.of(whole), part).all():
                    return view
    return None


def _picks(numbers: Array, whole: Array, axes: tuple[int, ...], same: Same) -> Iterator[dict[int, Pick]]:
    """Yield what could be picked along each axis of `whole`, if its `axes` are the axes of `numbers`."""
    sizes = dict(zip(axes, numbers.shape, strict=True))
    complete = [axis for axis, size in sizes.items() if size == whole.shape[axis]]
    cut = [axis for axis in range(whole.ndim) if axis not in complete]
    for ends in product((0, -1), repeat=len(complete)):
        corner = dict(zip(complete, ends, strict=True))
        matches = np.atleast_1d(
            same(whole[tuple(corner.get(axis, _ALL) for axis in range(whole.ndim))], numbers.flat[0])
        )
        for place in np.argwhere(matches)[:MOST_PLACES]:
            at: dict[int, Any] = {**corner, **dict(zip(cut, place.tolist(), strict=False))}
            picks: dict[int, Pick] = {axis: _REVERSED if end else _ALL for axis, end in corner.items()}
            for axis in cut:
                if axis not in sizes:
                    picks[axis] = at[axis]
                    continue
                line = whole[tuple(_ALL if other == axis else at[other] for other in range(whole.ndim))]
                wanted = numbers[tuple(_ALL if other == axis else 0 for other in axes)]
                pick = _pick(line, wanted, at[axis], same)
                if pick is not None:
                    picks[axis] = pick
            if len(picks) == whole.ndim:
                yield picks


def _pick(line: Array, wanted: Array, start: int, same: Same) -> Pick | None:
    """Return how to pick the wanted numbers out of a line, if the first of them is at `start`."""
    count = len(wanted)
    for second in (start + 1, *np.flatnonzero(same(line, wanted[1]))[:MOST_PLACES].tolist()):
        step = second - start
        last = start + step * (count - 1)
        if step and 0 <= last < len(line) and same(line[start + step * np.arange(count)], wanted).all():
            end = min(last + step, len(line))
            return slice(start, end if end >= 0 else None, None if step == 1 else step)
    if count > LONGEST_LIST:
        return None
    places = [np.flatnonzero(same(line, number)) for number in wanted]
    return tuple(int(found[0]) for found in places) if all(len(found) == 1 for found in places) else None


def _view(part: Array, whole: Array, axes: tuple[int, ...], picks: dict[int, Pick]) -> View:
    """Return the view with these picks. If `part` and `whole` have as many axes, no axis is removed and added again."""
    single = [axis for axis in range(whole.ndim) if axis not in axes]
    short = [axis for axis, size in enumerate(part.shape) if size == 1]
    if len(single) == len(short):
        of_part = iter(axes), iter(single)
        order = tuple(next(of_part[axis in short]) for axis in range(part.ndim))
        kept = {axis: slice(at, at + 1) if isinstance(at := picks[axis], int) else at for axis in single}
        ones = {axis: _ALL for axis in single if whole.shape[axis] == 1}
        return View(tuple({**picks, **kept, **ones}[axis] for axis in range(whole.ndim)), order)
    left = sorted(axes)
    order = tuple(left.index(axis) for axis in axes)
    return View(tuple(picks[axis] for axis in range(whole.ndim)), order, tuple(short))
