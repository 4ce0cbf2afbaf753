"""Merge neighbouring branches that ask for the same condition.

    if c: a = f(x)                if c: a = f(x); b = g(y)
    else: a = x              ->   else: a = x; b = y
    if c: b = g(y)
    else: b = y

Applies if one If follows the other without a statement between them, and both ask for the same value of the graph.
Sound because a value of the graph never changes, and whatever the second one reads is there in the same branch of the
first.
"""

from __future__ import annotations

from onnxlift.lifting.code.statements import Block, Branch, Statement, blocks


def merge_branches(block: Block) -> None:
    """Merge such branches in `block`, and in all blocks under it."""
    merged: list[Statement] = []
    for statement in block.statements:
        before = merged[-1] if merged else None
        if isinstance(statement, Branch) and isinstance(before, Branch) and statement.asks is before.asks is not None:
            before.then.statements += statement.then.statements
            before.otherwise.statements += statement.otherwise.statements
            before.origin += statement.origin
        else:
            merged.append(statement)
    block.statements = merged
    for statement in merged:
        for inner in blocks(statement):
            merge_branches(inner)
