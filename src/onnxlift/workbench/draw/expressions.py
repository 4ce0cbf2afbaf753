"""Read an expression of lifted source as a box: what it is called in a picture, and which tensors go into it.

    F.relu(x)            ->   F.relu
    F.pad(x, (1, 1))     ->   F.pad((1, 1))
    x.transpose(1, 2)    ->   transpose(1, 2)
    x + y                ->   +
    torch.cat((x, y), 1) ->   torch.cat((·, ·), 1)

Sizes are Python numbers in lifted source (`x.shape[0]`). They are no tensors, so they are in the text, but get no edge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from onnxlift.lifting.code.expr import (
    Attribute,
    Binary,
    Call,
    Device,
    Expr,
    Local,
    Member,
    Name,
    Ref,
    WeightType,
    Wrapped,
    bare,
    children,
    walk,
)
from onnxlift.lifting.code.render import Renderer
from onnxlift.lifting.modules.module import Module

TENSOR = "·"
"""Stands for a tensor that an edge shows."""

_FACTS = frozenset({"shape", "device", "dtype", "ndim"})
_ASKING = frozenset({"size", "dim", "numel"})
_NUMBERS = frozenset({"int", "float", "bool", "max", "min", "len", "range", "tuple", "list", "sum", "abs", "round"})


def tensors_read(expr: Expr) -> Iterator[object]:
    """Yield the variables whose numbers `expr` reads, each once; not those of which it asks only the size or type."""
    seen: set[object] = set()
    stack = [expr]
    while stack:
        part = stack.pop()
        if _asks_for_a_fact(part):
            continue
        key = part._key if isinstance(part, Ref) else part if isinstance(part, Local) else None
        if key is not None and key not in seen:
            seen.add(key)
            yield key
        stack.extend(reversed(children(part)))


def is_number(expr: Expr, is_tensor: Callable[[object], bool]) -> bool:
    """Tell whether `expr` is a Python number or a list of them, made of nothing but sizes and literals."""
    if any(is_tensor(key) for key in tensors_read(expr)):
        return False
    return not any(isinstance(part, Member) or _computes(part) for part in walk(expr))


def _asks_for_a_fact(expr: Expr) -> bool:
    match expr:
        case Attribute(_name=name):
            return name in _FACTS
        case Call(_function=Attribute(_name=name)):
            return name in _ASKING
    return False


def _computes(expr: Expr) -> bool:
    """Tell whether this is a call of something that may give a tensor."""
    if not isinstance(expr, Call) or _asks_for_a_fact(expr):
        return False
    match bare(expr._function):
        case Name(_name=name):
            return name not in _NUMBERS
        case Attribute(_base=Name(_name="math")):
            return False
    return True


def title_of(expr: Expr, module: Module, names: Callable[[object], str]) -> str:
    """Return what to call an expression in a picture. `names` gives the text of a variable that no edge shows."""
    renderer = Renderer(lambda leaf: _leaf(leaf, module, names))
    inner = bare(expr)
    match inner:
        case Binary(_op=op, _left=left, _right=right) if {renderer.text(left), renderer.text(right)} == {TENSOR}:
            return op
        case Attribute() | Call(_function=Attribute(_base=Name())):
            pass
        case Call(_function=Attribute()) if renderer.text(inner).startswith(f"{TENSOR}."):
            return _without_empty_call(renderer.text(inner)[2:])
    text = renderer.text(inner).replace(f", device={TENSOR}.device", "")
    if isinstance(inner, Call) and isinstance(bare(inner._function), Name | Attribute):
        head, bracket, rest = text.partition(f"({TENSOR}")
        if bracket and rest.startswith((", ", ")")) and re.fullmatch(r"[\w.]+", head):
            others = rest.removeprefix(", ")
            is_plain = set(others.removesuffix(")").split(", ")) <= {"", TENSOR}  # the edges tell all
            return head if is_plain else f"{head}({others}"
    return text[1:] if text.startswith(f"{TENSOR}[") else text


def _without_empty_call(text: str) -> str:
    return text.removesuffix("()") if text.count("(") == 1 else text


def _leaf(leaf: Expr, module: Module, names: Callable[[object], str]) -> str | Expr:
    match leaf:
        case Member(_target=target):
            return "self" if target is module.derived else f"self.{'.'.join(module.name_of(target))}"
        case Ref(_key=key):
            stored = module.stored_name(key)
            return names(key) if stored is None else f"self.{'.'.join(stored)}"
        case Local():
            return names(leaf)
        case Device():
            return Name(f"{TENSOR}.device")
        case WeightType(_element=element):
            return f"torch.{element}"
        case Wrapped():
            return leaf._expr
    return TENSOR
