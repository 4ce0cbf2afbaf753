"""Products of matrices, and determinants."""

from __future__ import annotations

from onnxlift.ir.graph.types import INTEGERS, DataType
from onnxlift.lifting.code.expr import F, torch
from onnxlift.lifting.ops.elementwise import STORED_ONLY, through_int64
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op

from .cast import converted


@op("MatMul", layer="Linear", weights=("A", "B"))
def MatMul(n: Node, A: Tensor, B: Tensor) -> Result:
    """The same as `@` in numpy and torch, also for operands of one dimension."""
    return through_int64(lambda a, b: a @ b, A, B) if A.type.dtype in STORED_ONLY else A @ B


@op("MatMulInteger")
def MatMulInteger(n: Node, A: Tensor, B: Tensor, a_zero_point: Tensor | None, b_zero_point: Tensor | None) -> Result:
    """A zero point is one number, or one for each row of A or column of B."""
    points = _zero_points(None if a_zero_point is None else per_row(a_zero_point), b_zero_point)
    return kernel("matmul_integer")(A, B, *points)


def per_row(x: Tensor) -> Tensor:
    """Return a scale or zero point of the left factor so that it broadcasts. It may have one number for each row."""
    return Tensor(x[:, None], x.type) if x.type.rank == 1 and x.type.dim(0) != 1 else x


def _zero_points(*points: Tensor | None) -> list[object]:
    """Return zero points as arguments: constants as numbers, and without zeros at the end."""
    given: list[object] = []
    for point in points:
        number = None if point is None else point.number
        given.append(0 if point is None or number == 0 else point if number is None else number)
    while given and given[-1] == 0:
        given.pop()
    return given


@op("Gemm", layer="Linear", weights=("B", "C"))
def Gemm(
    n: Node,
    A: Tensor,
    B: Tensor,
    C: Tensor | None,
    *,
    alpha: float,
    beta: float,
    transA: int,
    transB: int,
    broadcast: int | None,
) -> Result:
    """`alpha * A' @ B' + beta * C`, where `C` broadcasts to the product (before opset 7: if `broadcast` is set)."""
    if A.type.dtype in INTEGERS:
        return _integer_gemm(n, A, B, C, alpha, beta, transA, transB)
    C = None if beta == 0 else C
    if C is not None and transB and not transA and alpha == beta == 1 and C.type.rank == 1 and C.type.dim(0) != 1:
        return F.linear(A, B, C)
    product = (A.T if transA else A), (B.T if transB else B)
    if C is None:
        result = product[0] @ product[1]
        return result if alpha == 1 else result * _number(alpha)
    if alpha == beta == 1:
        return product[0] @ product[1] + C
    scales = {name: _number(value) for name, value in (("beta", beta), ("alpha", alpha)) if value != 1}
    return torch.addmm(C, *product, **scales)


def _integer_gemm(
    n: Node, A: Tensor, B: Tensor, C: Tensor | None, alpha: float, beta: float, transA: int, transB: int
) -> Result:
    if alpha != int(alpha) or beta != int(beta):
        n.fail("it scales integers by a fraction")
    factors = [int(alpha), int(beta)]

    def run(a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
        result = (a.T if transA else a) @ (b.T if transB else b)
        result = result if factors[0] == 1 else result * factors[0]
        if c is not None and factors[1]:
            result = result + (c if factors[1] == 1 else c * factors[1])
        return Tensor(result, n.output)

    operands = [A, B] if C is None else [A, B, C]
    return through_int64(run, *operands) if A.type.dtype in STORED_ONLY else run(*operands)


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() else value


@op("Det")
def Det(n: Node, X: Tensor) -> Result:
    if X.type.dtype in (DataType.FLOAT16, DataType.BFLOAT16):
        return converted(X.float().det(), X.type.dtype)
    return X.det()


@op("Einsum")
def Einsum(n: Node, *Inputs: Tensor, equation: str) -> Result:
    """torch has the same syntax for equations."""
    if Inputs[0].type.dtype in STORED_ONLY:
        return through_int64(lambda *operands: torch.einsum(equation, *operands), *Inputs)
    return torch.einsum(equation, *Inputs)
