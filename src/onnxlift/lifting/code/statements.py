"""Statements of the generated source. A `Block` holds the lines indented under a `def`, an `if` or a `for`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

from .expr import Expr, Local, Ref

Target = Ref | Local | None  # None is written as `_`


@dataclass(eq=False)
class Statement:
    """A statement. `origin` has the names of the ONNX nodes that it comes from: one, or several after inlining."""

    origin: list[str] = field(default_factory=list, kw_only=True)


@dataclass(eq=False)
class Assign(Statement):
    """`targets = expr`. With several targets the expression is unpacked. If they are nested, `form` is how they are
    written: `{}, ({}, {})`."""

    targets: list[Target]
    expr: Expr
    form: str | None = field(default=None, kw_only=True)


@dataclass(eq=False)
class Evaluate(Statement):
    """An expression that is evaluated for its effect: `trace.append(y)`."""

    expr: Expr


@dataclass(eq=False)
class Branch(Statement):
    """`if condition:`. Branches whose conditions are the same value have the same `asks`."""

    condition: Expr
    then: Block
    otherwise: Block
    asks: object = field(default=None, kw_only=True)


@dataclass(eq=False)
class ForLoop(Statement):
    """`for targets in iterable:`. Without targets, `_` is written."""

    targets: list[Target]
    iterable: Expr
    body: Block


@dataclass(eq=False)
class WhileLoop(Statement):
    condition: Expr
    body: Block


@dataclass(eq=False)
class With(Statement):
    """`with context:`"""

    context: Expr
    body: Block


@dataclass(eq=False)
class Break(Statement):
    pass


@dataclass(eq=False)
class Return(Statement):
    expr: Expr


@dataclass(eq=False)
class Block:
    statements: list[Statement] = field(default_factory=list)

    def append(self, statement: Statement) -> None:
        self.statements.append(statement)


def blocks(statement: Statement) -> tuple[Block, ...]:
    """Return the blocks indented under `statement`."""
    match statement:
        case Branch():
            return (statement.then, statement.otherwise)
        case ForLoop() | WhileLoop() | With():
            return (statement.body,)
    return ()


def expressions(statement: Statement) -> tuple[Expr, ...]:
    """Return the expressions that `statement` itself evaluates, not those of the blocks under it."""
    match statement:
        case Assign() | Evaluate() | Return():
            return (statement.expr,)
        case Branch() | WhileLoop():
            return (statement.condition,)
        case ForLoop():
            return (statement.iterable,)
        case With():
            return (statement.context,)
    return ()


def walk_statements(block: Block) -> Iterator[Statement]:
    """Yield all statements of `block` and of the blocks nested in it, in the order of the text."""
    # A stack rather than recursion: generators in generators hand each statement through all depths.
    stack = [iter(block.statements)]
    while stack:
        for statement in stack[-1]:
            yield statement
            inner = blocks(statement)
            if inner:
                stack.extend(iter(under.statements) for under in reversed(inner))
                break
        else:
            stack.pop()


def copy_of(statement: Statement) -> Statement:
    """Return a copy of `statement` and of all that is indented under it. Expressions are the same objects."""
    same = copy.copy(statement)
    same.origin = [*statement.origin]
    match same:
        case Branch():
            same.then, same.otherwise = (_copy_of_block(block) for block in blocks(statement))
        case ForLoop() | WhileLoop() | With():
            same.body = _copy_of_block(same.body)
    return same


def _copy_of_block(block: Block) -> Block:
    return Block([copy_of(statement) for statement in block.statements])
