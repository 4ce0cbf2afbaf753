"""Operators that change the form of a tensor: Reshape, Squeeze, Unsqueeze, Split, Slice, Concat, Tile, Shape, Trilu.

| operator | opsets |
|---|---|
| Concat | 4 (`axis` is needed; before, it was 1), 11 (negative axis) |
| Reshape | 5 (`shape` is an input), 14 (`allowzero`) |
| Slice | 10 (all is an input, with steps), 11 (negative axes) |
| Split | 2 (no input), 11 (negative axis), 13 (`split` is an input), 18 (`num_outputs`, pieces of different sizes) |
| Squeeze, Unsqueeze | 11 (negative axes), 13 (`axes` is an input) |
| Tile | 6 (`repeats` for all axes; before, one axis and a number) |
| Shape | 15 (`start`, `end`) |
| Trilu | 14 |
| DepthToSpace | 11 (`mode`) |
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ..spelling import BOOL, INT64, counted_from_zero, is_among, size_of, slice_axis, unsqueeze
from ..step import Result, Step, Value, adapter

LAST = 2**63 - 1


@adapter("Squeeze", 11, 13)
@adapter("Unsqueeze", 11, 13)
def axes_become_an_input(s: Step, data: Value, *, axes: tuple[int, ...] | None) -> Result:
    return s.again(data, None if axes is None else s.array(list(axes)), axes=None)


@adapter("Squeeze", 13, 11)
def squeeze_axes_become_an_attribute(s: Step, data: Value, axes: Value | None) -> Result:
    """Axes that are computed leave out the other sizes, which a Reshape takes."""
    if axes is None or s.constant(axes) is not None:
        return s.again(data, axes=None if axes is None else s.ints(axes, "axes"))
    kept = s.Compress(s.Shape(data), s.Not(is_among(s, axes, s.rank(data))), axis=0)
    return s.Reshape(data, kept)


@adapter("Unsqueeze", 13, 11)
def unsqueeze_axes_become_an_attribute(s: Step, data: Value, axes: Value) -> Result:
    """Computed axes are ones in a new shape, and the other places have the sizes of the input, in their order."""
    if s.constant(axes) is not None:
        return s.again(data, axes=s.ints(axes, "axes"))
    count = None if axes.shape is None or not len(axes.shape) else axes.shape[0]
    if not isinstance(count, int):
        s.refuse("its axes are computed, and it is not known how many")
    is_new = is_among(s, axes, s.rank(data) + count)
    if not s.rank(data):
        return s.Reshape(data, s.array([1] * count))
    place = s.Sub(s.CumSum(s.cast(s.Not(is_new), INT64), s.array(0)), s.array(1))
    sizes = s.Gather(s.Shape(data), s.Max(place, s.array(0)), axis=0)
    return s.Reshape(data, s.Where(is_new, s.array(1), sizes))


@adapter("Concat", 1, 4)
def axis_was_one(s: Step, *, axis: int | None) -> Result:
    return s.again(axis=1 if axis is None else axis)


@adapter(["Concat"], 11, 4)
@adapter(["Gather", "Hardmax", "Softmax", "LogSoftmax"], 11, 1)
@adapter(["Compress", "Flatten"], 11, 9)
@adapter("Split", 11, 2)
def axis_counts_from_the_front(s: Step, data: Value) -> Result:
    axis = s.node.attributes.get("axis")
    return s.again(axis=None if axis is None else counted_from_zero(s, axis.as_int(), data))


@adapter("Reshape", 1, 5)
def shape_becomes_an_input(s: Step, data: Value, *, shape: tuple[int, ...] | None) -> Result:
    return s.again(data, s.array(list(shape or ())), shape=None)


@adapter("Reshape", 5, 1)
def shape_becomes_an_attribute(s: Step, data: Value, shape: Value) -> Result:
    return s.again(data, shape=s.ints(shape, "shape"))


@adapter("Reshape", 14, 13)
def zero_is_a_copy(s: Step, data: Value, shape: Value, *, allowzero: int) -> Result:
    """A result with a size of 0 has no elements, so it can be made from its shape alone."""
    known = s.constant(shape)
    if not allowzero or (known is not None and known.all()):
        return s.again(allowzero=None)
    nothing = np.zeros(1, s.dtype(data).numpy())

    def empty() -> Value:
        return s.ConstantOfShape(shape, value=nothing)

    if known is not None:
        return empty()
    smallest = s.ReduceMin(s.Abs(shape), keepdims=0)
    return s.either(s.Equal(smallest, s.array(0)), empty, lambda: s.Reshape(data, shape))


@adapter("Slice", 1, 10)
def slice_attributes_become_inputs(
    s: Step, data: Value, *, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...] | None
) -> Result:
    places = None if axes is None else s.array(list(axes))
    return s.again(data, s.array(list(starts)), s.array(list(ends)), places, starts=None, ends=None, axes=None)


@adapter("Slice", 10, 1)
def slice_inputs_become_attributes(
    s: Step, data: Value, starts: Value, ends: Value, axes: Value | None, steps: Value | None
) -> Result:
    if steps is not None and any(step != 1 for step in s.ints(steps, "steps")):
        s.refuse("steps other than 1 are not known before opset 10")
    places = None if axes is None else s.ints(axes, "axes")
    if places is not None and min(places, default=0) < 0:
        places = [counted_from_zero(s, axis, data) for axis in places]
    return s.again(data, starts=s.ints(starts, "starts"), ends=s.ints(ends, "ends"), axes=places)


@adapter("Slice", 11, 10)
def slice_axes_count_from_the_front(
    s: Step, data: Value, starts: Value, ends: Value, axes: Value | None, steps: Value | None
) -> Result:
    known = s.constant(axes)
    if axes is None or (known is not None and (known >= 0).all()):
        return s.again()
    if known is None:
        rank = s.cast(s.array(s.rank(data)), axes.dtype or INT64)
        zero = s.cast(s.array(0), axes.dtype or INT64)
        return s.again(data, starts, ends, s.Where(s.Less(axes, zero), s.Add(axes, rank), axes), steps)
    return s.again(data, starts, ends, s.array([counted_from_zero(s, int(a), data) for a in known], known.dtype), steps)


@adapter("Split", 1, 2)
def split_has_one_input(s: Step, input: Value, split: Value | None, *, axis: int | None) -> Result:
    """The first axis is the default, as it is from then on."""
    sizes = None if split is None else s.ints(split, "split")
    return s.again(input, **({} if sizes is None else {"split": sizes}), axis=axis or 0)


@adapter("Split", 11, 13)
def split_becomes_an_input(s: Step, input: Value, *, split: tuple[int, ...] | None) -> Result:
    return s.again(input, None if split is None else s.array(list(split)), split=None)


@adapter("Split", 13, 11)
def split_becomes_an_attribute(s: Step, input: Value, split: Value | None, *, axis: int) -> Result:
    """Pieces whose sizes are computed are slices."""
    if split is None or s.constant(split) is not None:
        return s.again(input, split=None if split is None else s.ints(split, "split"))
    ends = s.CumSum(split, s.array(0))
    starts = s.Sub(ends, split)
    pieces: list[Value] = []
    for index in range(len(s.node.outputs)):
        place = s.array([index])
        start, end = s.Gather(starts, place, axis=0), s.Gather(ends, place, axis=0)
        pieces.append(slice_axis(s, input, start, end, axis))
    return pieces


@adapter("Split", 13, 18)
def number_of_outputs_is_told(s: Step, input: Value, split: Value | None) -> Result:
    return s.again(num_outputs=len(s.node.outputs) if split is None else None)


@adapter("Split", 18, 13)
def number_of_outputs_is_seen(
    s: Step, input: Value, split: Value | None, *, num_outputs: int | None, axis: int
) -> Result:
    """Pieces are equal before opset 18. Else the last one is smaller, so the sizes must be told."""
    if split is not None:
        return s.again(num_outputs=None)
    count = len(s.node.outputs)
    size = None if input.shape is None else input.shape[axis]
    if isinstance(size, int) and size % count == 0:
        return s.again(num_outputs=None)
    if isinstance(size, int):
        piece = -(-size // count)
        return s.again(input, s.array([piece] * (count - 1) + [size - piece * (count - 1)]), num_outputs=None)
    total = size_of(s, input, axis)
    each = s.Div(s.Add(total, s.array([count - 1])), s.array([count]))
    last = s.Sub(total, s.Mul(each, s.array([count - 1])))
    sizes = s.Concat(*[each] * (count - 1), last, axis=0)
    return s.again(input, sizes, num_outputs=None)


@adapter("Tile", 1, 6)
def repeats_for_all_axes(s: Step, input: Value, tiles: Value, axis: Value) -> Result:
    known = s.constant(tiles), s.constant(axis)
    rank = s.rank(input)
    if known[0] is not None and known[1] is not None:
        repeats = [1] * rank
        repeats[int(known[1].reshape(-1)[0])] = int(known[0].reshape(-1)[0])
        return s.again(input, s.array(repeats))
    one = s.array([1])
    where, number = (s.Reshape(s.cast(value, INT64), one) for value in (axis, tiles))
    places = s.array(list(range(rank)))
    is_there = s.several(1, "Equal", places, where, at=11)[0]
    return s.again(input, s.several(1, "Where", is_there, number, one, at=9)[0])


@adapter("Shape", 15, 13)
def part_of_a_shape(s: Step, data: Value, *, start: int, end: int | None) -> Result:
    if not start and end is None:
        return s.again(start=None, end=None)
    last = LAST if end is None else end
    return s.Slice(s.Shape(data), s.array([start]), s.array([last]), s.array([0]))


@adapter("Trilu", 14, 0)
def triangle(s: Step, input: Value, k: Value | None, *, upper: int) -> Result:
    """Row and column of each element say on which side of the diagonal it is."""
    zero, one = s.array(0), s.array(1)
    rank = s.rank(input)
    rows, columns = (s.Squeeze(size_of(s, input, rank + axis)) for axis in (-2, -1))
    row = unsqueeze(s, s.Range(zero, rows, one), [1])
    column = s.Range(zero, columns, one)
    diagonal = zero if k is None else s.Reshape(k, s.array([1]))
    distance = s.Sub(s.Sub(column, row), diagonal)
    inside = s.Not(s.Less(distance, zero)) if upper else s.Not(s.Greater(distance, zero))
    dtype = s.dtype(input)
    if dtype == BOOL:
        return s.And(input, inside)
    return s.Where(inside, input, s.array(np.zeros((), dtype.numpy()), dtype))


@adapter("DepthToSpace", 11, 1)
def depth_in_two_orders(s: Step, input: Value, *, blocksize: int, mode: str) -> Result:
    if mode == "DCR":
        return s.again(mode=None)
    sizes = [size_of(s, input, axis) for axis in range(4)]
    block = s.array([blocksize])
    channels = s.Div(sizes[1], s.array([blocksize * blocksize]))
    parts = s.Reshape(input, s.Concat(sizes[0], channels, block, block, sizes[2], sizes[3], axis=0))
    moved = s.Transpose(parts, perm=[0, 1, 4, 2, 5, 3])
    height, width = (s.Mul(size, block) for size in sizes[2:])
    return s.Reshape(moved, s.Concat(sizes[0], channels, height, width, axis=0))


@adapter("OneHot", 9, 11)
def negative_indices_are_out_of_range(s: Step, indices: Value, depth: Value, values: Value) -> Result:
    """Since opset 11 they count from the end; so they are moved beyond the end."""
    known = s.constant(indices)
    if known is not None and (known >= 0).all():
        return s.again()
    if s.dtype(indices) in (ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64):
        return s.again()
    whole = s.cast(indices, INT64)
    count = s.Reshape(s.cast(depth, INT64), s.array([1]))
    return s.again(s.Where(s.Less(whole, s.array([0])), count, whole), depth, values)


@adapter("OneHot", 11, 9)
def negative_indices_count_from_the_end(s: Step, indices: Value, depth: Value, values: Value) -> Result:
    known = s.constant(indices)
    if known is not None and (known >= 0).all():
        return s.again()
    whole = s.cast(indices, INT64)
    count = s.Reshape(s.cast(depth, INT64), s.array([1]))
    return s.again(s.Where(s.Less(whole, s.array([0])), s.Add(whole, count), whole), depth, values)
