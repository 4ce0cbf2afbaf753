"""Operators that write elements by index. PyTorch's out-of-place functions; nothing is changed in place."""

from __future__ import annotations

from collections.abc import Callable

from ..code.expr import Expr
from ..ir.types import DataType
from .axes import as_written
from .carry import carried
from .cast import converted
from .index import counted_from_front
from .kernel import kernel
from .node import Node, Result
from .operand import Tensor
from .registry import op
from .string_arrays import numbers_only

_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
_WIDER = {DataType.UINT16: DataType.INT64, DataType.UINT32: DataType.INT64}

_NOT_REDUCED = frozenset({DataType.STRING, DataType.BOOL, DataType.COMPLEX64, DataType.COMPLEX128})


@op("Scatter", "ScatterElements")
@numbers_only
def ScatterElements(
    n: Node, data: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: str = "none"
) -> Result:
    """Called Scatter until opset 10. Reductions since opset 16 (add, mul) and 18 (max, min)."""
    axis = as_written(axis, data.type.rank)
    how = _reduction(n, data, reduction)
    if not counted_from_front(n, indices, 1):
        return _write(how, lambda x, new: kernel("scatter_elements")(x, indices, new, axis, *how), data, updates)
    if not how:
        return carried(lambda x, new: x.scatter(axis, indices, new), data, updates)
    if how == ["sum"]:
        return _write(how, lambda x, new: x.scatter_add(axis, indices, new), data, updates)
    return _write(how, lambda x, new: x.scatter_reduce(axis, indices, new, *how), data, updates)


@op("ScatterND")
@numbers_only
def ScatterND(n: Node, data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Result:
    """The last axis of `indices` goes over the first axes of `data`. Reductions since opset 16 (add, mul) and 18."""
    how = _reduction(n, data, reduction)
    places = indices.unbind(-1)
    if not how:
        return carried(lambda x, new: x.index_put(places, new), data, updates)
    if how == ["sum"]:
        return _write(how, lambda x, new: x.index_put(places, new, accumulate=True), data, updates)
    return _write(how, lambda x, new: kernel("scatter_nd")(x, indices, new, *how), data, updates)


def _reduction(n: Node, data: Tensor, reduction: str) -> list[str]:
    """PyTorch's name of the reduction, as the arguments that say it; none for none."""
    if reduction == "none":
        return []
    if reduction not in _REDUCTIONS:
        n.fail(f"its reduction {reduction} is not known")
    if data.type.dtype == DataType.UINT64 and reduction in ("max", "min"):
        n.fail(f"PyTorch cannot take the {reduction} of uint64")
    if data.type.dtype in _NOT_REDUCED:
        n.fail(f"its reduction {reduction} is not defined for {data.type}")
    return [_REDUCTIONS[reduction]]


def _write(how: list[str], write: Callable[..., Expr], data: Tensor, updates: Tensor) -> Expr:
    """`write(data, updates)`, which computes; unsigned integers are widened for it where PyTorch lacks their kernels.

    Sums and products of uint64 are those of the same bits as int64."""
    dtype = data.type.dtype
    if not how or dtype not in _WIDER:
        return carried(write, data, updates)
    wide = _WIDER[dtype]
    return converted(write(converted(data, wide), converted(updates, wide)), dtype)


@op("TensorScatter")
@numbers_only
def TensorScatter(
    n: Node, past_cache: Tensor, update: Tensor, write_indices: Tensor | None, *, mode: str, axis: int
) -> Result:
    """A cache with the new entries written into it, `circular` or not."""
    options: dict[str, object] = {} if axis == -2 else {"axis": axis}
    if mode == "circular":
        options["circular"] = True
    positions = [] if write_indices is None else [write_indices]
    return carried(lambda x, new: kernel("tensor_scatter")(x, new, *positions, **options), past_cache, update)
