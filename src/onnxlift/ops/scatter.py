"""Operators that write elements by index. PyTorch's out-of-place functions; nothing is changed in place."""

from __future__ import annotations

from collections.abc import Callable

from ..code.expr import Expr
from ..ir.types import DataType, type_of
from .arguments import trimmed
from .axes import as_written
from .carry import carried
from .elementwise import STORED_ONLY, through_int64
from .index import counted_from_front
from .kernel import kernel
from .node import Node, Result
from .operand import Tensor
from .registry import op
from .string_arrays import moves_elements

_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
_NOT_REDUCED = frozenset({DataType.STRING, DataType.BOOL, DataType.COMPLEX64, DataType.COMPLEX128})


@op("Scatter", "ScatterElements")
@moves_elements
def ScatterElements(
    n: Node, data: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: str = "none"
) -> Result:
    """Called Scatter until opset 10. Reductions since opset 16 (add, mul) and 18 (max, min)."""
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
    """The last axis of `indices` goes over the first axes of `data`. Reductions since opset 16 (add, mul) and 18."""
    how = _reduction(n, reduction)
    places = indices.unbind(-1)
    if not how:
        return carried(lambda x, new: x.index_put(places, new), data, updates)
    if how == ["sum"]:
        return _write(how, lambda x, new: x.index_put(places, new, accumulate=True), data, updates)
    return _write(how, lambda x, new: kernel("scatter_nd")(x, indices, new, *how), data, updates)


def _reduction(n: Node, reduction: str) -> list[str]:
    """PyTorch's name of the reduction, as the arguments that say it; none for none."""
    if reduction == "none":
        return []
    if reduction not in _REDUCTIONS:
        n.fail(f"its reduction {reduction} is not known")
    data = type_of(n.ir.inputs[0])
    if data.dtype in _NOT_REDUCED:
        n.fail(f"its reduction {reduction} is not defined for {data}")
    return [_REDUCTIONS[reduction]]


def _write(how: list[str], write: Callable[..., Expr], data: Tensor, updates: Tensor) -> Expr:
    """`write(data, updates)`, which moves elements, or computes if it says `how`."""
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
