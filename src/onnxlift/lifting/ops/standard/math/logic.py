"""Elementwise comparisons, logic and choice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Binary, Expr, Literal, both, either, negate, torch, unequal
from onnxlift.lifting.ops import sizes
from onnxlift.lifting.ops.elementwise import aligned, elementwise
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Constant, Operand, Scalar, Tensor
from onnxlift.lifting.ops.registry import op

from .cast import FLOAT8

COMPARISONS = {"Less": "<", "LessOrEqual": "<=", "Greater": ">", "GreaterOrEqual": ">="}


def _register_comparison(name: str, symbol: str) -> None:
    @op(name)
    def lower(n: Node, A: Operand, B: Operand, *, broadcast: int | None, axis: int | None) -> Result:
        B = aligned(n, A, B, broadcast, axis)
        compare = partial(Binary, symbol)
        return elementwise(n, compare, A, B, sizes=partial(sizes.compare, symbol), ordered=True, predicate=True)


for _name, _symbol in COMPARISONS.items():
    _register_comparison(_name, _symbol)


@op("Equal")
def Equal(n: Node, A: Operand, B: Operand, *, broadcast: int | None, axis: int | None) -> Result:
    """Strings can be compared since opset 19."""
    if A.type.dtype == DataType.STRING:
        return kernel("equal_strings")(A, B)
    return n.elementwise(_equal, A, aligned(n, A, B, broadcast, axis), sizes=partial(sizes.compare, "=="))


def _equal(a: Expr, b: Expr) -> Expr:
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Literal) and isinstance(one._value, bool):
            return other if one._value else ~other
    return Binary("==", a, b)


def _both(a: Scalar, b: Scalar) -> Scalar:
    for one, other in ((a, b), (b, a)):
        if one.number is not None:
            return other if one.number else one
    return Scalar(both(a, b), DataType.BOOL)


def _any(a: Scalar, b: Scalar) -> Scalar:
    for one, other in ((a, b), (b, a)):
        if one.number is not None:
            return one if one.number else other
    return Scalar(Binary("or", a, b), DataType.BOOL)


def _unequal(a: Scalar, b: Scalar) -> Scalar:
    if a.number is not None and b.number is not None:
        return Scalar(a.number != b.number, DataType.BOOL)
    return Scalar(unequal(a, b), DataType.BOOL)


def _not(a: Scalar) -> Scalar:
    return Scalar(negate(a) if a.number is None else not a.number, DataType.BOOL)


LOGIC: dict[str, tuple[Callable[[Expr, Expr], Expr], Callable[[Scalar, Scalar], Scalar]]] = {
    "And": (lambda a, b: a & b, _both),
    "Or": (lambda a, b: a | b, _any),
    "Xor": (lambda a, b: a ^ b, _unequal),
}


def _register_logic(
    name: str, function: Callable[[Expr, Expr], Expr], of_sizes: Callable[[Scalar, Scalar], Scalar]
) -> None:
    @op(name)
    def lower(n: Node, A: Operand, B: Operand, *, broadcast: int | None, axis: int | None) -> Result:
        return n.elementwise(function, A, aligned(n, A, B, broadcast, axis), sizes=of_sizes)


for _name, (_function, _of_sizes) in LOGIC.items():
    _register_logic(_name, _function, _of_sizes)


@op("Not")
def Not(n: Node, X: Operand) -> Result:
    return n.elementwise(lambda x: ~x, X, sizes=_not)


@op("Where")
def Where(n: Node, condition: Operand, X: Operand, Y: Operand) -> Result:
    if X.type.dtype == DataType.STRING:
        return kernel("where_strings")(n.tensor(condition), X, Y)
    numbers = n.on_sizes(_choose, condition, X, Y)
    if numbers is not None:
        return numbers
    return torch.where(n.tensor(condition), *(_two_numbers(condition, X, Y) or n.numbers(X, Y)))


def _two_numbers(condition: Operand, X: Operand, Y: Operand) -> list[Expr] | None:
    """Return both operands as numbers (`1.0, 0.0`), if they are constants. Python numbers alone do not tell the element
    type of the result, so they must be of a type that numbers have by default."""
    rank = condition.type.rank or 0
    if not isinstance(X, Constant) or not isinstance(Y, Constant) or max(X.type.rank or 0, Y.type.rank or 0) > rank:
        return None
    if X.number is None or Y.number is None or X.type.dtype not in (DataType.FLOAT, DataType.INT64, DataType.BOOL):
        return None
    return [Literal(X.number), Literal(Y.number)]


def _choose(condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
    if condition.number is not None:
        return x if condition.number else y
    if x.number is not None and x.number == y.number:
        return x
    chosen = either(condition, x, y)
    return Scalar(chosen, x.type.dtype or DataType.INT64, x.nonnegative and y.nonnegative)


@op("IsNaN")
def IsNaN(n: Node, X: Tensor) -> Result:
    return X.isnan()


@op("IsInf")
def IsInf(n: Node, X: Tensor, *, detect_negative: int, detect_positive: int) -> Result:
    x = X.float() if X.type.dtype in FLOAT8 else X
    if detect_negative and detect_positive:
        return x.isinf()
    if not (detect_negative or detect_positive):
        return torch.zeros_like(X, dtype=torch.bool)
    return x.isneginf() if detect_negative else x.isposinf()
