"""Expressions of the generated source.

An operator function writes PyTorch with these objects and gets PyTorch text: `x.flatten(1).softmax(-1)` on an `Expr`
builds the tree of exactly that call. Leaves are literals, names (`torch`, `F`), references to values of the graph
(`Ref`, whose variable name is chosen at the very end) and members of the module (`Member`, rendered as `self.conv1`).

Text is made late and in one place (render.py). Only when the whole `forward` is known can it be decided which values
are inlined, and what the others are called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

FLOAT32_MAX = 3.4028234663852886e38


class Expr:
    """A piece of Python source. Attribute access, calls, indexing and operators build larger pieces."""

    __slots__ = ()

    def _parts(self) -> tuple[Expr, ...]:
        return ()

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("_"):
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Expr:
        return Call(self, [to_expr(a) for a in args], {k: to_expr(v) for k, v in kwargs.items()})

    def __getitem__(self, index: Any) -> Expr:
        if isinstance(index, tuple):
            return Subscript(self, tuple(_index(i) for i in index))
        return Subscript(self, (_index(index),))

    def __bool__(self) -> bool:
        raise TypeError("an expression of the generated source has no value while the source is being written")

    def __iter__(self) -> Iterator[Expr]:
        raise TypeError("an expression of the generated source cannot be iterated while the source is being written")

    def __add__(self, other: Any) -> Expr:
        return Binary("+", self, to_expr(other))

    def __radd__(self, other: Any) -> Expr:
        return Binary("+", to_expr(other), self)

    def __sub__(self, other: Any) -> Expr:
        return Binary("-", self, to_expr(other))

    def __rsub__(self, other: Any) -> Expr:
        return Binary("-", to_expr(other), self)

    def __mul__(self, other: Any) -> Expr:
        return Binary("*", self, to_expr(other))

    def __rmul__(self, other: Any) -> Expr:
        return Binary("*", to_expr(other), self)

    def __truediv__(self, other: Any) -> Expr:
        return Binary("/", self, to_expr(other))

    def __rtruediv__(self, other: Any) -> Expr:
        return Binary("/", to_expr(other), self)

    def __floordiv__(self, other: Any) -> Expr:
        return Binary("//", self, to_expr(other))

    def __rfloordiv__(self, other: Any) -> Expr:
        return Binary("//", to_expr(other), self)

    def __mod__(self, other: Any) -> Expr:
        return Binary("%", self, to_expr(other))

    def __rmod__(self, other: Any) -> Expr:
        return Binary("%", to_expr(other), self)

    def __matmul__(self, other: Any) -> Expr:
        return Binary("@", self, to_expr(other))

    def __pow__(self, other: Any) -> Expr:
        return Binary("**", self, to_expr(other))

    def __rpow__(self, other: Any) -> Expr:
        return Binary("**", to_expr(other), self)

    def __and__(self, other: Any) -> Expr:
        return Binary("&", self, to_expr(other))

    def __or__(self, other: Any) -> Expr:
        return Binary("|", self, to_expr(other))

    def __xor__(self, other: Any) -> Expr:
        return Binary("^", self, to_expr(other))

    def __lshift__(self, other: Any) -> Expr:
        return Binary("<<", self, to_expr(other))

    def __rshift__(self, other: Any) -> Expr:
        return Binary(">>", self, to_expr(other))

    def __lt__(self, other: Any) -> Expr:
        return Binary("<", self, to_expr(other))

    def __le__(self, other: Any) -> Expr:
        return Binary("<=", self, to_expr(other))

    def __gt__(self, other: Any) -> Expr:
        return Binary(">", self, to_expr(other))

    def __ge__(self, other: Any) -> Expr:
        return Binary(">=", self, to_expr(other))

    def __neg__(self) -> Expr:
        return Unary("-", self)

    def __invert__(self) -> Expr:
        return Unary("~", self)


def equal(left: Any, right: Any) -> Expr:
    """Return `left == right` in the generated source. Python's own `==` compares identity, so that expressions can be
    keys."""
    return Binary("==", to_expr(left), to_expr(right))


def unequal(left: Any, right: Any) -> Expr:
    return Binary("!=", to_expr(left), to_expr(right))


def either(condition: Any, then: Any, otherwise: Any) -> Expr:
    """Return `then if condition else otherwise` in the generated source."""
    return Ternary(to_expr(condition), to_expr(then), to_expr(otherwise))


def both(left: Any, right: Any) -> Expr:
    return Binary("and", to_expr(left), to_expr(right))


def negate(operand: Any) -> Expr:
    """Return `not operand` in the generated source."""
    expr = to_expr(operand)
    inner = bare(expr)
    opposite = {"is": "is not", "is not": "is", "==": "!=", "!=": "=="}
    if isinstance(inner, Binary) and inner._op in opposite:
        return Binary(opposite[inner._op], inner._left, inner._right)
    return Unary("not ", expr)


class Literal(Expr):
    """A number, string, bool or None, written by `repr`."""

    __slots__ = ("_value",)

    def __init__(self, value: bool | int | float | str | bytes | None) -> None:
        self._value = value


class Name(Expr):
    """A global name of the generated file: an import (`torch`, `F`, `math`), a builtin, or a kernel."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name


class Local(Expr):
    """A variable that does not hold a value of the graph (a loop index, a list of scan outputs).

    Two of them are the same variable only if they are the same object. `hint` is the preferred name. `example` is what
    it holds in the first iteration of a loop, if that is known now.
    """

    __slots__ = ("_example", "_hint")

    def __init__(self, hint: str, example: object = None) -> None:
        self._hint = hint
        self._example = example


class Ref(Expr):
    """The variable that holds a value of the graph. If the value is inlined, the expression that computes it is written
    instead."""

    __slots__ = ("_key",)

    def __init__(self, key: Any) -> None:
        self._key = key


class Member(Expr):
    """A member of the module: a layer, a child module, a parameter or a buffer. `_target` knows its own name."""

    __slots__ = ("_target",)

    def __init__(self, target: Any) -> None:
        self._target = target


class Wrapped(Expr):
    """An expression about which something more is known (see ops/operand.py). The text is that of the wrapped
    expression."""

    __slots__ = ("_expr",)

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def _parts(self) -> tuple[Expr, ...]:
        return (self._expr,)


class Device(Expr):
    """The device that the module runs on: `x.device`, with whichever tensor is at hand."""

    __slots__ = ()


class WeightType(Expr):
    """The type that the module's weights of an element type have (`float16`): `self.weight.dtype`. So the code goes on
    working if the module is converted to another type. Where the module holds no such weight: `torch.float16`."""

    __slots__ = ("_element",)

    def __init__(self, element: str) -> None:
        self._element = element


class Attribute(Expr):
    __slots__ = ("_base", "_name")

    def __init__(self, base: Expr, name: str) -> None:
        self._base = base
        self._name = name

    def _parts(self) -> tuple[Expr, ...]:
        return (self._base,)


class Call(Expr):
    __slots__ = ("_args", "_function", "_kwargs")

    def __init__(self, function: Expr, args: Sequence[Expr], kwargs: Mapping[str, Expr]) -> None:
        self._function = function
        self._args = tuple(args)
        self._kwargs = dict(kwargs)

    def _parts(self) -> tuple[Expr, ...]:
        return (self._function, *self._args, *self._kwargs.values())


class Subscript(Expr):
    __slots__ = ("_base", "_index")

    def __init__(self, base: Expr, index: tuple[Expr, ...]) -> None:
        self._base = base
        self._index = index

    def _parts(self) -> tuple[Expr, ...]:
        return (self._base, *self._index)


class SliceExpr(Expr):
    __slots__ = ("_start", "_step", "_stop")

    def __init__(self, start: Expr | None, stop: Expr | None, step: Expr | None) -> None:
        self._start = start
        self._stop = stop
        self._step = step

    def _parts(self) -> tuple[Expr, ...]:
        return tuple(p for p in (self._start, self._stop, self._step) if p is not None)


class Unary(Expr):
    __slots__ = ("_op", "_operand")

    def __init__(self, op: str, operand: Expr) -> None:
        self._op = op
        self._operand = operand

    def _parts(self) -> tuple[Expr, ...]:
        return (self._operand,)


class Binary(Expr):
    __slots__ = ("_left", "_op", "_right")

    def __init__(self, op: str, left: Expr, right: Expr) -> None:
        self._op = op
        self._left = left
        self._right = right

    def _parts(self) -> tuple[Expr, ...]:
        return (self._left, self._right)


class Ternary(Expr):
    __slots__ = ("_condition", "_otherwise", "_then")

    def __init__(self, condition: Expr, then: Expr, otherwise: Expr) -> None:
        self._condition = condition
        self._then = then
        self._otherwise = otherwise

    def _parts(self) -> tuple[Expr, ...]:
        return (self._then, self._condition, self._otherwise)


class Display(Expr):
    """A tuple or a list: `(a, b)`, `[a, b]`."""

    __slots__ = ("_brackets", "_items")

    def __init__(self, items: Sequence[Expr], brackets: str) -> None:
        self._items = tuple(items)
        self._brackets = brackets

    def _parts(self) -> tuple[Expr, ...]:
        return self._items


class Star(Expr):
    """`*items`, as an argument or inside a display."""

    __slots__ = ("_items",)

    def __init__(self, items: Expr) -> None:
        self._items = items

    def _parts(self) -> tuple[Expr, ...]:
        return (self._items,)


class Comprehension(Expr):
    """`[element for targets in iterable]`; a target that is None is written as `_`."""

    __slots__ = ("_element", "_iterable", "_targets")

    def __init__(self, element: Expr, targets: Sequence[Local | None], iterable: Expr) -> None:
        self._element = element
        self._targets = tuple(targets)
        self._iterable = iterable

    def _parts(self) -> tuple[Expr, ...]:
        return (self._element, *(target for target in self._targets if target is not None), self._iterable)


torch = Name("torch")
F = Name("F")
nn = Name("nn")
np = Name("np")


def builtin(name: str) -> Name:
    """Return a Python builtin (`int`, `len`, `range`, ...) as an expression to call."""
    return Name(name)


def module(name: str) -> Name:
    """Return a module of the standard library (`math`, ...). The generated file imports it because it is used."""
    return Name(name)


def to_expr(value: Any) -> Expr:
    """Return `value` as an expression: numbers become literals, tuples and lists displays."""
    if isinstance(value, Expr):
        return value
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return Literal(value)
    if isinstance(value, tuple):
        return Display([to_expr(v) for v in value], "()")
    if isinstance(value, list):
        return Display([to_expr(v) for v in value], "[]")
    if hasattr(value, "as_expr"):
        return value.as_expr()  # type: ignore[no-any-return]  # operands of ops/operand.py that are not themselves Expr
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return Literal(value.item())
    raise TypeError(f"{value!r} cannot be written into source")


def _index(value: Any) -> Expr:
    if isinstance(value, slice):
        parts = [None if p is None else to_expr(p) for p in (value.start, value.stop, value.step)]
        return SliceExpr(*parts)
    if value is Ellipsis:
        return Name("...")
    return to_expr(value)


def bare(expr: Expr) -> Expr:
    """Return the expression inside, if `expr` is wrapped; else `expr`."""
    while isinstance(expr, Wrapped):
        expr = expr._expr
    return expr


def variable(expr: Expr | None) -> object:
    """Return the key of the variable, if `expr` is just a variable: the value behind a `Ref`, or the `Local` itself."""
    inner = None if expr is None else bare(expr)
    return inner._key if isinstance(inner, Ref) else inner if isinstance(inner, Local) else None


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct parts of `expr`, in the order in which they are written."""
    return expr._parts()


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield `expr` and all its parts, outermost first, left to right."""
    stack = [expr]
    while stack:
        part = stack.pop()
        yield part
        parts = part._parts()
        if parts:
            stack.extend(reversed(parts))
