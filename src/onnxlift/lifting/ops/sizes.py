"""Arithmetic on sizes in Python numbers: `Shape -> Gather -> Mul -> Concat` becomes an expression of ints.

Each function returns the number that the ONNX operator computes from Scalars of one element type. It returns None if
Python's result could differ from the operator's; then the sizes are put into tensors. Known numbers are folded.

A float32 scalar may be a Python number as long as that is exact: a size (below 65,536), or a size to which a short
literal is added, or which is multiplied by one, or halved. `floor(size * 0.3)` can differ between float32 and Python's
float64, so it is computed in tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from onnxlift.ir.graph.types import DataType, type_of
from onnxlift.lifting.code.expr import (
    Attribute,
    Binary,
    Call,
    Expr,
    Literal,
    Ref,
    Subscript,
    Unary,
    Wrapped,
    builtin,
    module,
)

from .kernel import kernel
from .operand import Scalar

Number = bool | int | float


def add(a: Scalar, b: Scalar) -> Scalar | None:
    if not _exact(a, b):
        return None
    if b.number == 0:
        return a
    if a.number == 0:
        return b
    return _combine(lambda x, y: x + y, a, b, nonnegative=a.nonnegative and b.nonnegative)


def subtract(a: Scalar, b: Scalar) -> Scalar | None:
    if not _exact(a, b):
        return None
    return a if b.number == 0 else _combine(lambda x, y: x - y, a, b)


def multiply(a: Scalar, b: Scalar) -> Scalar | None:
    if not _exact(a, b):
        return None
    if b.number == 1:
        return a
    if a.number == 1:
        return b
    if 0 in (a.number, b.number) and not a.type.is_float:
        return Scalar(0, _dtype(a))
    if -1 in (a.number, b.number):
        return negative(a if b.number == -1 else b)
    return _combine(lambda x, y: x * y, a, b, nonnegative=a.nonnegative and b.nonnegative)


def divide(a: Scalar, b: Scalar) -> Scalar | None:
    """Return the quotient. Integers are rounded towards zero."""
    if b.number == 1:
        return a
    if b.number == 0:
        return None
    nonnegative = a.nonnegative and b.nonnegative
    if a.type.is_float:
        power_of_two = b.number is not None and math.frexp(b.number)[0] in (0.5, -0.5)
        exact = power_of_two or a.type.dtype == DataType.DOUBLE
        return _combine(lambda x, y: x / y, a, b, nonnegative=nonnegative) if exact else None
    if nonnegative:
        return _combine(lambda x, y: x // y, a, b, nonnegative=True)
    if a.number is not None and b.number is not None:
        sign = 1 if (a.number < 0) == (b.number < 0) else -1
        return Scalar(sign * (abs(a.number) // abs(b.number)), _dtype(a))
    return Scalar(kernel("truncated_quotient")(a, b), _dtype(a))


def remainder(a: Scalar, b: Scalar) -> Scalar | None:
    """Return the remainder, with the sign of the divisor as in Python."""
    if a.type.is_float or b.number == 0:
        return None
    return _combine(lambda x, y: x % y, a, b, nonnegative=b.nonnegative)


def power(a: Scalar, b: Scalar) -> Scalar | None:
    if a.type.is_float or b.number not in (0, 1, 2, 3):
        return None
    exponent = Scalar(int(b.number))
    return a if b.number == 1 else _combine(lambda x, y: x**y, a, exponent, nonnegative=a.nonnegative)


def negative(a: Scalar) -> Scalar:
    return Scalar(-a if a.number is None else -a.number, _dtype(a))


def absolute(a: Scalar) -> Scalar:
    if a.nonnegative:
        return a
    return Scalar(builtin("abs")(a) if a.number is None else abs(a.number), _dtype(a), nonnegative=True)


def maximum(*items: Scalar) -> Scalar:
    return _extreme("max", max, any(i.nonnegative for i in items), items)


def minimum(*items: Scalar) -> Scalar:
    return _extreme("min", min, all(i.nonnegative for i in items), items)


def _extreme(name: str, function: Callable[..., Number], nonnegative: bool, items: tuple[Scalar, ...]) -> Scalar:
    known = [_shortest(i.number) for i in items if i.number is not None]
    unknown = [i for i in items if i.number is None]
    dtype = _dtype(items[0])
    if not unknown:
        return Scalar(function(known), dtype)
    if not known and len(unknown) == 1:
        return unknown[0]
    return Scalar(builtin(name)(*unknown, *([function(known)] if known else [])), dtype, nonnegative)


def floor(a: Scalar) -> Scalar:
    return _rounded("floor", math.floor, a)


def ceil(a: Scalar) -> Scalar:
    return _rounded("ceil", math.ceil, a)


def _rounded(name: str, function: Callable[[Number], int], a: Scalar) -> Scalar:
    if a.number is not None:
        return Scalar(function(a.number), _dtype(a))
    rounded: Expr = getattr(module("math"), name)
    return a if is_whole(a) else Scalar(rounded(a), _dtype(a), a.nonnegative)


def compare(symbol: str, a: Scalar, b: Scalar) -> Scalar:
    """Return `a < b` and the like. The answer is known if a size is compared with a negative number, since a size is
    never negative."""
    holds = _COMPARISONS[symbol]
    if a.number is not None and b.number is not None:
        return Scalar(holds(a.number, b.number), DataType.BOOL)
    if a.nonnegative and b.number is not None and b.number < 0:
        return Scalar(holds(0, b.number), DataType.BOOL)
    if b.nonnegative and a.number is not None and a.number < 0:
        return Scalar(holds(a.number, 0), DataType.BOOL)
    return Scalar(Binary(symbol, a, b), DataType.BOOL)


_COMPARISONS: dict[str, Callable[[Number, Number], bool]] = {
    "==": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def is_whole(scalar: Scalar) -> bool:
    """Tell whether a float is known to be an integer; it is then a Python int at run time."""
    return scalar.type.is_integer or _is_whole(scalar._expr)


def _is_whole(expr: Expr) -> bool:
    match expr:
        case Literal():
            return isinstance(expr._value, int)
        case Ref():
            return isinstance(expr._key, ir.Value) and _is_whole_value(expr._key)
        case Subscript():
            return isinstance(expr._base, Attribute) and expr._base._name == "shape"
        case Wrapped():
            return _is_whole(expr._expr)
        case Call():
            return isinstance(expr._function, Attribute) and expr._function._name in ("floor", "ceil")
        case Unary():
            return _is_whole(expr._operand)
        case Binary():
            return expr._op in ("+", "-", "*", "//", "%") and _is_whole(expr._left) and _is_whole(expr._right)
    return False


def _is_whole_value(value: ir.Value, depth: int = 4) -> bool:
    """Tell the same of a value of the graph, by the nodes that compute it, up to `depth` nodes back."""
    if type_of(value).is_integer:
        return True
    if value.const_value is not None:
        return value.const_value.size == 1 and float(value.const_value.numpy().reshape(-1)[0]).is_integer()
    node = value.producer()
    if node is None or depth == 0:
        return False
    if node.op_type in ("Floor", "Ceil"):
        return True
    passes_on = node.op_type in ("Add", "Sub", "Mul", "Neg", "Cast", "Squeeze", "Unsqueeze", "Gather")
    return passes_on and all(v is not None and _is_whole_value(v, depth - 1) for v in node.inputs)


def _dtype(a: Scalar) -> DataType:
    return a.type.dtype or DataType.INT64


def _exact(a: Scalar, b: Scalar) -> bool:
    """Tell whether Python computes with these two numbers what the element type would."""
    if a.type.dtype != DataType.FLOAT:
        return True
    literal = b.number if a.number is None else a.number
    if literal is None or not 2**-8 <= abs(literal) <= 2**16:
        return literal == 0
    return (math.frexp(literal)[0] * 2**8).is_integer()  # at most 8 of the 24 bits of a float32


def _combine(function: Callable[[Expr, Expr], Expr], a: Scalar, b: Scalar, nonnegative: bool = False) -> Scalar:
    """Return `function` of both, computed now if both are known."""
    left, right = _short(a), _short(b)
    if isinstance(left, Expr) or isinstance(right, Expr):
        return Scalar(function(left, right), _dtype(a), nonnegative)  # type: ignore[arg-type]
    return Scalar(function(left, right), _dtype(a))  # type: ignore[arg-type]


def _short(a: Scalar) -> Scalar | Number:
    """Return the number itself if it is known, else the scalar."""
    return a if a.number is None else _shortest(a.number)


def _shortest(number: Number) -> Number:
    return int(number) if isinstance(number, float) and number.is_integer() else number
