"""Code of a script before its variables have names: texts, and between them the values that are read.

A stranger's text reaches the script only as an identifier (lifting/code/identifiers.py) or as a literal (literals.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

TERNARY, COMPARE, BIT_OR, BIT_XOR, BIT_AND, ADD, MUL, UNARY, POWER, ATOM = range(10)
"""Binding strengths, as in Python's grammar."""
INDENT_TEXT = "    "


@dataclass(frozen=True)
class Read:
    """A value that is read; in parentheses if what is written for it binds less tightly than `strength`."""

    value: ir.Value
    strength: int = TERNARY


@dataclass(eq=False)
class LocalFunction:
    """A Python function inside another: the body of a branch or a loop."""

    hint: str
    parameters: list[ir.Value]
    statements: list[Statement]
    results: list[ir.Value]
    kept: list[ir.Value] = field(default_factory=list)


Part = str | Read | LocalFunction


@dataclass(frozen=True)
class Code:
    """An expression."""

    parts: tuple[Part, ...]
    strength: int = ATOM

    def reads(self) -> Iterator[ir.Value]:
        """Yield the values that the expression itself reads."""
        for part in self.parts:
            if isinstance(part, Read):
                yield part.value


@dataclass(eq=False)
class Statement:
    """`targets = code`. A target that is None is not needed; `unpacks` if the code gives a tuple."""

    targets: tuple[ir.Value | None, ...]
    code: Code
    node: ir.Node | None
    path: str = ""
    """The module that the node lies in."""
    unpacks: bool = False

    @property
    def functions(self) -> list[LocalFunction]:
        """The bodies of the node."""
        return [part for part in self.code.parts if isinstance(part, LocalFunction)]

    def captured(self) -> Iterator[ir.Value]:
        """Yield the values that its bodies read, also those that they make themselves."""
        waiting = self.functions
        while waiting:
            function = waiting.pop()
            yield from function.results
            yield from function.kept
            for statement in function.statements:
                yield from statement.code.reads()
                waiting.extend(statement.functions)

    def made_inside(self) -> Iterator[ir.Value]:
        """Yield the values that its bodies make, and their parameters."""
        waiting = self.functions
        while waiting:
            function = waiting.pop()
            yield from function.parameters
            for statement in function.statements:
                yield from (target for target in statement.targets if target is not None)
                waiting.extend(statement.functions)

    def reads(self) -> list[ir.Value]:
        """Return the values from outside that it reads, each once, in order."""
        found = dict.fromkeys(self.code.reads())
        if self.functions:
            inside = set(self.made_inside())
            found |= dict.fromkeys(value for value in self.captured() if value not in inside)
        return list(found)


def joined(parts: Sequence[Sequence[Part]], between: str = ", ") -> list[Part]:
    """Return the parts with a text between them."""
    found: list[Part] = []
    for number, part in enumerate(parts):
        found += [between, *part] if number else part
    return found
