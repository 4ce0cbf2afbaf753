"""Replace parts of expressions by other expressions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from .expr import Expr, Wrapped, children
from .statements import Assign, Block, Branch, Evaluate, ForLoop, Return, Statement, WhileLoop, With, blocks

Replacement = Callable[[Expr], Expr | None]


def substitute(expr: Expr, new: Replacement) -> Expr:
    """Return `expr` with each part replaced for which `new` gives an expression, outermost first. What does not change
    is the same object as before."""
    found = new(expr)
    if found is not None:
        return found
    changed = copy.copy(expr)
    slots = ("_expr",) if isinstance(expr, Wrapped) else type(expr).__slots__
    for slot in slots:
        setattr(changed, slot, _substituted(getattr(expr, slot), new))
    return expr if all(a is b for a, b in zip(children(expr), children(changed), strict=True)) else changed


def _substituted(part: Any, new: Replacement) -> Any:
    """Return the same for an attribute of an expression: an expression, several of them, or something else."""
    match part:
        case Expr():
            return substitute(part, new)
        case tuple():
            return tuple(_substituted(item, new) for item in part)
        case dict():
            return {key: _substituted(item, new) for key, item in part.items()}
    return part


def substitute_in(statement: Statement, new: Replacement) -> None:
    """Replace parts of the expressions that `statement` itself evaluates, not of those in the blocks under it."""
    match statement:
        case Assign() | Evaluate() | Return():
            statement.expr = substitute(statement.expr, new)
        case Branch() | WhileLoop():
            statement.condition = substitute(statement.condition, new)
        case ForLoop():
            statement.iterable = substitute(statement.iterable, new)
        case With():
            statement.context = substitute(statement.context, new)


def copied(statement: Statement, new: Replacement) -> Statement:
    """Return a copy of `statement` with the same replacements, also in the blocks under it."""
    changed = copy.copy(statement)
    substitute_in(changed, new)
    if isinstance(changed, ForLoop | WhileLoop | With):
        changed.body = Block([copied(inner, new) for inner in changed.body.statements])
    elif isinstance(changed, Branch):
        changed.then, changed.otherwise = (Block([copied(s, new) for s in b.statements]) for b in blocks(statement))
    return changed
