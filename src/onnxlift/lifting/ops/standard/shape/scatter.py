"""Operators that write elements by index, with PyTorch's out-of-place functions: nothing is changed in place."""

from __future__ import annotations

from collections.abc import Callable

from onnxlift.ir.graph.types import DataType, type_of
from onnxlift.lifting.code.expr import Expr
from onnxlift.lifting.ops.arguments import trimmed
from onnxlift.lifting.ops.axes import as_written
from onnxlift.lifting.ops.carry import carried
from onnxlift.lifting.ops.elementwise import STORED_ONLY, through_int64
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.media.string_arrays import moves_elements

from .index import counted_from_front

_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
_NOT_REDUCED = frozenset({DataType.STRING, DataType.BOOL, DataType.COMPLEX64, DataType.COMPLEX128})


@op("Scatter", "ScatterElements")
@moves_elements
def ScatterElements(
    n: Node, data: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: str = "none"
) -> Result:
    """Called Scatter until opset 10. There are reductions since opset 16 (add, mul) and 18 (max, min)."""
    axis = as_written(axis, data.type.rank)
    how = _reduction(n, reduction)
    if not counted_from_front(n, indices, 1):
        return _write(how, lambda x, new: kernel("scatter_elements")(x, indices, new, axis, *how), data, updates)
    if not how:
        return carried(lambda x, new: x.scatter(axis, indices, new), data, updates)
    if how == ["sum"]:
        return _write(how, lambda x, new: x.scatter_add(axis, indices, new), data, updates)
    return _write(how, lambda x, new: x.scatter_reduce(axis, indices, new, *how), data, updates)


@op("ScatterND")
@moves_elements
def ScatterND(n: Node, data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Result:
    """The last axis of `indices` goes over the first axes of `data`. There are reductions since opset 16 (add, mul) and
    18 (max, min)."""
    how = _reduction(n, reduction)
    places = indices.unbind(-1)
    if not how:
        return carried(lambda x, new: x.index_put(places, new), data, updates)
    if how == ["sum"]:
        return _write(how, lambda x, new: x.index_put(places, new, accumulate=True), data, updates)
    return _write(how, lambda x, new: kernel("scatter_nd")(x, indices, new, *how), data, updates)


def _reduction(n: Node, reduction: str) -> list[str]:
    """Return PyTorch's name of the reduction as a list of arguments, which is empty for no reduction."""
    if reduction == "none":
        return []
    data = type_of(n.ir.inputs[0])
    if data.dtype in _NOT_REDUCED:
        n.fail(f"its reduction {reduction} is not defined for {data}")
    return [_REDUCTIONS[reduction]]


def _write(how: list[str], write: Callable[..., Expr], data: Tensor, updates: Tensor) -> Expr:
    """Return `write(data, updates)`. It only moves elements, unless `how` names a reduction that it computes."""
    if how and data.type.dtype in STORED_ONLY:
        return through_int64(write, data, updates, ordered=how[0] in ("amax", "amin"))
    return carried(write, data, updates)


@op("TensorScatter")
@moves_elements
def TensorScatter(
    n: Node, past_cache: Tensor, update: Tensor, write_indices: Tensor | None, *, mode: str, axis: int
) -> Result:
    """A cache with the new entries written into it, `circular` or not."""
    options: dict[str, object] = {} if axis == -2 else {"axis": axis}
    if mode == "circular":
        options["circular"] = True
    return carried(
        lambda x, new: kernel("tensor_scatter")(*trimmed(x, new, write_indices), **options), past_cache, update
    )
