"""Replace parts of expressions by other expressions."""

from __future__ import annotations

import copy
import operator
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
    if not children(expr):
        return expr
    changed = expr
    for slot in ("_expr",) if isinstance(expr, Wrapped) else type(expr).__slots__:
        old = getattr(expr, slot)
        part = _substituted(old, new)
        if part is not old:
            changed = copy.copy(expr) if changed is expr else changed
            setattr(changed, slot, part)
    return changed


def _substituted(part: Any, new: Replacement) -> Any:
    """Return the same for an attribute of an expression: an expression, several of them, or something else."""
    match part:
        case Expr():
            return substitute(part, new)
        case tuple():
            items = tuple(_substituted(item, new) for item in part)
            return part if all(map(operator.is_, part, items)) else items
        case dict():
            values = [_substituted(item, new) for item in part.values()]
            return part if all(map(operator.is_, part.values(), values)) else dict(zip(part, values, strict=True))
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
