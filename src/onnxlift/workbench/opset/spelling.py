"""Write operators that are spelled in several ways, in the way of the opset that a step leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import onnx_ir as ir

from .step import Step, Value

INT64 = ir.DataType.INT64
BOOL = ir.DataType.BOOL


def squeeze(s: Step, x: Value, axes: Sequence[int]) -> Value:
    """Return `x` without these axes. They are an input since opset 13."""
    return s.Squeeze(x, s.array(list(axes))) if s.opset >= 13 else s.Squeeze(x, axes=list(axes))


def unsqueeze(s: Step, x: Value, axes: Sequence[int]) -> Value:
    """Return `x` with new axes. They are an input since opset 13."""
    return s.Unsqueeze(x, s.array(list(axes))) if s.opset >= 13 else s.Unsqueeze(x, axes=list(axes))


def reduce(s: Step, op_type: str, x: Value, axes: Sequence[int], *, keepdims: int = 1) -> Value:
    """Return a reduction over these axes. They are an input since opset 13 (ReduceSum) or 18 (all others)."""
    since = 13 if op_type == "ReduceSum" else 18
    if s.opset >= since:
        return s.several(1, op_type, x, s.array(list(axes)), keepdims=keepdims)[0]
    return s.several(1, op_type, x, axes=list(axes), keepdims=keepdims)[0]


def slice_axis(s: Step, x: Value, start: Value, end: Value, axis: int, step: int = 1) -> Value:
    """Return a part of `x` along one axis; `start` and `end` are lists of one number."""
    return s.Slice(x, start, end, s.array([axis]), s.array([step]) if step != 1 else None)


def size_of(s: Step, x: Value, axis: int) -> Value:
    """Return the size of one axis as a list of one number."""
    known = None if x.shape is None else x.shape[axis]
    if isinstance(known, int):
        return s.array([known])
    return s.Gather(s.Shape(x), s.array([axis]), axis=0)


def transpose_axes(s: Step, x: Value, first: int, second: int, rank: int) -> Value:
    """Return `x` with two axes exchanged."""
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    return s.Transpose(x, perm=order)


def is_among(s: Step, axes: Value, rank: int) -> Value:
    """Return for each of `rank` axes whether it is in the list `axes`, which is computed."""
    ones = s.ConstantOfShape(s.Shape(axes), value=np.array([1], np.int64))
    marks = s.ScatterElements(s.array([0] * rank), s.cast(axes, INT64), ones)
    return s.cast(marks, BOOL)


def scattered(s: Step, base: Value, axes: Value, numbers: Value) -> Value:
    """Return the list `base` with `numbers` in the places that `axes` says."""
    return s.ScatterElements(base, axes, numbers)


def choose(s: Step, index: Value, options: Sequence[tuple[int, Callable[[], Value]]]) -> Value:
    """Return the option whose number `index` (a scalar or a list of one) is; the last one if it is none of them."""
    flat = s.Reshape(s.cast(index, INT64), s.array([1]))
    return _choose(s, flat, list(options))


def _choose(s: Step, index: Value, options: list[tuple[int, Callable[[], Value]]]) -> Value:
    number, make = options[0]
    if len(options) == 1:
        return make()
    condition = s.Equal(index, s.array([number]))
    return s.either(condition, make, lambda: _choose(s, index, options[1:]))


def counted_from_zero(s: Step, axis: int, x: Value) -> int:
    """Return an axis as counted from the front."""
    return axis if axis >= 0 else axis + s.rank(x)


def joined_sizes(s: Step, x: Value, axes: Iterable[int]) -> Value:
    """Return the product of the sizes of some axes, as a list of one number."""
    first, *others = (size_of(s, x, axis) for axis in axes)
    for size in others:
        first = s.Mul(first, size)
    return first


def count_up(s: Step, count: Value) -> Value:
    """Return the integers from 0 to below `count`, which is a list of one number."""
    return s.Range(s.array(0), squeeze(s, count, [0]), s.array(1))
