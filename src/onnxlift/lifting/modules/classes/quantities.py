"""Find the numbers in a `forward` that are quantities, however small, and what they measure.

    x[..., :-2]      size         x * 2, x / 3     scale          x.repeat(1, 3, 1)       repeats
    x[:, 3]          index        x + 1            offset         x.unflatten(-1, (2, 4)) heads and how wide they are
    x[:, ::2]        step         x + 1e-5         eps            F.pad(x, (0, 2))        padding
    x.clamp(-1, 1)   limit        x ** 3           exponent       F.interpolate(x, scale_factor=2)    scale_factor

An axis is no quantity (`x.softmax(1)`, `x.shape[1]`), and neither is the place of one result among several. These are
part of what the code says: modules that differ in them do different things. The switch `is_causal` of an attention is
treated like a quantity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.lifting.code.expr import (
    Attribute,
    Binary,
    Call,
    Display,
    Expr,
    Literal,
    Name,
    Ref,
    SliceExpr,
    Subscript,
    bare,
    walk,
)
from onnxlift.lifting.ops.kinds import kind_by_function

LIMIT = "limit"
LARGEST_EPSILON = 1e-3

# Quantities that may be negative. Before others, a minus sign is part of what the code says.
SIGNED = frozenset({"scale", "offset", "exponent", "threshold", "value", "minimum", "maximum"})

_OPERANDS = {
    **dict.fromkeys(("*", "/"), "scale"),
    **dict.fromkeys(("+", "-"), "offset"),
    "**": "exponent",
    **dict.fromkeys(("//", "%"), "divisor"),
    **dict.fromkeys(("<", "<=", ">", ">="), "threshold"),
    **dict.fromkeys(("==", "!="), "value"),
}

# The roles of arguments, after the tensor, for functions that belong to no layer.
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "chunk": ("chunks",),
    "clamp": ("minimum", "maximum"),
    "group_norm": ("num_groups",),
    "masked_fill": ("", "value"),
    "pow": ("exponent",),
    "repeat_interleave": ("repeats",),
    "split": ("size",),
    "topk": ("k",),
    "tril": ("diagonal",),
    "triu": ("diagonal",),
    "where": ("value", "value"),
}
_SIZES = {"reshape": "size", "expand": "size", "repeat": "repeats", "tile": "repeats"}
_CREATED = frozenset({"arange", "empty", "full", "ones", "zeros"})
_WORDS = {"min": "minimum", "max": "maximum"}  # for keywords that are Python's own names


def quantities(expr: Expr) -> Iterator[tuple[Expr, str]]:
    """Yield the literals in an expression that are quantities, and what they measure."""
    for part in walk(expr):
        match part:
            case Binary() if part._op in _OPERANDS:
                for operand in (part._left, part._right):
                    yield from _numbers([operand], _operand_role(part._op, operand))
            case Subscript():
                yield from _index(part)
            case Call():
                yield from _arguments(part)


def _operand_role(op: str, operand: Expr) -> str:
    value = getattr(bare(operand), "_value", None)
    is_epsilon = op in "+-" and isinstance(value, float) and 0 < value <= LARGEST_EPSILON
    return "eps" if is_epsilon else _OPERANDS[op]


def _index(part: Subscript) -> Iterator[tuple[Expr, str]]:
    base = bare(part._base)
    if isinstance(base, Attribute) and base._name == "shape":
        return
    is_tensor = isinstance(base, Ref) and isinstance(base._key, ir.Value) and type_of(base._key).kind == "tensor"
    if not is_tensor and len(part._index) == 1:
        return  # an entry of a list, or one of several results
    for index in map(bare, part._index):
        if isinstance(index, SliceExpr):
            for bound, role in ((index._start, "start"), (index._stop, "size"), (index._step, "step")):
                yield from _numbers([bound] if bound is not None else [], role)
        else:
            yield from _numbers([index], "index")


def _arguments(call: Call) -> Iterator[tuple[Expr, str]]:
    function = bare(call._function)
    if not isinstance(function, Attribute):
        return
    name, base = function._name, bare(function._base)
    is_method = not (isinstance(base, Name) and base._name in ("F", "torch"))
    args = call._args if is_method or name in _CREATED else call._args[1:]
    target = bare(args[-1]) if args else None
    if name == "unflatten" and isinstance(target, Display):
        yield from _positive(target._items, _cut(bare(args[0]), target._items))
    elif name == "pad" and isinstance(target, Display):
        yield from _numbers(target._items, "padding")
    elif name == "roll" and args:
        yield from _numbers(_items(args[0]), "shift")
    elif name in _SIZES:
        yield from _positive(args, [_SIZES[name]] * len(args))
    elif name in _CREATED:
        sizes = [size for arg in args for size in _items(arg)]
        yield from _positive(sizes, ["length"] * len(sizes))
    elif name == "clamp" and len(args) == 2 and _are_opposite(*map(bare, args)):
        yield from _numbers(args, LIMIT)
    else:
        for arg, role in zip(args, _roles(name), strict=False):
            yield from _numbers(_items(arg), role) if role else ()
    for word, value in call._kwargs.items():
        if name == "scaled_dot_product_attention" and word == "is_causal":
            yield bare(value), word
        elif not _is_axis(word):
            yield from _numbers(_items(value), _WORDS.get(word, word))


def _roles(function: str) -> Sequence[str]:
    """Return what the arguments of a function after the tensor measure. The word is empty for an argument that is no
    quantity."""
    if function in _ARGUMENTS:
        return _ARGUMENTS[function]
    kind = kind_by_function(function)
    return () if kind is None else ["" if _is_axis(name) else name for name in kind.function[1:]]


def _is_axis(word: str) -> bool:
    return word.startswith(("dim", "axis", "axes")) or word.endswith(("dim", "dims"))


def _items(expr: Expr) -> Sequence[Expr]:
    expr = bare(expr)
    return expr._items if isinstance(expr, Display) else (expr,)


def _are_opposite(low: Expr, high: Expr) -> bool:
    if not isinstance(low, Literal) or not isinstance(high, Literal):
        return False
    return isinstance(high._value, int | float) and low._value == -high._value and high._value > 0


def _cut(axis: Expr, sizes: Sequence[Expr]) -> Sequence[str]:
    """Return what the sizes measure into which an axis is cut. The last axis is cut into heads, if no size is left open
    as -1."""
    is_last = isinstance(axis, Literal) and axis._value == -1
    is_cut = is_last and not any(_is_rest(size) for size in sizes)
    roles = ["size"] * (len(sizes) - 2) + (["heads", "head_dim"] if is_cut else ["length", "length"])
    return roles[-len(sizes) :]


def _is_rest(size: Expr) -> bool:
    """Tell whether a size is left open as -1, for the rest of the axis."""
    size = bare(size)
    return isinstance(size, Literal) and size._value == -1


def _numbers(items: Sequence[Expr], role: str) -> Iterator[tuple[Expr, str]]:
    for item in map(bare, items):
        if isinstance(item, Literal) and type(item._value) in (int, float):
            yield item, role


def _positive(items: Sequence[Expr], roles: Sequence[str]) -> Iterator[tuple[Expr, str]]:
    for item, role in zip(map(bare, items), roles, strict=True):
        if isinstance(item, Literal) and type(item._value) is int and item._value > 0:
            yield item, role
