"""Operators that read elements by index or position."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.ir.graph.types import DataType, Dim, ValueType
from onnxlift.lifting.code.expr import Expr, builtin, torch, unequal
from onnxlift.lifting.ops.axes import along, as_written, at, from_front
from onnxlift.lifting.ops.carry import CARRIER, carried
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Constant, Dims, Operand, Scalar, Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.media.string_arrays import moves_elements

_LONGEST_LIST = 8
"""Constant indices are written out up to this length (`x[:, [2, 1, 0]]`); longer ones become a buffer."""

_NEVER_NEGATIVE = frozenset({"ArgMax", "ArgMin", "NonZero", "TopK"})
"""Operators whose results are indices counted from the front."""

_MOVES = frozenset(
    {
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
"""Operators that only move the elements of their first input."""

_MOST_MOVES = 16
"""How many nodes to go back in search of the origin of indices."""

# INT_MAX of 32 and of 64 bits mean "to the end" in the ONNX specification.
_OPEN_ENDS = frozenset({2**31 - 1, 2**63 - 1})


@op("Gather")
@moves_elements
def Gather(n: Node, data: Operand, indices: Operand, *, axis: int) -> Result:
    """Slices of `data` along one axis. Indices may be negative, as in PyTorch's indexing (but not in
    `index_select`)."""
    if isinstance(data, Dims):
        sizes = _gathered_sizes(n, data, indices)
        if sizes is not None:
            return sizes
    x = n.tensor(data)
    size = x.type.dim(axis)
    if not isinstance(size, int) and isinstance(indices, Constant) and _is_run(indices.const, size):
        return _run(x, axis, indices)
    return along(x, axis, _index(indices, size))


def _run(x: Tensor, axis: int, indices: Constant) -> Expr:
    """Return neighbours along an axis of unknown size: `x.narrow(1, 2, 4)`, which fails where an index is out of range,
    as in ONNX. A slice would give fewer elements. A single index stands in a list: `x[:, [2]]`."""
    first, count = int(indices.const[0]), len(indices.const)
    if count == 1 or x.type.dtype is DataType.STRING:
        return along(x, axis, indices.const.tolist() if count <= _LONGEST_LIST else indices)
    return x.narrow(as_written(axis, x.type.rank), first, count)


def _gathered_sizes(n: Node, data: Dims, indices: Operand) -> Operand | None:
    """Return the picked sizes; None if they are not single sizes."""
    if isinstance(indices, Dims):
        return None
    if isinstance(indices, Scalar) and indices.number is None:
        return Scalar(data.as_expr()[indices])
    if indices.const is None or (indices.type.rank or 0) > 1:
        return None
    places = [int(i) for i in indices.const.reshape(-1)]
    if data.length is not None and any(not -data.length <= place < data.length for place in places):
        n.fail(f"it picks {places} out of {data.length} sizes")
    picked = [data[place] for place in places]
    return picked[0] if indices.type.rank == 0 else Dims(picked)


def _index(indices: Operand, size: Dim) -> Any:
    """Return what to write between the brackets for an axis of this size."""
    if isinstance(indices, Scalar):
        return indices
    if isinstance(indices, Dims):
        return indices.as_expr() if indices.elements is None else list(indices.elements)
    if not isinstance(indices, Constant) or (indices.type.rank or 0) > 1:
        return indices
    numbers = indices.const
    if numbers.ndim == 0:
        return int(numbers)
    if _is_run(numbers, size):
        return slice(int(numbers[0]) or None, int(numbers[-1] + 1) or None)
    return numbers.tolist() if 0 < len(numbers) <= _LONGEST_LIST else indices


def _is_run(numbers: np.ndarray[Any, Any], size: Dim) -> bool:
    """Tell whether the indices count up by one, so that a slice means the same. (A slice would not notice an index out
    of range.)"""
    if numbers.ndim != 1 or len(numbers) == 0 or (np.diff(numbers) != 1).any() or numbers[0] < 0 <= numbers[-1]:
        return False
    return not isinstance(size, int) or bool(-size <= numbers[0] <= numbers[-1] < size)


@op("GatherElements")
@moves_elements
def GatherElements(n: Node, data: Tensor, indices: Tensor, *, axis: int) -> Result:
    axis = as_written(axis, data.type.rank)
    if counted_from_front(n, indices, 1):
        return carried(lambda x: x.gather(axis, indices), data)
    return carried(lambda x: kernel("gather_elements")(x, indices, axis), data)


def counted_from_front(n: Node, indices: Tensor, position: int) -> bool:
    """Tell whether input `position` holds int64 indices without negative ones, as PyTorch wants them."""
    return indices.type.dtype == DataType.INT64 and _never_negative(n.ir.inputs[position])


def _never_negative(value: ir.Value | None) -> bool:
    """Tell whether no element can be negative: the value is a constant without negative elements, comes from an
    operator that never gives any, or only moves the elements of such a value."""
    for _ in range(_MOST_MOVES):
        if value is None:
            return False
        if value.const_value is not None:
            return bool((value.const_value.numpy() >= 0).all())
        node = value.producer()
        if node is None or node.domain != "":
            return False
        if node.op_type in _NEVER_NEGATIVE:
            return True
        if node.op_type not in _MOVES or not node.inputs:
            return False
        value = node.inputs[0]
    return False


@op("GatherND")
@moves_elements
def GatherND(n: Node, data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Result:
    """The last axis of `indices` goes over the axes of `data`, behind the `batch_dims` that both share (opset 12)."""
    if batch_dims:
        return kernel("gather_nd")(data, indices, batch_dims)
    return data[indices.unbind(-1)]


@op("Slice")
@moves_elements
def Slice(n: Node, data: Operand, starts: Dims, ends: Dims, axes: Dims | None, steps: Dims | None) -> Result:
    """As in Python, negative bounds count from the end, and bounds out of range are cut. Until opset 9 all of them are
    attributes and there are no steps."""
    if starts.static == ():
        return data
    if steps is not None and 0 in (steps.static or ()):
        n.fail("it has a step of 0")
    if isinstance(data, Dims) and starts.length == ends.length == 1:
        sizes = _sliced_sizes(data, starts, ends, steps)
        if sizes is not None:
            return sizes
    x = n.tensor(data)
    bounds = _bounds(starts, ends, axes, steps)
    written = None if bounds is None else _sliced(x, bounds)
    if written is not None:
        return written
    options = {name: value for name, value in (("axes", axes), ("steps", steps)) if value is not None}
    return carried(lambda x: kernel("strided_slice")(x, starts, ends, **options), x)


Bounds = dict[int, tuple[Scalar, Scalar, int]]
"""Axis -> start, end, step."""


def _bounds(starts: Dims, ends: Dims, axes: Dims | None, steps: Dims | None) -> Bounds | None:
    """Return the slice of every axis, if axes and steps are known already; else None."""
    if starts.elements is None or ends.elements is None:
        return None
    count = len(starts.elements)
    places = tuple(range(count)) if axes is None else axes.static
    strides = (1,) * count if steps is None else steps.static
    if places is None or strides is None or not len(places) == len(strides) == count == len(ends.elements):
        return None
    return {axis: (starts[i], ends[i], strides[i]) for i, axis in enumerate(places)}


def _sliced(x: Tensor, bounds: Bounds) -> Expr | None:
    """Return `x[:, 1:5].flip(2)`; None if the slices cannot be written so."""
    slices: dict[int, slice] = {}
    flipped: list[int] = []
    for axis, (start, end, step) in bounds.items():
        size = x.type.dim(axis)
        if step < 0:
            forward = _forward(start.number, end.number, step, size)
            if forward is None:
                return None
            flipped.append(from_front(axis, x.type.rank))
        else:
            forward = slice(*_trimmed(start, end, size), None if step == 1 else step)
        if forward != slice(None):
            slices[axis] = forward
    if flipped and x.type.dtype in CARRIER:
        return None
    kept = at(x, slices) if slices else x
    return kept.flip(*sorted(flipped)) if kept is not None and flipped else kept


def _trimmed(start: Scalar, end: Scalar, size: Dim) -> tuple[Any, Any]:
    """Return the bounds of a forward slice, with None for those at the ends of the axis."""
    first, last = start.number, end.number
    known = isinstance(size, int)
    from_start = first == 0 or (known and first is not None and first <= -size)  # type: ignore[operator]
    to_end = last in _OPEN_ENDS or (known and last is not None and last >= size)  # type: ignore[operator]
    return None if from_start else start, None if to_end else end


def _forward(start: Any, end: Any, step: int, size: Dim) -> slice | None:
    """Return the forward slice over the elements that a backward one visits; None if that depends on an unknown
    size."""
    if start is None or end is None:
        return None
    if isinstance(size, int):
        visited = backward(int(start), int(end), step, size)
        if not visited:
            return slice(0, 0)
        first, last = visited[-1] or None, visited[0] + 1
        return slice(first, None if last >= size else last, None if step == -1 else -step)
    from_end, to_front = start == -1 or start in _OPEN_ENDS, end <= 1 - 2**31
    if step != -1 or not (from_end or start >= 0) or not (to_front or end >= 0):
        return None
    return slice(None if to_front else int(end) + 1, None if from_end else int(start) + 1)


def backward(start: int, end: int, step: int, size: int) -> range:
    """Return the places that a slice with a negative step visits, with ONNX's bounds. Unlike in Python, a start before
    the first element is moved to it."""
    first = min(max(start + size if start < 0 else start, 0), size - 1)
    last = min(max(end + size if end < 0 else end, -1), size - 1)
    return range(first, last, step)


def _sliced_sizes(data: Dims, starts: Dims, ends: Dims, steps: Dims | None) -> Dims | None:
    """Return a part of a list of sizes; None if it cannot be written as sizes."""
    step = Scalar(1) if steps is None else steps[0]
    start, end = starts[0].number, ends[0].number
    if data.elements is None or start is None or end is None or step.number is None:
        if step.number is None or step.number < 0:
            return None
        cut = slice(*_trimmed(starts[0], ends[0], data.length), None if step.number == 1 else int(step.number))
        return data if cut == slice(None) else Dims(None, data.as_expr()[cut], dtype=data.type.dtype)
    if step.number > 0:
        return Dims(data.elements[int(start) : int(end) : int(step.number)], dtype=data.type.dtype)
    places = backward(int(start), int(end), int(step.number), len(data.elements))
    return Dims([data.elements[i] for i in places], dtype=data.type.dtype)


@op("Compress")
@moves_elements
def Compress(n: Node, input: Tensor, condition: Tensor, *, axis: int | None) -> Result:
    """The slices for which `condition` is true; it may be shorter than the axis. Without an axis the input is
    flattened."""
    x = input
    if axis is None:
        x = Tensor(input.flatten(), ValueType(input.type.dtype, (input.type.size,)))
        axis = 0
    lengths = x.type.dim(axis), condition.type.dim(0)
    if lengths[0] is not None and lengths[0] == lengths[1]:
        return along(x, axis, condition)
    return x.index_select(as_written(axis, x.type.rank), condition.nonzero().flatten())


@op("NonZero")
def NonZero(n: Node, X: Tensor) -> Result:
    """One row for each axis of the input, so none for a scalar, as in PyTorch and unlike numpy. An empty string counts
    as zero."""
    return _places(n, X).T


@op("Places", domain=DOMAIN)
def Places(n: Node, X: Tensor) -> Result:
    """One row for each element that is not zero."""
    return _places(n, X)


@op("Masked", domain=DOMAIN)
def Masked(n: Node, data: Tensor, mask: Tensor) -> Result:
    """The elements for which the mask is true. Its axes are the first axes of the data."""
    return data[mask]


def _places(n: Node, x: Tensor) -> Expr:
    if x.type.dtype == DataType.STRING:
        return torch.as_tensor(x.astype(builtin("bool")), device=n.device).nonzero()
    return (unequal(x, 0) if x.type.dtype in CARRIER else x).nonzero()


@op("ReverseSequence")
@moves_elements
def ReverseSequence(n: Node, input: Tensor, sequence_lens: Tensor, *, batch_axis: int, time_axis: int) -> Result:
    options = {} if (batch_axis, time_axis) == (1, 0) else {"batch_axis": batch_axis, "time_axis": time_axis}
    return carried(lambda x: kernel("reverse_sequence")(x, sequence_lens, **options), input)
