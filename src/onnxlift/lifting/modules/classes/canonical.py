"""Write a forward as a text in which every variable is called by a number, and every number is left out. The text is
equal for modules that can share a class."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from onnxlift.lifting.code.expr import Expr, Literal, Local, Member, Ref, WeightType
from onnxlift.lifting.code.render import ATOM, UNARY, Renderer
from onnxlift.lifting.code.statements import (
    Assign,
    Block,
    Break,
    Evaluate,
    ForLoop,
    Return,
    Statement,
    WhileLoop,
    With,
    blocks,
    expressions,
)
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.ops.operand import Tensor

from .number_groups import Number
from .quantities import LIMIT, SIGNED, quantities

SMALLEST_ARGUMENT = 4  # smaller integers are axes and the like, unless it is known what they measure


class Canonical:
    """The writer of that text. It adds the numbers that it leaves out to `numbers`. Variables in `aliases` are written
    like another variable. With `anonymous`, all variables look the same."""

    def __init__(self, module: Module, numbers: list[Number], *, anonymous: bool = False) -> None:
        self.module = module
        self.numbers = numbers
        self.aliases: dict[object, object] = {}
        self.variables: dict[object, str] = {}
        self.anonymous = anonymous
        self.renderer = _Holes(self.name, numbers)

    def describe(self, left_out: Collection[Statement] = ()) -> str:
        """Return the whole forward, without the statements in `left_out`."""
        inputs = [f"{self.variable(v)}:{isinstance(o, Tensor)}" for v, o in self.module.inputs.items()]
        return "\n".join([",".join(inputs), *self.lines(self.module.body, "", left_out)])

    def lines(self, block: Block, indent: str, left_out: Collection[Statement] = ()) -> Iterator[str]:
        for statement in block.statements:
            if statement in left_out:
                continue
            known = len(self.numbers)
            yield indent + self.head(statement)
            for number in self.numbers[known:]:
                number.home = statement
            for inner in blocks(statement):
                yield from self.lines(inner, indent + " ")
                yield indent + "-"

    def head(self, statement: Statement) -> str:
        """Return the text of a statement without the blocks inside it."""
        for expr in expressions(statement):
            self.renderer.roles.update(quantities(expr))
        texts = [self.renderer.text(e) for e in expressions(statement)]
        if isinstance(statement, Assign):
            return f"{','.join('_' if t is None else self.name(t) for t in statement.targets)}={texts[0]}"
        if isinstance(statement, ForLoop):
            return f"for {','.join('_' if t is None else self.name(t) for t in statement.targets)} in {texts[0]}"
        words = {Return: "return", Evaluate: "do", WhileLoop: "while", With: "with", Break: "break"}
        return " ".join([words.get(type(statement), "if"), *texts])

    def name(self, leaf: Expr) -> str:
        match leaf:
            case Ref():
                return self.variable(leaf._key)
            case Local():
                return self.variable(leaf)
            case Member():
                return "self." + ".".join(self.module.name_of(leaf._target))
            case WeightType():
                return leaf._element
        return "device"

    def variable(self, key: object) -> str:
        stored = self.module.stored_name(key)
        if stored is not None:
            return "self." + ".".join(stored)
        while key in self.aliases:
            key = self.aliases[key]
        return "v" if self.anonymous else self.variables.setdefault(key, f"v{len(self.variables)}")


class _Holes(Renderer):
    def __init__(self, name_of: Any, numbers: list[Number]) -> None:
        super().__init__(name_of)
        self.roles: dict[Expr, str] = {}  # literal -> what it measures
        self._numbers = numbers

    def _render(self, expr: Expr) -> tuple[str, int]:
        if not isinstance(expr, Literal) or not (expr in self.roles or _is_argument(expr._value)):
            return super()._render(expr)
        value = expr._value
        role = self.roles.get(expr, "size" if isinstance(value, int) else "scale")
        if isinstance(value, int | float) and value < 0 and _has_sign(value, role):
            self._numbers.append(Number(expr, role, -value, negated=True))
            return "-#", UNARY
        self._numbers.append(Number(expr, role, value))
        return "#", ATOM


def _has_sign(value: float, role: str) -> bool:
    """Tell whether the minus before a number belongs to the code, and not to the number."""
    return role == LIMIT or (isinstance(value, int) and role not in SIGNED)


def _is_argument(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, int) and abs(value) >= SMALLEST_ARGUMENT)
