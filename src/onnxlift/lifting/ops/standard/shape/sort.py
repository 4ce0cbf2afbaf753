"""Operators that order elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxlift.ir.graph.types import COMPLEX, FLOATS, DataType
from onnxlift.lifting.code.expr import Expr, torch
from onnxlift.lifting.ops.arguments import changed
from onnxlift.lifting.ops.axes import as_written
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result, Unpack
from onnxlift.lifting.ops.operand import Scalar, Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.math.cast import converted

_WIDER = {DataType.UINT16: DataType.INT32, DataType.UINT32: DataType.INT64}
_TOP_BIT = -(2**63)


_NAMES = ("values", "indices")


@op("TopK", ignores=("sorted",))
def TopK(n: Node, X: Tensor, K: Scalar, *, axis: int, largest: int = 1) -> Result:
    """The results are always in order, even if opset 11's `sorted` does not ask for it. Of equal elements the first
    comes first. `torch.topk` does not promise that, so it is used only if nobody reads the indices."""
    dtype = X.type.dtype
    axis = as_written(axis, X.type.rank)
    dim = [] if axis == -1 or axis + 1 == X.type.rank else [axis]
    options: dict[str, Any] = {} if largest else {"largest": False}
    if dtype == DataType.UINT64 or dtype in _WIDER:
        values, indices = _top_unsigned(X, dtype, lambda x: kernel("top_k")(x, K, *dim, **options))
        return values, indices if n.wants(1) else None
    if not n.wants(1):
        return X.topk(K, *dim, **options).values, None
    if K.number == 1:
        return Unpack((X.max if largest else X.min)(axis, keepdim=True), 2, names=_NAMES)
    if K.number is not None and K.number == X.type.dim(axis):
        order = changed({"dim": dim[0] if dim else -1, "descending": bool(largest)}, dim=-1, descending=False)
        order["stable"] = True
        return Unpack(X.sort(**order), 2, names=_NAMES) if n.wants(0) else (None, X.argsort(**order))
    return Unpack(kernel("top_k")(X, K, *dim, **options), 2, names=_NAMES)


def _top_unsigned(x: Tensor, dtype: DataType, order: Callable[[Expr], Expr]) -> tuple[Expr, Expr]:
    """Return values and indices of unsigned integers, which PyTorch cannot order. They are ordered as wider integers,
    or as int64 with the top bit flipped."""
    if dtype in _WIDER:
        ordered = order(converted(x, _WIDER[dtype]))
        return converted(ordered[0], dtype), ordered[1]
    ordered = order(x.view(torch.int64) ^ _TOP_BIT)
    return (ordered[0] ^ _TOP_BIT).view(torch.uint64), ordered[1]


@op("Unique")
def Unique(n: Node, X: Tensor, *, axis: int | None, sorted: int) -> Result:
    """Up to four results, in the order of first occurrence if not `sorted`. PyTorch's function has no derivative, so it
    is not for floating-point numbers."""
    options: dict[str, Any] = {} if axis is None else {"axis": axis}
    is_plain = X.type.dtype not in (DataType.STRING, *COMPLEX, *FLOATS)
    if sorted and is_plain and not any(n.wants(i) for i in (1, 2, 3)):
        return torch.unique(X, **({} if axis is None else {"dim": axis}))
    if not sorted:
        options["ordered"] = False
    if X.type.dtype == DataType.STRING:
        if axis is not None and X.type.rank != 1:
            return Unpack(kernel("unique_string_slices")(X, **options), 4)
        options.pop("axis", None)
        return Unpack(kernel("unique_strings")(X, **options), 4)
    return Unpack(kernel("unique_with_places")(X, **options), 4)
