"""Remove assignments that nobody reads.

    a = f(x)          ->   (gone, if a is not read)
    a, b = g(x)       ->   _, b = g(x)

Every statement that computes has no side effects, so it may go. A loop or branch goes when its blocks are empty.
"""

from __future__ import annotations

from onnxlift.lifting.code.expr import variable
from onnxlift.lifting.code.reads import variables_read
from onnxlift.lifting.code.statements import (
    Assign,
    Block,
    Branch,
    Break,
    Evaluate,
    ForLoop,
    Statement,
    WhileLoop,
    With,
    blocks,
    expressions,
)


def remove_dead_code(block: Block) -> None:
    """Remove, from the end to the beginning, every assignment whose targets are not read after it."""
    _sweep(block, set())


def _sweep(block: Block, read: set[object]) -> None:
    kept: list[Statement] = []
    for statement in reversed(block.statements):
        if isinstance(statement, Assign):
            statement.targets = [t if t is not None and variable(t) in read else None for t in statement.targets]
            if all(t is None for t in statement.targets):
                continue
        if isinstance(statement, Evaluate) and _list_of(statement) not in read:
            continue
        if isinstance(statement, ForLoop | WhileLoop):
            # An iteration may read what the one before it wrote. So the reads of the whole body count from its end on.
            _note(statement, read)
            _collect(statement.body, read)
        for inner in blocks(statement):
            _sweep(inner, read)
        if isinstance(statement, Branch) and not statement.then.statements and not statement.otherwise.statements:
            continue
        if isinstance(statement, ForLoop) and all(isinstance(s, Break) for s in statement.body.statements):
            continue
        if isinstance(statement, With) and not statement.body.statements:
            continue
        _note(statement, read)
        kept.append(statement)
    block.statements = kept[::-1]


def _list_of(statement: Evaluate) -> object:
    """Return the variable that `trace.append(y)` changes."""
    return next(variables_read(statement.expr), None)


def _note(statement: Statement, read: set[object]) -> None:
    read.update(variables_read(*expressions(statement)))


def _collect(block: Block, read: set[object]) -> None:
    for statement in block.statements:
        if not isinstance(statement, Evaluate) or _list_of(statement) in read:
            _note(statement, read)
        for inner in blocks(statement):
            _collect(inner, read)
