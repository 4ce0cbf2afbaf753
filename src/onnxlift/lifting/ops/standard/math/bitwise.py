"""Operations on the bits of integers."""

from __future__ import annotations

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.ops.elementwise import STORED_ONLY, through_int64
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op


@op("BitwiseAnd")
def BitwiseAnd(n: Node, A: Tensor, B: Tensor) -> Result:
    return n.elementwise(lambda a, b: a & b, A, B)


@op("BitwiseOr")
def BitwiseOr(n: Node, A: Tensor, B: Tensor) -> Result:
    return n.elementwise(lambda a, b: a | b, A, B)


@op("BitwiseXor")
def BitwiseXor(n: Node, A: Tensor, B: Tensor) -> Result:
    return n.elementwise(lambda a, b: a ^ b, A, B)


@op("BitwiseNot")
def BitwiseNot(n: Node, X: Tensor) -> Result:
    return through_int64(lambda x: ~x, X) if X.type.dtype in STORED_ONLY else ~X


@op("BitShift")
def BitShift(n: Node, X: Tensor, Y: Tensor, *, direction: str) -> Result:
    """A shift by more bits than the type has gives copies of the sign to the right, and zero to the left, as in
    torch."""
    if direction == "LEFT":
        if X.type.dtype in STORED_ONLY:
            return through_int64(lambda x, y: x << y, X, Y)
        return n.elementwise(lambda x, y: x << y, X, Y)
    if X.type.dtype == DataType.UINT64:
        return through_int64(kernel("uint64_shift_right"), X, Y)
    if X.type.dtype in STORED_ONLY:
        return through_int64(lambda x, y: x >> y, X, Y)
    return n.elementwise(lambda x, y: x >> y, X, Y)
