"""Compute what an expression of a constructor gives: `hidden // 4`, `2 ** (i % 8)`, `in_channels != channels`.

The compiler writes these expressions itself, as text. It computes them, too, to see what a constructor will make before
anyone runs it. Nothing is executed: only the few kinds of expressions that constructors consist of are known.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

Names = Mapping[str, Any]

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class UnknownExpressionError(AssertionError):
    """The error for an expression that is not of these kinds, or whose names are not known."""


def compute(text: str, names: Names) -> Any:
    """Return the value of an expression, given as text, for these values of its names."""
    return value_of(_parsed(text), names)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def value_of(expr: ast.expr, names: Names) -> Any:
    """Return the value of an expression for these values of its names."""
    match expr:
        case ast.Constant():
            return expr.value
        case ast.Name() if expr.id in names:
            return names[expr.id]
        case ast.Tuple():
            return tuple(value_of(item, names) for item in expr.elts)
        case ast.BinOp() if type(expr.op) in _BINARY:
            return _BINARY[type(expr.op)](value_of(expr.left, names), value_of(expr.right, names))
        case ast.UnaryOp(op=ast.USub()):
            return -value_of(expr.operand, names)
        case ast.Compare() if len(expr.ops) == 1 and type(expr.ops[0]) in _COMPARISONS:
            compared = _COMPARISONS[type(expr.ops[0])]
            return compared(value_of(expr.left, names), value_of(expr.comparators[0], names))
    raise UnknownExpressionError(f"{ast.unparse(expr)} is no arithmetic of known names")
