"""Move elements of types that PyTorch has no kernel for, as integers of the same width.

PyTorch has no `gather`, `scatter`, `flip`, `tril` and the like for unsigned integers of 16 bits and more, nor for
floats of 8 bits. If elements are only moved, they can be viewed as signed integers of the same width:
`x.view(torch.int32)`.
"""

from __future__ import annotations

from collections.abc import Callable

from onnxlift.ir.graph.types import DataType, ValueType
from onnxlift.lifting.code.expr import Expr

from .node import torch_dtype
from .operand import Tensor

CARRIER = {
    DataType.UINT16: DataType.INT16,
    DataType.UINT32: DataType.INT32,
    DataType.UINT64: DataType.INT64,
    DataType.FLOAT8E4M3FN: DataType.INT8,
    DataType.FLOAT8E4M3FNUZ: DataType.INT8,
    DataType.FLOAT8E5M2: DataType.INT8,
    DataType.FLOAT8E5M2FNUZ: DataType.INT8,
    DataType.FLOAT8E8M0: DataType.INT8,
}


def carried(move: Callable[..., Expr], *tensors: Tensor) -> Expr:
    """Return `move(*tensors)` for any element type. `move` must only move elements, and compute nothing."""
    dtype = tensors[0].type.dtype
    carrier = CARRIER.get(dtype) if dtype is not None else None
    if carrier is None:
        return move(*tensors)
    bits = [Tensor(t.view(torch_dtype(carrier)), ValueType(carrier, t.type.shape)) for t in tensors]
    return move(*bits).view(torch_dtype(dtype))
