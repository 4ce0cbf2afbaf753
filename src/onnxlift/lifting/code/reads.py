"""Find the variables that code reads.

A variable is identified by its key: the value of the graph behind a `Ref`, or a `Local`, which is its own key. Code is
an expression, a statement or a block. The reads of a statement include those of the blocks under it; its own reads
alone are those of `*expressions(statement)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .expr import Expr, Local, Ref, variable, walk
from .statements import Block, Statement, expressions, walk_statements

Code = Expr | Statement | Block


def parts(*code: Code) -> Iterator[Expr]:
    """Yield all expressions in `code` and their parts, in the order of the text. Targets of assignments are not
    included."""
    for each in code:
        if isinstance(each, Expr):
            yield from walk(each)
            continue
        for statement in walk_statements(each if isinstance(each, Block) else Block([each])):
            for expr in expressions(statement):
                yield from walk(expr)


def variables_read(*code: Code) -> Iterator[object]:
    """Return the variables that `code` reads, each as often as it occurs."""
    return (variable(part) for part in parts(*code) if isinstance(part, Ref | Local))


def values_read(*code: Code) -> Iterator[object]:
    """Return the variables that `code` reads and that hold values of the graph."""
    return (part._key for part in parts(*code) if isinstance(part, Ref))


def variables_behind(expr: Expr, inlined: Mapping[object, Expr]) -> Iterator[object]:
    """Yield the variables that `expr` reads once the expressions of those `inlined` are written in their place."""
    for key in variables_read(expr):
        inner = inlined.get(key)
        if inner is None:
            yield key
        else:
            yield from variables_behind(inner, inlined)
