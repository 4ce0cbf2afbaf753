"""Turn expressions into text."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .expr import (
    FLOAT32_MAX,
    Attribute,
    Binary,
    Call,
    Comprehension,
    Device,
    Display,
    Expr,
    Literal,
    Local,
    Member,
    Name,
    Ref,
    SliceExpr,
    Star,
    Subscript,
    Ternary,
    Unary,
    WeightType,
    Wrapped,
    bare,
)
from .roots import root_text

# Binding strengths, as in Python's grammar. An expression that binds less tightly than what is around it needs
# parentheses.
TERNARY, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, ADD, MUL, UNARY, POWER, ATOM = range(14)

_BINARY = {
    "or": OR,
    "and": AND,
    "==": COMPARE,
    "!=": COMPARE,
    "<": COMPARE,
    "<=": COMPARE,
    ">": COMPARE,
    ">=": COMPARE,
    "is": COMPARE,
    "is not": COMPARE,
    "|": BIT_OR,
    "^": BIT_XOR,
    "&": BIT_AND,
    "<<": SHIFT,
    ">>": SHIFT,
    "+": ADD,
    "-": ADD,
    "*": MUL,
    "/": MUL,
    "//": MUL,
    "%": MUL,
    "@": MUL,
    "**": POWER,
}


def float_text(value: float) -> str:
    """Return the shortest text that reads back as `value`, as people write it: `1e-5`, not `1e-05`; `1e9`, not
    1000000000.0."""
    if math.isnan(value):
        return 'float("nan")'
    if math.isinf(value):
        return 'float("inf")' if value > 0 else 'float("-inf")'
    if abs(value) == FLOAT32_MAX:
        return f"torch.finfo(torch.float32).{'max' if value > 0 else 'min'}"
    root = root_text(value)
    if root is not None:
        return root
    text = f"{value:.0e}" if abs(value) >= 1e6 and float(f"{value:.0e}") == value else repr(value)
    mantissa, exponent, power = text.partition("e")
    if not exponent:
        return mantissa
    sign = "-" if power.startswith("-") else ""
    return f"{mantissa}e{sign}{power.lstrip('+-').lstrip('0')}"


def quoted(text: str) -> str:
    """Write a text as a literal: in quotes, with all that is not plain ASCII escaped."""
    return Renderer(lambda leaf: leaf).text(Literal(text))


class Renderer:
    """Turns expressions into text. `name_of` gives the text of the leaves that only the surrounding module can name:
    `Ref`, `Local`, `Member`, `Device`, `WeightType`. It may return another expression, which is then written in their
    place."""

    def __init__(self, name_of: Callable[[Expr], str | Expr]) -> None:
        self._name_of = name_of

    def text(self, expr: Expr, strength: int = TERNARY) -> str:
        """Return `expr` as text, in parentheses if it binds less tightly than `strength`."""
        text, own = self._render(expr)
        return f"({text})" if own < strength else text

    def _render(self, expr: Expr) -> tuple[str, int]:
        """Return the text of `expr` and its binding strength."""
        for kind in type(expr).__mro__:
            if kind in _WRITERS:
                return _WRITERS[kind](self, expr)
        raise TypeError(f"no text for {type(expr).__name__}")

    def _wrapped(self, expr: Wrapped) -> tuple[str, int]:
        return self._render(expr._expr)

    def _leaf(self, expr: Ref | Local | Member | Device | WeightType) -> tuple[str, int]:
        name = self._name_of(expr)
        return (name, ATOM) if isinstance(name, str) else self._render(name)

    def _name(self, expr: Name) -> tuple[str, int]:
        return expr._name, ATOM

    def _attribute(self, expr: Attribute) -> tuple[str, int]:
        return f"{self._base(expr._base)}.{expr._name}", ATOM

    def _call(self, expr: Call) -> tuple[str, int]:
        match expr:
            case Call(_function=Name(_name="tuple"), _args=(items,)) if self._comprehended(items):
                return f"tuple({self._comprehended(items)})", ATOM
        args = [self.text(a) for a in expr._args]
        args += [f"{k}={self.text(v)}" for k, v in expr._kwargs.items()]
        return f"{self._base(expr._function)}({', '.join(args)})", ATOM

    def _subscript(self, expr: Subscript) -> tuple[str, int]:
        return f"{self._base(expr._base)}[{', '.join(self.text(i) for i in expr._index)}]", ATOM

    def _slice(self, expr: SliceExpr) -> tuple[str, int]:
        text = f"{self._part(expr._start)}:{self._part(expr._stop)}"
        return (text if expr._step is None else f"{text}:{self._part(expr._step)}"), ATOM

    def _unary(self, expr: Unary) -> tuple[str, int]:
        inlined = self._inlined(expr._operand) if expr._op == "~" else None
        if inlined is not None and inlined._op == "==":
            return self._binary(Binary("!=", inlined._left, inlined._right))
        own = NOT if expr._op == "not " else UNARY
        return f"{expr._op}{self.text(expr._operand, own)}", own

    def _ternary(self, expr: Ternary) -> tuple[str, int]:
        then, condition = self.text(expr._then, OR), self.text(expr._condition, OR)
        return f"{then} if {condition} else {self.text(expr._otherwise, TERNARY)}", TERNARY

    def _star(self, expr: Star) -> tuple[str, int]:
        comprehended = self._comprehended(expr._items)
        return f"*({comprehended})" if comprehended else f"*{self.text(expr._items, BIT_OR)}", ATOM

    def _comprehension(self, expr: Comprehension) -> tuple[str, int]:
        return f"[{self._comprehended(expr)}]", ATOM

    def _inlined(self, expr: Expr) -> Binary | None:
        """Return the binary operation between tensors that is written in the place of a value of the graph, if there is
        one."""
        expr = bare(expr)
        written = self._name_of(expr) if isinstance(expr, Ref) else None
        inner = bare(written) if isinstance(written, Expr) else None
        return inner if isinstance(inner, Binary) else None

    def _comprehended(self, expr: Expr) -> str:
        """Return the text between the brackets if `expr` is a comprehension, or a variable that one is inlined for;
        else an empty text."""
        inner = self._name_of(expr) if isinstance(expr, Ref | Local) else expr
        if not isinstance(inner, Comprehension):
            return ""
        targets = ", ".join("_" if target is None else self.text(target) for target in inner._targets)
        return f"{self.text(inner._element)} for {targets} in {self.text(inner._iterable, OR)}"

    def _base(self, expr: Expr) -> str:
        """Return the text of what stands before a dot, a bracket or a parenthesis. A number gets parentheses, since it
        would swallow the dot."""
        text = self.text(expr, ATOM)
        return f"({text})" if text[0].isdigit() else text

    def _part(self, expr: Expr | None) -> str:
        return "" if expr is None else self.text(expr)

    def _binary(self, expr: Binary) -> tuple[str, int]:
        own = _BINARY[expr._op]
        # Operators are left-associative, so the right operand must bind more tightly. For `**` and comparisons (which
        # would chain) the left one must, too.
        left = own + 1 if expr._op == "**" or own == COMPARE else own
        right = UNARY if expr._op == "**" else own + 1
        operator = expr._op
        operand, strength = self._render(expr._right)
        if operator == "+" and operand.startswith("-") and strength >= UNARY:
            operator, operand = "-", operand[1:]  # `x + -1` is `x - 1`, to the last bit
        elif strength < right:
            operand = f"({operand})"
        return f"{self.text(expr._left, left)} {operator} {operand}", own

    def _display(self, expr: Display) -> tuple[str, int]:
        texts = [self.text(i) for i in expr._items]
        base, is_size, _ = texts[0].rpartition(".shape[0]") if texts else ("", "", "")
        if is_size and len(texts) > 1 and texts == [f"{base}.shape[{i}]" for i in range(len(texts))]:
            return f"{base}.shape[:{len(texts)}]", ATOM
        items = ", ".join(texts)
        if expr._brackets == "()" and len(expr._items) == 1:
            items += ","
        return f"{expr._brackets[0]}{items}{expr._brackets[1]}", ATOM

    def _literal(self, expr: Literal) -> tuple[str, int]:
        value = expr._value
        if isinstance(value, float):
            text = float_text(value)
            return text, (UNARY if text.startswith("-") else POWER if "**" in text else ATOM)
        if isinstance(value, str):
            return _quoted(value), ATOM
        text = repr(value)
        return text, (UNARY if text.startswith("-") else ATOM)


_WRITERS: dict[type, Callable[[Renderer, Any], tuple[str, int]]] = {
    **dict.fromkeys((Ref, Local, Member, Device, WeightType), Renderer._leaf),
    Wrapped: Renderer._wrapped,
    Literal: Renderer._literal,
    Name: Renderer._name,
    Attribute: Renderer._attribute,
    Call: Renderer._call,
    Subscript: Renderer._subscript,
    SliceExpr: Renderer._slice,
    Unary: Renderer._unary,
    Binary: Renderer._binary,
    Ternary: Renderer._ternary,
    Display: Renderer._display,
    Star: Renderer._star,
    Comprehension: Renderer._comprehension,
}


def _quoted(value: str) -> str:
    """Return `value` as a double-quoted literal in ASCII, so that nothing in it can end the string or hide in a
    terminal."""
    text = ascii(value)
    if text.startswith("'"):
        return '"' + text[1:-1].replace('"', '\\"').replace("\\'", "'") + '"'
    return text
