"""Share the rules of elementwise operators: how early opsets broadcast, and types that PyTorch can store but not
compute.

PyTorch holds uint16, uint32 and uint64, but can hardly compute with them. They are computed in int64. The lower bits of
sums, products and the like are right, since signed and unsigned numbers agree on them in two's complement. If the order
counts (comparisons, maxima), uint64 is mapped to int64 with the sign bit flipped, which keeps the order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxlift.ir.graph.types import DataType, ValueType
from onnxlift.lifting.code.expr import Expr

from .kernel import kernel
from .node import Node, Result, torch_dtype
from .operand import Operand, Scalar, Tensor

STORED_ONLY = frozenset({DataType.UINT16, DataType.UINT32, DataType.UINT64})


def elementwise(
    n: Node,
    function: Callable[..., Any],
    *operands: Operand,
    sizes: Callable[..., Scalar | None],
    ordered: bool = False,
    predicate: bool = False,
) -> Result:
    """Return `function` of the operands, or `sizes` of them if they are sizes. `ordered`: the result depends on the
    order of the numbers, not only on their lower bits. `predicate`: the result is of type bool."""
    if operands[0].type.dtype in STORED_ONLY:
        return through_int64(function, *map(n.tensor, operands), ordered=ordered, predicate=predicate)
    return n.elementwise(function, *operands, sizes=sizes)


def through_int64(
    function: Callable[..., Expr], *operands: Tensor, ordered: bool = False, predicate: bool = False
) -> Expr:
    """Return `function` of unsigned operands, computed in int64."""
    dtype = operands[0].type.dtype
    flip = ordered and dtype == DataType.UINT64
    signed = [
        Tensor(kernel("order_as_int64")(x) if flip else x.long(), ValueType(DataType.INT64, x.type.shape))
        for x in operands
    ]
    result = function(*signed)
    if predicate:
        return result
    return kernel("order_as_uint64")(result) if flip else result.to(torch_dtype(dtype))


def aligned(n: Node, A: Operand, B: Operand, broadcast: int | None, axis: int | None) -> Operand:
    """Return `B` with its shape aligned to that of `A` as before opset 7: not at the last axis, but with its first axis
    at `axis`, and only if `broadcast` is set."""
    if not broadcast or axis is None:
        return B
    rank, own = A.type.rank, B.type.rank
    if rank is None or own is None:
        n.fail("it aligns its inputs at an axis (as before opset 7), and the rank of one of them is not known")
    trailing = rank - (axis % rank if rank else 0) - own
    if trailing <= 0:
        return B
    tensor = n.tensor(B)
    shape = None if tensor.type.shape is None else (*tensor.type.shape, *(1,) * trailing)
    return Tensor(tensor[(..., *(None,) * trailing)], ValueType(tensor.type.dtype, shape))
