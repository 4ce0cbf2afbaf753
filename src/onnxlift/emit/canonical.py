"""The text of a forward in which every variable has a number for its name, and every number is a hole: equal for
modules that can share a class."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ..code.expr import Attribute, Call, Display, Expr, Literal, Local, Member, Ref, bare, walk
from ..code.render import ATOM, UNARY, Renderer
from ..code.statements import (
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
from ..ops.operand import Tensor
from .class_arguments import Number
from .module import Module

SMALLEST_ARGUMENT = 4  # integers below this in an expression are axes and the like: part of what the code says


class Canonical:
    """Writes that text, and adds the numbers that it leaves out to `numbers`. Variables in `aliases` are written as
    others; with `anonymous`, all variables look the same."""

    def __init__(self, module: Module, numbers: list[Number], *, anonymous: bool = False) -> None:
        self.module = module
        self.numbers = numbers
        self.aliases: dict[object, object] = {}
        self.variables: dict[object, str] = {}
        self.anonymous = anonymous
        self.renderer = _Holes(self.name, numbers)

    def describe(self, left_out: Collection[int] = ()) -> str:
        """The whole forward, but for the statements with the ids in `left_out`."""
        inputs = [f"{self.variable(v)}:{isinstance(o, Tensor)}" for v, o in self.module.inputs.items()]
        return "\n".join([",".join(inputs), *self.lines(self.module.body, "", left_out)])

    def lines(self, block: Block, indent: str, left_out: Collection[int] = ()) -> Iterator[str]:
        for statement in block.statements:
            if id(statement) in left_out:
                continue
            known = len(self.numbers)
            yield indent + self.head(statement)
            for number in self.numbers[known:]:
                number.home = id(statement)
            for inner in blocks(statement):
                yield from self.lines(inner, indent + " ")
                yield indent + "-"

    def head(self, statement: Statement) -> str:
        """A statement without the blocks inside it."""
        for expr in expressions(statement):
            self.renderer.sizes.update(_sizes(expr))
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
        self.sizes: dict[int, str] = {}  # id of a literal -> what it measures
        self._numbers = numbers

    def _render(self, expr: Expr) -> tuple[str, int]:
        if isinstance(expr, Literal) and (id(expr) in self.sizes or _is_argument(expr._value)):
            value = expr._value
            role = self.sizes.get(id(expr), "size" if isinstance(value, int) else "scale")
            if isinstance(value, int) and value < 0:
                self._numbers.append(Number(expr, role, -value))
                return "-#", UNARY
            self._numbers.append(Number(expr, role, value))
            return "#", ATOM
        return super()._render(expr)


def _sizes(expr: Expr) -> Iterator[tuple[int, str]]:
    """The literals in an expression that are sizes, however small, and what they measure: `unflatten(-1, (4, 16))` cuts
    into heads. Whether an attention is causal is said in the same way."""
    for part in walk(expr):
        function = bare(part._function) if isinstance(part, Call) else None
        if not isinstance(part, Call) or not isinstance(function, Attribute):
            continue
        target = bare(part._args[-1]) if part._args else None
        if function._name == "unflatten" and isinstance(target, Display):
            axis = bare(part._args[0])
            is_last = isinstance(axis, Literal) and axis._value == -1
            is_cut = is_last and not any(_is_rest(item) for item in target._items)
            roles = ["size"] * (len(target._items) - 2) + (["heads", "head_dim"] if is_cut else ["length", "length"])
            yield from _positive(target._items, roles[-len(target._items) :])
        elif function._name == "scaled_dot_product_attention":
            yield from ((id(bare(value)), name) for name, value in part._kwargs.items() if name == "is_causal")
        elif function._name == "reshape":
            yield from _positive(part._args, ["size"] * len(part._args))
        elif function._name == "pad" and isinstance(target, Display):
            yield from _positive(target._items, ["padding"] * len(target._items))
        elif function._name == "roll" and part._args:
            shifts = bare(part._args[0])
            for shift in map(bare, shifts._items if isinstance(shifts, Display) else (shifts,)):
                yield id(shift), "shift"


def _is_rest(size: Expr) -> bool:
    """Whether a size is what the others leave, -1: there can be only one."""
    size = bare(size)
    return isinstance(size, Literal) and size._value == -1


def _positive(items: Sequence[Expr], roles: Sequence[str]) -> Iterator[tuple[int, str]]:
    for item, role in zip(map(bare, items), roles, strict=True):
        if isinstance(item, Literal) and type(item._value) is int and item._value > 0:
            yield id(item), role


def _is_argument(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, int) and abs(value) >= SMALLEST_ARGUMENT)
