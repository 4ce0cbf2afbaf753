"""Another expression in the place of parts of one."""

from __future__ import annotations

import copy
from collections.abc import Callable

from .expr import (
    Attribute,
    Binary,
    Call,
    Comprehension,
    Display,
    Expr,
    SliceExpr,
    Star,
    Subscript,
    Ternary,
    Unary,
    Wrapped,
)
from .statements import Assign, Branch, Evaluate, ForLoop, Return, Statement, WhileLoop, With

Replacement = Callable[[Expr], Expr | None]


def substitute(expr: Expr, new: Replacement) -> Expr:
    """`expr` with every part for which `new` has something in its place, outermost first; what stays is the same
    object as before."""
    found = new(expr)
    if found is not None:
        return found
    parts = expr._parts()
    changed = tuple(substitute(part, new) for part in parts)
    if all(before is after for before, after in zip(parts, changed, strict=True)):
        return expr
    return _with_parts(expr, changed)


def substitute_in(statement: Statement, new: Replacement) -> None:
    """The same for what `statement` itself evaluates, not for the blocks under it."""
    match statement:
        case Assign() | Evaluate() | Return():
            statement.expr = substitute(statement.expr, new)
        case Branch() | WhileLoop():
            statement.condition = substitute(statement.condition, new)
        case ForLoop():
            statement.iterable = substitute(statement.iterable, new)
        case With():
            statement.context = substitute(statement.context, new)


def _with_parts(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """The same expression of other parts, which come in the order of `_parts`."""
    match expr:
        case Wrapped():
            known = copy.copy(expr)
            (known._expr,) = parts
            return known
        case Attribute():
            return Attribute(parts[0], expr._name)
        case Call():
            count = len(expr._args) + 1
            return Call(parts[0], parts[1:count], dict(zip(expr._kwargs, parts[count:], strict=True)))
        case Subscript():
            return Subscript(parts[0], parts[1:])
        case SliceExpr():
            rest = iter(parts)
            return SliceExpr(*(None if p is None else next(rest) for p in (expr._start, expr._stop, expr._step)))
        case Unary():
            return Unary(expr._op, parts[0])
        case Binary():
            return Binary(expr._op, *parts)
        case Ternary():
            return Ternary(parts[1], parts[0], parts[2])
        case Display():
            return Display(parts, expr._brackets)
        case Star():
            return Star(parts[0])
        case Comprehension():
            return Comprehension(parts[0], expr._target, parts[2])
    raise TypeError(f"{type(expr).__name__} has no parts")
