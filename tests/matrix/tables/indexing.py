"""Gathering, scattering, slicing, sorting, selecting."""

from __future__ import annotations

import numpy as np

from lifting.ops.standard.shape.test_index import SLICES
from matrix.case import Array, Row, each, floats, ints, row, some


def spread(*shape: int) -> Array:
    """Numbers of which no two are equal, in no order."""
    count = int(np.prod(shape))
    return (np.random.default_rng(count).permutation(count).reshape(shape) - count // 3).astype(np.float32)


def first_occurrences(x: Array) -> tuple[Array, ...]:
    """The distinct numbers in the order in which they come, with their places, and how often each comes."""
    values, places, inverse, counts = np.unique(x, True, True, True)
    order = np.argsort(places)
    return values[order], places[order], np.argsort(order)[inverse.reshape(-1)], counts[order]


def given(values: tuple[int, ...] | None) -> Array | None:
    return None if values is None else ints(*values)


def put(data: Array, indices: Array, updates: Array) -> Array:
    result = data.copy()
    for (line, column), index in np.ndenumerate(indices):
        result[index, column] = updates[line, column]
    return result


REPEATED = np.array([[3, 1, 2], [3, 1, 2], [0, 1, 7], [3, 1, 1]], np.float32)
NUMBERS = {"low": 1, "high": 3, "without": ("bool", "complex", "string")}
POSITIONS = ints([0, 2], [1, 1])
CORNERS = ints([[0, 1]], [[1, 2]])

ROWS: dict[str, list[Row]] = {
    "Gather": [
        row(each(3, 4), each(2, 2, low=0, high=2)),
        *(row(some(3, 4, 5), ints(0, 2), axis=axis) for axis in (0, 1, 2)),
        *(row(some(3, 4, 5), ints(-1, 2, -3), axis=axis, since=11) for axis in (-1, -2)),
        row(some(3, 4), ints(1).reshape(())),
        row(some(3, 4), np.zeros((0, 2), np.int64)),
    ],
    "GatherElements": [
        row(each(3, 4), each(2, 4, low=0, high=2), expected=lambda x, i: np.take_along_axis(x, i, 0)),
        *(row(some(3, 4), POSITIONS, axis=axis) for axis in (0, 1, -1)),
        row(some(3, 4), ints([-1, -2, 0]), axis=-2),
    ],
    "GatherND": [
        row(each(3, 4, 5), ints([0, 1], [2, -1])),
        row(some(2, 3, 4), CORNERS),
        row(some(2, 3, 4), ints([1], [2]), batch_dims=1),
        row(some(2, 2, 4), ints([[1], [0]], [[3], [2]]), batch_dims=2),
    ],
    "Scatter": [
        row(each(3, 4), POSITIONS, each(2, 2), expected=put),
        *(row(some(3, 4), POSITIONS, some(2, 2), axis=axis, asked=9) for axis in (0, 1)),
    ],
    "ScatterElements": [
        row(each(3, 4), POSITIONS, each(2, 2)),
        *(row(some(3, 4), POSITIONS, some(2, 2), axis=axis) for axis in (0, 1, -1)),
        row(some(3, 4), ints([-1, -3]), some(1, 2), axis=1),
        *(
            row(each(3, 4, **NUMBERS), ints([0, 0], [1, 0]), each(2, 2, **NUMBERS), reduction=reduction)
            for reduction in ("add", "mul", "max", "min")
        ),
        row(some(3, 4), np.zeros((0, 2), np.int64), some(0, 2)),
    ],
    "ScatterND": [
        row(each(3, 4), ints([0, 1], [2, -1]), each(2)),
        row(some(3, 4), ints([2], [0]), some(2, 4)),
        *(
            row(each(3, 4, **NUMBERS), ints([0, 1], [0, 1], [2, 3]), each(3, **NUMBERS), reduction=reduction)
            for reduction in ("add", "mul", "max", "min")
        ),
    ],
    "TensorScatter": [
        row(each(2, 3, 6, 2), each(2, 3, 2, 2), ints(1, 4)),
        row(some(2, 3, 6, 2), some(2, 3, 4, 2), ints(1, 4), mode="circular"),
        row(some(2, 6, 3), some(2, 2, 3), axis=1),
        row(some(2, 6, 3), some(2, 2, 3), ints(0, 3), axis=-2),
    ],
    "Slice": [
        row(each(5, 4), starts=[1], ends=[3]),
        row(floats(5, 4, 6), starts=[-3, 0], ends=[1000, -1], axes=[0, 2]),
        row(each(5, 4, 6), ints(1), ints(3), ints(1), since=10),
        *(row(some(5, 4, 6), *map(given, bounds), since=10) for *bounds, _ in SLICES),
        row(some(5, 4), *(np.array([value], np.int32) for value in (-1, -4, 0, -2)), since=10),
        row(some(0, 4), ints(0), ints(5), ints(0)),
    ],
    "Compress": [
        row(each(3, 4), np.array([False, True, True]), axis=0),
        row(some(3, 4), np.array([True, False, True]), axis=1),
        row(some(3, 4), np.array([False, True]), axis=-1, since=11),
        row(some(3, 4), np.array([False, True, False, False, True, True])),
        row(some(3, 4), np.array([False, False])),
    ],
    "NonZero": [row(each(3, 4)), row(some(0, 4)), row(some(2, 1, 3))],
    "TopK": [
        row(spread(3, 7), outputs=2, k=3, axis=0),
        row(spread(3, 7), outputs=2, k=3),
        row(spread(3, 7), ints(3), outputs=2),
        *(
            row(spread(3, 7), ints(2), outputs=2, axis=axis, largest=largest)
            for axis in (0, -1, -2)
            for largest in (0, 1)
        ),
        row(spread(3, 7), ints(7), outputs=2, sorted=1),
        *(
            row(spread(3, 7).astype(t), ints(2), outputs=2, since=11)
            for t in (np.int64, np.float64, np.int32, np.float16)
        ),
        row(spread(3, 7), ints(0), outputs=2, since=11),
    ],
    "Unique": [
        row(each(7), outputs=4),
        row(REPEATED, outputs=4),
        *(row(REPEATED, outputs=4, axis=axis) for axis in (0, 1, -1)),
        row(REPEATED, outputs=4, sorted=0, expected=first_occurrences),
        row(REPEATED, outputs=2, axis=0, sorted=0, expected=lambda x: (x[[0, 2, 3]], ints(0, 2, 3))),
    ],
    "ReverseSequence": [
        row(each(4, 3, 2), ints(4, 1, 2)),
        row(some(3, 4, 2), ints(4, 1, 2), batch_axis=0, time_axis=1),
    ],
}
