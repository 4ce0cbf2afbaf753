"""Recognise in code the signs by which the roles of variables are found: what a call or a statement does with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from onnxlift.ir.graph.types import NUMBERS
from onnxlift.lifting.code.expr import (
    Attribute,
    Binary,
    Call,
    Comprehension,
    Expr,
    Local,
    Member,
    Name,
    Ref,
    bare,
    variable,
    walk,
)
from onnxlift.lifting.code.statements import Assign, ForLoop, Statement
from onnxlift.lifting.modules.signatures.prune import called_module
from onnxlift.lifting.modules.statements.inline import Inlined
from onnxlift.lifting.ops.layers import Layer

SOFTMAX = "softmax"


def is_plain(statement: Assign) -> bool:
    """Tell whether a statement writes one variable, without calling a module."""
    targets = statement.targets
    return len(targets) == 1 and targets[0] is not None and called_module(statement.expr) is None


def looks_up(call: Call) -> bool:
    """Tell whether this calls an embedding."""
    return isinstance(call._function, Member) and _is_embedding(call._function._target)


def _is_embedding(target: object) -> bool:
    return isinstance(target, Layer) and target.kind.family == "embedding"


def kept_by_mask(expr: Expr) -> object:
    """Return the variable that is taken where a mask lets it: `torch.where(mask, bias, low)` -> bias."""
    match bare(expr):
        case Call(_function=Attribute(_name="where"), _args=[_, *choices]):
            return next((key for choice in choices if (key := variable(choice)) is not None), None)
    return None


def is_layers_function(call: Call) -> bool:
    """Tell whether this calls the function of a layer that has weights: `F.linear(x, weight, bias)`."""
    match call._function:
        case Attribute(_base=Name(_name="F"), _name=name):
            return name == "linear" or name.startswith("conv")
    return False


def is_rotary(call: Call) -> bool:
    """Tell whether something is rotated by cosines and sines: `apply_rotary(x, cos, sin)`."""
    return isinstance(call._function, Name) and call._function._name.startswith("apply_rotary")


def are_alike(source: object, result: object) -> bool:
    """Tell whether both are floats, or neither is. Otherwise they cannot be the same thing before and after: the
    indices that are looked up in a table are not what is found there."""
    kinds = [value.dtype in NUMBERS for value in (source, result) if isinstance(value, ir.Value)]
    return len(set(kinds)) < 2


def whole(roles: list[str]) -> str | None:
    """Return the value that has these two parts: `q_rot`, `q_pass` -> q."""
    match roles:
        case [first, second] if first.endswith("_rot") and second == first.removesuffix("_rot") + "_pass":
            return first.removesuffix("_rot")
    return None


def written_by(statement: Statement | None) -> list[object]:
    """Return the variables that a statement writes."""
    targets = statement.targets if isinstance(statement, Assign | ForLoop) else ()
    return [variable(target) for target in targets if target is not None]


def counted_in(expr: Expr, inlined: Inlined) -> Iterator[Local]:
    """Yield the variables of comprehensions in an expression: `head` of `[head(x) for head in self.heads]`."""
    for part in walk(expr):
        if isinstance(part, Comprehension):
            yield from (target for target in part._targets if target is not None)
        elif isinstance(part, Ref | Local) and variable(part) in inlined:
            yield from counted_in(inlined[variable(part)], inlined)


def added_to_scores(statements: Sequence[Statement], calls: Sequence[Call], inlined: Inlined) -> Iterator[object]:
    """Yield the variables that are added to what a softmax is taken of, as in `(q @ k.mT + bias).softmax(-1)`, or
    to the mask of an attention."""
    assigned = (s for s in statements if isinstance(s, Assign))
    written = {variable(s.targets[0]): s.expr for s in assigned if len(s.targets) == 1}
    functions = [call._function for call in calls]
    waiting = [f._base for f in functions if isinstance(f, Attribute) and f._name == SOFTMAX]
    waiting += [call._kwargs["attn_mask"] for call in calls if "attn_mask" in call._kwargs]
    seen: set[object] = set()
    while waiting:
        match bare(waiting.pop()):
            case Binary(_op="+", _left=left, _right=right):
                waiting += [left, right]
                yield from (variable(_before_moves(side, inlined)) for side in (left, right))
            case Binary(_op="*" | "/", _left=left):
                waiting.append(left)
            case Call(_function=Attribute(_base=base)) if not isinstance(base, Name):
                waiting.append(base)
            case Ref() as ref if ref._key not in seen:
                seen.add(ref._key)
                waiting += [e for e in (inlined.get(ref._key), written.get(ref._key)) if e is not None]


def _before_moves(expr: Expr, inlined: Inlined) -> Expr:
    """Return the expression before its axes were moved: `x.unflatten(0, (-1, 4))` -> x."""
    while True:
        expr = inlined.get(variable(expr), expr)
        match bare(expr):
            case Call(_function=Attribute(_base=base, _name="unflatten" | "unsqueeze" | "transpose" | "permute")):
                expr = base
            case _:
                return expr
