"""What moves numbers without changing them, and what makes them: shapes, joins, pads, constants, ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from lifting.ops.standard.shape.test_create import RANGES
from lifting.ops.standard.shape.test_shape import EXPANSIONS, PADS, PERMUTATIONS
from matrix.case import ELEMENTS, Array, Row, each, floats, ints, row, some

RESHAPES = [((2, 3, 4), (4, -1)), ((2, 3, 4), (0, 2, -1)), ((2, 3, 4), (24,)), ((1, 1), ()), ((0, 3), (3, 0, 2))]
AXES: list[tuple[int, ...]] = [(0,), (1, 3), (-1,), (0, -2)]
FILLS = [np.array([2.5], np.float32), np.array([7], np.int64), np.array([True]), np.array([200], np.uint8)]


def padded(x: Array, pads: Any, value: float) -> Array:
    half = len(pads) // 2
    return np.pad(x, list(zip(pads[:half], pads[half:], strict=True)), constant_values=value)


def joined(*arrays: Array) -> Array:
    return np.concatenate(arrays, 1)


def tiled(x: Array, tiles: Array, axis: Array) -> Array:
    repeats = np.ones(x.ndim, int)
    repeats[int(axis.flat[0])] = int(tiles.flat[0])
    return np.tile(x, repeats)


def one_hot(axis: int) -> Any:
    def apply(indices: Array, depth: Array, values: Array) -> Array:
        size = int(depth.flat[0])
        inside = (indices >= -size) & (indices < size)
        hot = (np.arange(size) == np.where(inside, indices % size, -1)[..., None]).astype(int)
        return np.moveaxis(values[hot], -1, axis)

    return apply


MOVES = [row(each(2, 3)), row(some(0, 4)), row(some())]

ROWS: dict[str, list[Row]] = {
    "Identity": [*MOVES, row([floats(2, 3), floats(4)])],
    "Shape": [
        *MOVES,
        *(row(some(2, 3, 4, 5), start=start) for start in (1, -2, -9, 4)),
        *(row(some(2, 3, 4, 5), start=start, end=end) for start, end in ((1, 3), (-3, -1), (3, 1), (0, 99))),
    ],
    "Size": MOVES,
    "Reshape": [
        *(row(floats(*shape), shape=list(target)) for shape, target in RESHAPES[:3]),
        *(row(some(*shape), ints(*target)) for shape, target in RESHAPES[:4]),
        row(each(2, 3, 4), ints(4, -1)),
        row(some(0, 3), ints(3, 0), allowzero=1),
        row(some(0, 3, 4), ints(3, 4, 0), allowzero=1),
    ],
    "Flatten": [
        row(each(2, 3, 4)),
        *(row(some(2, 3, 4), axis=axis) for axis in (0, 1, 2, 3)),
        *(row(some(2, 3, 4), axis=axis, since=11) for axis in (-1, -3)),
        row(some(0, 3, 4)),
    ],
    "Squeeze": [
        row(each(1, 3, 1)),
        row(floats(1, 3, 1, 2), axes=[0, 2]),
        row(floats(1, 3, 1, 2), axes=[-2], since=11),
        row(each(1, 3, 1, 2), ints(0, 2)),
        row(some(1, 3, 1, 2), ints(-2)),
        row(some(1, 0), ints(0)),
    ],
    "Unsqueeze": [
        *(row(floats(2, 3), axes=list(axes)) for axes in AXES[:2]),
        *(row(floats(2, 3), axes=list(axes), since=11) for axes in AXES[2:]),
        row(each(2, 3), ints(1, 3)),
        *(row(some(2, 3), ints(*axes)) for axes in AXES),
        row(some(0, 3), ints(1)),
    ],
    "Transpose": [
        row(each(2, 3, 4)),
        *(row(some(*(2, 3, 4, 5)[: len(perm)]), perm=list(perm)) for perm, _ in PERMUTATIONS if perm),
        row(some(0, 3), perm=[1, 0]),
    ],
    "Expand": [row(each(3, 1), ints(2, 1, 6)), *(row(some(*shape), ints(*target)) for shape, target in EXPANSIONS)],
    "Tile": [
        row(floats(2, 3), np.array([3], np.float32), np.array([1], np.float32), expected=tiled),
        row(each(2, 3), ints(2, 1)),
        *(row(some(2, 3), ints(*repeats)) for repeats in ((1, 1), (0, 2), (3, 4))),
    ],
    "Concat": [
        row(floats(2, 3), floats(2, 1), until=3, expected=joined),
        *(row(each(2, 3), each(2, 3), each(2, 3), axis=axis) for axis in (0, 1)),
        row(some(2, 3), some(0, 3), axis=-2, since=11),
        row(some(2, 3), axis=1),
        row(some(2, 0), some(2, 3), axis=-1, since=11),
    ],
    "Split": [
        row(floats(2, 6), outputs=3, split=[1, 3, 2], axis=1, until=11, asked=11),
        row(floats(6, 2), outputs=2, until=13, since=2),
        row(floats(2, 6), outputs=2, split=[4, 2], axis=-1, since=11),
        row(each(2, 6), ints(1, 3, 2), outputs=3, axis=1),
        row(some(2, 6), ints(0, 6), outputs=2, axis=-1),
        row(each(2, 6), outputs=3, num_outputs=3, axis=1),
        row(some(2, 7), outputs=3, num_outputs=3, axis=-1),
        row(some(0, 6), ints(4, 2), outputs=2, axis=1),
    ],
    "Pad": [
        *(
            row(floats(*shape), paddings=list(pads), value=2.5, expected=lambda x, p=pads: padded(x, p, 2.5))
            for shape, pads in PADS
            if min(pads) >= 0
        ),
        *(row(floats(*shape), pads=list(pads), value=2.5) for shape, pads in PADS),
        *(row(floats(2, 5), pads=[0, 2, 0, 1], mode=mode) for mode in ("reflect", "edge")),
        *(row(some(*shape), ints(*pads)) for shape, pads in PADS),
        row(each(2, 5), ints(0, 2, 1, 1), each(low=2, high=3)),
        *(row(some(3, 5), ints(1, 2, 0, 1), mode=mode) for mode in ("reflect", "edge")),
        row(some(3, 5), ints(1, 2, 0, 1), mode="wrap", since=19),
        row(some(2, 3, 4), ints(1, 2, 0, 3), some(), ints(-1, 0)),
        row(some(0, 4), ints(1, 0, 2, 0)),
    ],
    "DepthToSpace": [
        row(each(2, 8, 3, 2), blocksize=2),
        *(row(each(2, 8, 3, 2), blocksize=2, mode=mode) for mode in ("CRD", "DCR")),
        row(some(0, 9, 1, 2), blocksize=3),
    ],
    "SpaceToDepth": [row(each(2, 3, 4, 6), blocksize=2), row(some(1, 1, 3, 9), blocksize=3)],
    "CenterCropPad": [
        row(each(5, 4), ints(3, 7)),
        row(some(5, 4, 3), ints(8, 2), axes=[-1, 0]),
        row(some(5, 4), ints(5, 1)),
        row(some(4, 7), ints(7, 4)),
    ],
    "Trilu": [
        row(each(3, 5)),
        *(row(some(2, 4, 3), ints(k).reshape(()), upper=u) for k in (-1, 0, 2, 9, -9) for u in (0, 1)),
        row(some(0, 3), upper=0),
    ],
    "EyeLike": [
        row(each(3, 5)),
        *(row(some(4, 3), k=k) for k in (1, -2, 7)),
        *(row(some(4, 3), dtype=dtype) for dtype in (7, 11, 9, 10)),
    ],
    "Constant": [
        *(
            row(value=some(2, 3).draw(dtype, 0), when=lambda schema, name=name: name in schema.outputs[0].types)
            for name, dtype in ELEMENTS.items()
        ),
        row(value=floats(2, 3)),
        row(value=floats(0, 3)),
        row(value_int=3),
        row(value_float=2.5),
        row(value_string="Übung"),
        row(value_ints=[3, -4]),
        row(value_floats=[2.5, -1.0, 0.0]),
        row(value_strings=["a", "b\nc"]),
    ],
    "ConstantOfShape": [
        row(ints(2, 3)),
        row(np.zeros(0, np.int64)),
        row(ints(0, 2)),
        *(row(ints(2, 3), value=value) for value in FILLS),
        *(
            row(ints(2), value=some(1).draw(dtype, 0), when=lambda schema, name=name: name in schema.outputs[0].types)
            for name, dtype in ELEMENTS.items()
        ),
    ],
    "Range": [
        *(row(*(np.array(v, dtype) for v in (start, limit, delta))) for start, limit, delta, dtype in RANGES),
        row(each(low=1, high=2), each(low=9, high=12), each(low=1, high=2)),
    ],
    "OneHot": [
        row(each(2, 3, low=0, high=4, whole=True), np.array(5.0, np.float32), floats(2), expected=one_hot(-1)),
        row(ints(0, 3, 1), each(low=4, high=6, whole=True), floats(2), expected=one_hot(-1)),
        row(ints(0, 3, 1), ints(5).reshape(()), each(2), expected=one_hot(-1)),
        *(row(ints([0, 3], [4, 1]), ints(5), floats(2), axis=a, expected=one_hot(a)) for a in (0, 1, -1, -2)),
        row(ints(0, -3, 9, -7), ints(5), floats(2), since=11, expected=one_hot(-1)),
    ],
}
