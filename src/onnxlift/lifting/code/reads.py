"""Which variables code reads.

A variable is known by its key: the value of the graph that a `Ref` stands for, or a `Local`, which is its own key. Code
is an expression, a statement or a block. What a statement reads includes what the blocks under it read; what it
evaluates itself is `*expressions(statement)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .expr import Expr, Local, Ref, variable, walk
from .statements import Block, Statement, expressions, walk_statements

Code = Expr | Statement | Block


def parts(*code: Code) -> Iterator[Expr]:
    """Go through all expressions in `code` and their parts, in the order of the text. Targets of assignments are no
    part of that."""
    for each in code:
        if isinstance(each, Expr):
            yield from walk(each)
            continue
        for statement in walk_statements(each if isinstance(each, Block) else Block([each])):
            for expr in expressions(statement):
                yield from walk(expr)


def variables_read(*code: Code) -> Iterator[object]:
    """Go through the variables that `code` reads, each as often as it stands there."""
    return (variable(part) for part in parts(*code) if isinstance(part, Ref | Local))


def values_read(*code: Code) -> Iterator[object]:
    """Go through those variables that values of the graph stand behind."""
    return (part._key for part in parts(*code) if isinstance(part, Ref))


def variables_behind(expr: Expr, inlined: Mapping[object, Expr]) -> Iterator[object]:
    """Go through the variables that `expr` reads when expressions are written in the place of those `inlined`."""
    for key in variables_read(expr):
        inner = inlined.get(key)
        if inner is None:
            yield key
        else:
            yield from variables_behind(inner, inlined)
