"""Compute the output of one node whose inputs are all known, with numpy.

The table has operators whose result numpy gives exactly as ONNX defines it: those of shape arithmetic, masks and tables
of positions. A node has no value here if its operator is not in the table, or if the result is undefined (a division
of integers by zero, an index out of range). Then the node stays, and its result is computed when the model runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.schema import attributes_of

Array = np.ndarray[Any, Any]
Attributes = dict[str, Any]


class NotEvaluated(Exception):  # noqa: N818 - an answer, not a failure
    """The result of a node is not defined, or is not computed here."""


def evaluate(node: ir.Node, opset: int, inputs: Sequence[Array | None], *, typed: bool = True) -> Array | None:
    """Return the only output of a node of the default domain; None if it has no value here.

    With `typed=False`, an operator that only moves elements may get inputs of another type than the node's."""
    function = _TABLE.get(node.op_type)
    if function is None or node.domain != "" or len(node.outputs) != 1:
        return None
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    try:
        with np.errstate(all="ignore"):
            result: Array = np.asanyarray(function(attributes_of(node, opset), *inputs))
    except (NotEvaluated, ValueError, IndexError, TypeError, KeyError, OverflowError, MemoryError):
        return None
    # numpy sometimes gives a wider type (int64 for a sum of int32, an integer for bool), which ONNX does not.
    expected = node.outputs[0].dtype
    if typed and expected is not None and expected != ir.DataType.from_numpy(result.dtype):
        return None
    return result


def _given(value: Array | None) -> Array:
    if value is None:
        raise NotEvaluated
    return value


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make an elementwise operator without attributes of a numpy function.

    The attribute `broadcast` of opsets 1 to 6 is refused."""

    def apply(attributes: Attributes, *inputs: Array | None) -> Any:
        if attributes.get("broadcast"):
            raise NotEvaluated
        return function(*map(_given, inputs))

    return apply


def _fold(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(attributes: Attributes, first: Array | None, *rest: Array | None) -> Any:
        result: Any = _given(first)
        for value in rest:
            result = function(result, _given(value))
        return result

    return apply


def _floats(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """Make an operator of a numpy function: computed in double precision, and rounded once to the type of the input."""

    def apply(attributes: Attributes, x: Array | None) -> Any:
        x = _given(x)
        return function(x.astype(np.float64)).astype(x.dtype)

    return apply


def _divide(a: Array, b: Array) -> Any:
    if a.dtype.kind not in "iu":
        return np.divide(a, b)
    if not b.all():
        raise NotEvaluated
    quotient = np.floor_divide(a, b)
    return quotient + ((quotient < 0) & (quotient * b != a))  # towards zero, as ONNX divides integers


def _mod(attributes: Attributes, a: Array | None, b: Array | None) -> Any:
    a, b = _given(a), _given(b)
    if a.dtype.kind in "iu" and not b.all():
        raise NotEvaluated
    return np.fmod(a, b) if attributes.get("fmod") else np.mod(a, b)


def _power(a: Array, b: Array) -> Any:
    if a.dtype.kind in "iu" and (b < 0).any():
        raise NotEvaluated
    return np.power(a, b).astype(a.dtype)


def _clip(attributes: Attributes, x: Array | None, low: Array | None = None, high: Array | None = None) -> Any:
    """Before opset 11 the limits are attributes."""
    result = _given(x)
    for limit, name, function in ((low, "min", np.maximum), (high, "max", np.minimum)):
        bound = limit if limit is not None else attributes.get(name)
        result = result if bound is None else function(result, np.asarray(bound, result.dtype))
    return result


def _scatter_elements(attributes: Attributes, data: Array | None, indices: Array | None, updates: Array | None) -> Any:
    """Where two updates meet, their order is not defined. Reductions are left to the runtime."""
    data, indices, updates = _given(data).copy(), _given(indices), _given(updates)
    if attributes.get("reduction", "none") != "none":
        raise NotEvaluated
    axis = attributes["axis"] % data.ndim
    places = [*np.indices(indices.shape)]
    places[axis] = np.where(indices < 0, indices + data.shape[axis], indices)
    flat = np.ravel_multi_index(places, data.shape)  # an index out of range is a ValueError
    if np.unique(flat).size < flat.size:
        raise NotEvaluated
    data[tuple(places)] = updates
    return data


_CASTABLE = frozenset(
    np.dtype(name)
    for name in (bool, "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ml_dtypes.bfloat16)
)


def _cast(attributes: Attributes, x: Array | None) -> Any:
    return _convert(_given(x), ir.DataType(attributes["to"]).numpy())


def _cast_like(attributes: Attributes, x: Array | None, like: Array | None) -> Any:
    return _convert(_given(x), _given(like).dtype)


def _convert(x: Array, dtype: Any) -> Any:
    if x.dtype not in _CASTABLE or dtype not in _CASTABLE:
        raise NotEvaluated
    if x.dtype.kind not in "biu" and np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        wide = x.astype(np.float64)
        if not ((wide >= limits.min) & (wide < float(limits.max) + 1)).all():
            raise NotEvaluated  # a float that is out of range becomes another integer on another machine
    return x.astype(dtype)


def _shape(attributes: Attributes, x: Array | None) -> Any:
    return np.array(_given(x).shape[attributes.get("start") or 0 : attributes.get("end")], np.int64)


def _gather(attributes: Attributes, data: Array | None, indices: Array | None) -> Any:
    return np.take(_given(data), _given(indices), axis=attributes.get("axis") or 0)


def _gather_elements(attributes: Attributes, data: Array | None, indices: Array | None) -> Any:
    data, indices, axis = _given(data), _given(indices), attributes.get("axis") or 0
    # Along the other axes, indices may be fewer than the data: ONNX then uses the beginning of the data. numpy would
    # broadcast the indices.
    begin = [slice(size) for size in indices.shape]
    begin[axis] = slice(None)
    return np.take_along_axis(data[tuple(begin)], indices, axis=axis)


def _scatter_nd(attributes: Attributes, data: Array | None, indices: Array | None, updates: Array | None) -> Any:
    data, indices = _given(data), _given(indices)
    places = tuple(np.moveaxis(indices, -1, 0))
    count = np.zeros(data.shape[: len(places)], np.int64)
    np.add.at(count, places, 1)
    if (attributes.get("reduction") or "none") != "none" or (count > 1).any():
        raise NotEvaluated  # if several updates go to one place, ONNX does not say which of them wins
    result = data.copy()
    result[places] = _given(updates)
    return result


def _ints(attributes: Attributes, name: str, given: Array | None) -> list[int] | None:
    """Return a list that is an attribute in old opsets and an input in newer ones; None if it is in neither."""
    if given is not None:
        return [int(i) for i in given.reshape(-1)]
    value = attributes.get(name)
    return None if value is None else list(value)


def _slice(
    attributes: Attributes,
    data: Array | None,
    starts: Array | None = None,
    ends: Array | None = None,
    axes: Array | None = None,
    steps: Array | None = None,
) -> Any:
    data = _given(data)
    begin, end = _ints(attributes, "starts", starts), _ints(attributes, "ends", ends)
    if begin is None or end is None:
        raise NotEvaluated
    where = _ints(attributes, "axes", axes) or list(range(len(begin)))
    step = _ints(attributes, "steps", steps) or [1] * len(begin)
    index = [slice(None)] * data.ndim
    for first, last, axis, stride in zip(begin, end, where, step, strict=True):
        if stride < 0 and first < -data.shape[axis]:
            raise NotEvaluated
        index[axis] = slice(first, last, stride)
    return data[tuple(index)]


def _concat(attributes: Attributes, *inputs: Array | None) -> Any:
    return np.concatenate([_given(x) for x in inputs], axis=attributes["axis"])


def _unsqueeze(attributes: Attributes, x: Array | None, axes: Array | None = None) -> Any:
    where = _ints(attributes, "axes", axes)
    if where is None:
        raise NotEvaluated
    return np.expand_dims(_given(x), tuple(where))


def _squeeze(attributes: Attributes, x: Array | None, axes: Array | None = None) -> Any:
    where = _ints(attributes, "axes", axes)
    return np.squeeze(_given(x), None if where is None else tuple(where))


def _reshape(attributes: Attributes, x: Array | None, shape: Array | None = None) -> Any:
    x, target = _given(x), _ints(attributes, "shape", shape)
    if target is None:
        raise NotEvaluated
    if not attributes.get("allowzero"):
        target = [x.shape[i] if size == 0 else size for i, size in enumerate(target)]
    return x.reshape(target)


def _flatten(attributes: Attributes, x: Array | None) -> Any:
    x, axis = _given(x), attributes["axis"]
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))


def _transpose(attributes: Attributes, x: Array | None) -> Any:
    return np.transpose(_given(x), attributes.get("perm"))


def _expand(attributes: Attributes, x: Array | None, shape: Array | None) -> Any:
    x = _given(x)
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(_given(shape).tolist()))).copy()


def _constant_of_shape(attributes: Attributes, shape: Array | None) -> Any:
    value = attributes.get("value")
    fill = np.zeros(1, np.float32) if value is None else value.numpy()
    return np.full(tuple(_given(shape).tolist()), fill.reshape(-1)[0], fill.dtype)


def _range(attributes: Attributes, start: Array | None, limit: Array | None, step: Array | None) -> Any:
    start, limit, step = _given(start), _given(limit), _given(step)
    if start.dtype.kind not in "iu":
        raise NotEvaluated  # how a range of floats rounds depends on the runtime
    return np.arange(int(start), int(limit), int(step), dtype=start.dtype)


def _tile(attributes: Attributes, x: Array | None, repeats: Array | None) -> Any:
    return np.tile(_given(x), tuple(_given(repeats).tolist()))


def _trilu(attributes: Attributes, x: Array | None, k: Array | None = None) -> Any:
    offset = 0 if k is None else int(k)
    return (np.triu if attributes.get("upper", 1) else np.tril)(_given(x), offset)


def _cumsum(attributes: Attributes, x: Array | None, axis: Array | None) -> Any:
    x = _given(x)
    if attributes.get("exclusive") or attributes.get("reverse") or x.dtype.kind not in "iu":
        raise NotEvaluated
    return np.cumsum(x, int(_given(axis)), dtype=x.dtype)


def _reduction(function: Callable[..., Any], *, floats: bool = False) -> Callable[..., Any]:
    """Make a reduction of integers and bools of a numpy function.

    With `floats` it also reduces floats that hold no NaN. This is for maximum and minimum only: the result of a sum
    depends on the order of evaluation, which is up to the runtime."""

    def apply(attributes: Attributes, x: Array | None, axes: Array | None = None) -> Any:
        x, where = _given(x), _ints(attributes, "axes", axes)
        if x.size == 0 or (x.dtype.kind not in "iub" and not (floats and (x == x).all())):
            raise NotEvaluated
        if not where and attributes.get("noop_with_empty_axes"):
            return x
        kept = bool(attributes.get("keepdims", 1))
        return function(x, axis=tuple(where) if where else None, keepdims=kept).astype(x.dtype)

    return apply


_TABLE: dict[str, Callable[..., Any]] = {
    "Add": _plain(np.add),
    "Sub": _plain(np.subtract),
    "Mul": _plain(np.multiply),
    "Div": _plain(_divide),
    "Mod": _mod,
    "Pow": _plain(_power),
    "Neg": _plain(np.negative),
    "Abs": _plain(np.abs),
    "Sign": _plain(np.sign),
    "Floor": _plain(np.floor),
    "Ceil": _plain(np.ceil),
    "Round": _plain(np.rint),
    "Sqrt": _plain(np.sqrt),
    "Reciprocal": _plain(lambda x: np.divide(x.dtype.type(1), x)),
    "Exp": _floats(np.exp),
    "Log": _floats(np.log),
    "Clip": _clip,
    "ScatterElements": _scatter_elements,
    "Sin": _floats(np.sin),
    "Cos": _floats(np.cos),
    "Tanh": _floats(np.tanh),
    "Max": _fold(np.maximum),
    "Min": _fold(np.minimum),
    "Equal": _plain(np.equal),
    "Less": _plain(np.less),
    "LessOrEqual": _plain(np.less_equal),
    "Greater": _plain(np.greater),
    "GreaterOrEqual": _plain(np.greater_equal),
    "And": _plain(np.logical_and),
    "Or": _plain(np.logical_or),
    "Xor": _plain(np.logical_xor),
    "Not": _plain(np.logical_not),
    "Where": _plain(np.where),
    "Identity": _plain(np.asarray),
    "Cast": _cast,
    "CastLike": _cast_like,
    "Shape": _shape,
    "Size": _plain(lambda x: np.array(x.size, np.int64)),
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "ScatterND": _scatter_nd,
    "Slice": _slice,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Expand": _expand,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Tile": _tile,
    "Trilu": _trilu,
    "CumSum": _cumsum,
    "ReduceSum": _reduction(np.sum),
    "ReduceProd": _reduction(np.prod),
    "ReduceMax": _reduction(np.max, floats=True),
    "ReduceMin": _reduction(np.min, floats=True),
    "NonZero": _plain(lambda x: np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1)),
}
EVALUATED = frozenset(_TABLE)
"""The operators that `evaluate` can compute."""
