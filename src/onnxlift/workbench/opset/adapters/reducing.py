"""Reductions: ReduceSum and its kin, ArgMax, ArgMin, TopK, CumSum, CumProd.

| opset | what changed |
|---|---|
| 11 | negative axes |
| 12 | `select_last_index` of ArgMax and ArgMin; 8-bit integers in ReduceMax and ReduceMin |
| 13 | the axes of ReduceSum are an input, with `noop_with_empty_axes`; bfloat16 |
| 18 | the axes of all others are an input |
| 20 | bool in ReduceMax and ReduceMin |
| 28 | no integers in ReduceLogSum and ReduceLogSumExp |

TopK: 10 (`k` is an input), 11 (`largest`, `sorted`, integers), 24 (bfloat16). CumProd: 26.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import onnx_ir as ir

from ..spelling import choose, is_among, reduce, size_of, slice_axis, squeeze
from ..step import Result, Step, Value, adapter

OTHERS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare"
).split()
_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


@adapter("ReduceSum", 13, 11)
@adapter(OTHERS, 18, 13)
def axes_become_an_attribute(
    s: Step, data: Value, axes: Value | None, *, keepdims: int, noop_with_empty_axes: int
) -> Result:
    """Axes that are computed are asked one by one, in an If each. That needs the number of axes of the input."""
    known = None if axes is None else s.constant(axes)
    if axes is None or known is not None:
        numbers = [] if known is None else [int(number) for number in known.reshape(-1)]
        if not numbers and noop_with_empty_axes:
            return over_no_axis(s, data)
        return s.again(data, axes=numbers or None, noop_with_empty_axes=None)
    if axes.shape is not None and tuple(axes.shape) == (0,):
        return over_no_axis(s, data) if noop_with_empty_axes else s.again(data, noop_with_empty_axes=None)
    rank = s.rank(data)
    if s.node.op_type in ("ReduceMean", "ReduceLogSumExp") and s.dtype(data) not in _FLOATS:
        s.refuse("its axes are computed, and integers would be rounded after each of them")
    among = is_among(s, axes, rank)
    if not noop_with_empty_axes:
        empty = s.Equal(s.Size(axes), s.array(0))
        among = s.Or(among, empty)
    if s.dtype(data) != ir.DataType.BFLOAT16:
        return _over_axes(s, data, among, rank, keepdims)
    wide = _over_axes(s, s.cast(data, ir.DataType.FLOAT), among, rank, keepdims)
    return s.cast(wide, ir.DataType.BFLOAT16)


def over_no_axis(s: Step, data: Value) -> Value:
    """Return the reduction over an empty set of axes: what the operator does to each number."""
    match s.node.op_type:
        case "ReduceL1" | "ReduceL2":
            return s.Abs(data)
        case "ReduceLogSum":
            return s.Log(data)
        case "ReduceSumSquare":
            return s.Mul(data, data)
    return s.Identity(data)


_PARTS = {
    "ReduceL1": ("Abs", "ReduceSum", None),
    "ReduceL2": ("Square", "ReduceSum", "Sqrt"),
    "ReduceSumSquare": ("Square", "ReduceSum", None),
    "ReduceLogSum": (None, "ReduceSum", "Log"),
}
"""What comes before and after the reduction itself, where that is not done again over an axis that was reduced."""


def _over_axes(s: Step, data: Value, among: Value, rank: int, keepdims: int) -> Value:
    before, op_type, after = _PARTS.get(s.node.op_type, (None, s.node.op_type, None))
    x = s.Mul(data, data) if before == "Square" else s.Abs(data) if before == "Abs" else data
    for axis in range(rank):
        condition = s.Gather(among, s.array([axis]), axis=0)
        reduced = x

        def over(axis: int = axis, x: Value = reduced) -> Value:
            return reduce(s, op_type, x, [axis])

        def as_it_is(x: Value = reduced) -> Value:
            return s.Identity(x)

        x = s.either(condition, over, as_it_is)
    if after is not None:
        x = s.Sqrt(x) if after == "Sqrt" else s.Log(x)
    if keepdims or not rank:
        return x
    kept = s.Compress(s.Shape(x), s.Not(among), axis=0)
    return s.Reshape(x, kept, allowzero=1 if s.opset >= 14 else None)


@adapter("ReduceSum", 11, 13)
@adapter(OTHERS, 13, 18)
def axes_become_an_input(s: Step, data: Value, *, axes: tuple[int, ...] | None) -> Result:
    return s.again(data, s.array(list(axes)) if axes else None, axes=None)


@adapter(["ReduceLogSum", "ReduceLogSumExp"], 18, 28)
def integers_are_computed_as_floats(s: Step, data: Value, axes: Value | None) -> Result:
    """What an integer logarithm is was never said; ONNX's own reference rounds the result of floats towards zero."""
    if s.dtype(data) in _FLOATS:
        return s.again()
    wide = s.cast(data, ir.DataType.DOUBLE)
    return s.cast(s.same(wide, axes)[0], s.dtype(data))


@adapter(["ReduceSum", *OTHERS, "ArgMax", "ArgMin", "Squeeze", "Unsqueeze"], 11, 1)
def axes_count_from_the_front(s: Step, data: Value) -> Result:
    if "axis" in s.node.attributes:
        axis = s.node.attributes["axis"].as_int()
        return s.again(axis=axis + s.rank(data) if axis < 0 else axis)
    if "axes" not in s.node.attributes:
        return s.again()
    axes = s.node.attributes["axes"].as_ints()
    if all(axis >= 0 for axis in axes):
        return s.again()
    rank = s.rank(data) + (len(axes) if s.node.op_type == "Unsqueeze" else 0)
    return s.again(axes=[axis + rank if axis < 0 else axis for axis in axes])


@adapter(["ArgMax", "ArgMin"], 12, 11)
def the_last_of_equal_numbers(s: Step, data: Value, *, select_last_index: int, axis: int, keepdims: int) -> Result:
    """The last index is the first one of the reversed axis, counted from the end."""
    if not select_last_index:
        return s.again(select_last_index=None)
    backwards = slice_axis(s, data, s.array([-1]), s.array([-(2**63) + 1]), axis, -1)
    index = s.several(1, s.node.op_type, backwards, axis=axis, keepdims=keepdims)[0]
    return s.Sub(s.Sub(size_of(s, data, axis), s.array([1])), index)


@adapter("TopK", 1, 10)
def k_becomes_an_input(s: Step, X: Value, *, k: int) -> Result:
    return s.again(X, s.array([k]), k=None)


@adapter("TopK", 10, 1)
def k_becomes_an_attribute(s: Step, X: Value, K: Value, *, axis: int) -> Result:
    (count,) = s.ints(K, "K")
    return s.again(X, k=count, axis=axis if axis >= 0 else axis + s.rank(X))


@adapter("TopK", 11, 10)
def only_the_largest(s: Step, X: Value, K: Value, *, largest: int) -> Result:
    """Any order is right for `sorted=0`. The smallest numbers are the largest of the negated ones, which for floating
    point is exact."""
    if largest:
        return s.again(largest=None, sorted=None)
    if s.dtype(X) not in _FLOATS:
        s.refuse("the smallest of integers are not known before opset 11")
    values, indices = s.same(s.Neg(X), K, count=2, largest=None, sorted=None)
    return [s.Neg(values), indices]


@adapter("CumProd", 26, 0)
def cumulative_product(s: Step, x: Value, axis: Value, *, exclusive: int, reverse: int) -> Result:
    """A Scan multiplies the slices of the axis one after the other. The axis must be a constant, or one of few."""
    known = s.constant(axis)
    dtype = s.dtype(x)
    inner = ir.DataType.FLOAT if dtype == ir.DataType.BFLOAT16 else dtype
    wide = s.cast(x, inner)
    if known is not None:
        return s.cast(_products(s, wide, inner, int(known.reshape(-1)[0]), exclusive, reverse), dtype)
    rank = s.rank(x)
    places = [*range(rank), *range(-rank, 0)]
    options = [(place, partial(_products, s, wide, inner, place % rank, exclusive, reverse)) for place in places]
    return s.cast(choose(s, axis, options), dtype)


def _products(s: Step, x: Value, dtype: ir.DataType, axis: int, exclusive: int, reverse: int) -> Value:
    one = s.array(1, dtype)
    first = squeeze(s, slice_axis(s, x, s.array([0]), s.array([1]), axis), [axis])
    start = s.Expand(one, s.Shape(first))
    names = s.edit.names
    state, element = (ir.Value(name=names.fresh(name), type=ir.TensorType(dtype)) for name in ("product", "element"))

    def body() -> list[Value]:
        product = s.Mul(state, element)
        return [product, s.Identity(state if exclusive else product)]

    graph = s.graph(body, [state, element])
    options: dict[str, Any] = {"scan_input_axes": [axis], "scan_output_axes": [axis]}
    if reverse:
        options |= {"scan_input_directions": [1], "scan_output_directions": [1]}
    return s.several(2, "Scan", start, x, body=graph, num_scan_inputs=1, **options)[1]
