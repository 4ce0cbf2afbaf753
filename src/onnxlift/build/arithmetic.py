"""Python's operators, written in ONNX with exactly Python's meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.types import FLOATS, INTEGERS, type_of

from . import state
from .errors import BuildError
from .operators import operator
from .value import Value


def call(name: str, *inputs: Any, **given: Any) -> Value:
    """Call an operator of ONNX's default domain that gives one value."""
    result: Value = operator("", name)(*inputs, **given)
    return result


def _opset() -> int:
    return state.opsets()[""]


def dtype_of(a: Any, b: Any = None) -> ir.DataType | None:
    """Return the element type of the first of the operands that is a value."""
    return next((each.dtype for each in (a, b) if isinstance(each, Value)), None)


def _broadcasting(name: str) -> Callable[[Any, Any], Value]:
    """Return an elementwise operator. Before opset 7 it broadcasts only its second operand, and only if told."""

    def apply(a: Any, b: Any) -> Value:
        if _opset() >= 7:
            return call(name, a, b)
        first, second = _shape(a), _shape(b)
        if first is not None and first == second:
            return call(name, a, b)
        return call(name, a, b, broadcast=1)

    return apply


def _shape(operand: Any) -> tuple[Any, ...] | None:
    if isinstance(operand, Value):
        return operand.shape
    return getattr(operand, "shape", ())


def _divide(a: Any, b: Any) -> Value:
    if dtype_of(a, b) in INTEGERS:
        raise BuildError(
            f"{_told(a)} / {_told(b)}: a division of ints gives no ints: write `//`, or cast to a float type first."
        )
    return _BASIC["/"](a, b)


def _floor_divide(a: Any, b: Any) -> Value:
    dtype = dtype_of(a, b)
    if dtype not in INTEGERS:
        return call("Floor", _BASIC["/"](a, b))
    if dtype is not None and not dtype.is_signed():
        return _BASIC["/"](a, b)
    # ONNX divides ints towards zero: take away what is left over first.
    return _BASIC["/"](_BASIC["-"](a, call("Mod", a, b)), b)


def _modulo(a: Any, b: Any) -> Value:
    if dtype_of(a, b) in FLOATS:
        raise BuildError(
            f"{_told(a)} % {_told(b)}: ONNX has no remainder of floats with the sign of the divisor, as Python's: "
            "op.Mod(a, b, fmod=1) has the sign of the dividend."
        )
    return call("Mod", a, b)


def _logical(symbol: str, of_bools: str, of_ints: str) -> Callable[[Any, Any], Value]:
    def apply(a: Any, b: Any) -> Value:
        dtype = dtype_of(a, b)
        if dtype in FLOATS:
            raise BuildError(f"{_told(a)} {symbol} {_told(b)}: it takes bools or ints, and these are floats.")
        return call(of_ints, a, b) if dtype in INTEGERS else _broadcasting(of_bools)(a, b)

    return apply


def _at_most(name: str, strictly: str) -> Callable[[Any, Any], Value]:
    """`a <= b` exists since opset 12. Before, it is `a < b` or `a == b`, which is the same for NaN as well."""

    def apply(a: Any, b: Any) -> Value:
        if _opset() >= 12:
            return call(name, a, b)
        return _broadcasting("Or")(_broadcasting(strictly)(a, b), _broadcasting("Equal")(a, b))

    return apply


def invert(a: Value) -> Value:
    """Return `~a`: of bools the other one, of ints all bits turned."""
    if a.dtype in FLOATS:
        raise BuildError(f"~{_told(a)}: it takes bools or ints, and these are floats.")
    return call("BitwiseNot" if a.dtype in INTEGERS else "Not", a)


def _told(operand: Any) -> str:
    return str(type_of(operand._value)) if isinstance(operand, Value) else repr(operand)


_BASIC: Mapping[str, Callable[[Any, Any], Value]] = {
    "+": _broadcasting("Add"),
    "-": _broadcasting("Sub"),
    "*": _broadcasting("Mul"),
    "/": _broadcasting("Div"),
    "<": _broadcasting("Less"),
    ">": _broadcasting("Greater"),
}

BINARY: Mapping[str, Callable[[Any, Any], Value]] = {
    **_BASIC,
    "/": _divide,
    "//": _floor_divide,
    "%": _modulo,
    "**": _broadcasting("Pow"),
    "@": lambda a, b: call("MatMul", a, b),
    "&": _logical("&", "And", "BitwiseAnd"),
    "|": _logical("|", "Or", "BitwiseOr"),
    "^": _logical("^", "Xor", "BitwiseXor"),
    "<=": _at_most("LessOrEqual", "Less"),
    ">=": _at_most("GreaterOrEqual", "Greater"),
}
