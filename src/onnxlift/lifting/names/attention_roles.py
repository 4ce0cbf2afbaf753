"""Find the attentions that a forward writes out as `(q @ k.mT * scale + mask).softmax(-1) @ v`.

This finds the expressions that are scores and weights, and the variables that are query, key and value. A product is
scores only if a softmax is taken of it, perhaps after something was added to it or multiplied with it. A variable is
the query only if it is itself multiplied, perhaps moved, scaled, rotated or normalised first. A value that a layer
turns into queries is not a query yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from onnxlift.lifting.code.expr import (
    Attribute,
    Binary,
    Call,
    Expr,
    Local,
    Member,
    Name,
    Ref,
    Subscript,
    bare,
    variable,
    walk,
)
from onnxlift.lifting.code.statements import Assign, expressions, walk_statements
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.modules.statements.inline import Inlined, main_line

QUERY, KEY, VALUE = "q", "k", "v"
OPERANDS = frozenset({QUERY, KEY, VALUE})
_MOVES = frozenset(
    "contiguous expand flatten float half masked_fill movedim permute repeat_interleave reshape squeeze to transpose"
    " type unflatten unsqueeze view".split()
)
_NORMS = frozenset({"normalize", "layer_norm", "rms_norm", "dropout"})
_ON_THE_LINE = re.compile(r"(?i)norm|^ln_?\d*$|_ln$|^ln_|drop")
# The name of a layer whose result is split into queries, keys and values, or into keys and values.
_JOINED = re.compile(r"(?i)(?:^|_)(qkv|kv)(?:_|$)")
_MAX_STEPS = 64


class AttentionRoles:
    """The attentions that a module's forward writes out."""

    def __init__(self, module: Module, inlined: Inlined) -> None:
        statements = list(walk_statements(module.body))
        self.module = module
        self.inlined = inlined
        self.wholes = [e for statement in statements for e in expressions(statement)] + list(inlined.values())
        self._written: Mapping[object, Expr] = {
            variable(s.targets[0]): s.expr for s in statements if isinstance(s, Assign) and len(s.targets) == 1
        }
        self._scores: set[Expr] = set()
        self._softmaxes: set[Expr] = set()
        for part in (part for whole in self.wholes for part in walk(whole)):
            match part:
                case Call(_function=Attribute(_name="softmax", _base=base)) if not isinstance(base, Name):
                    products = list(self._products(base))
                    self._scores.update(products)
                    if products:
                        self._softmaxes.add(part)

    def is_scores(self, expr: Expr) -> bool:
        """Tell whether this is a product that a softmax is taken of."""
        return expr in self._scores

    def is_weights(self, expr: Expr) -> bool:
        """Tell whether this is a softmax of scores, perhaps with its axes moved, or after a dropout."""
        for _ in range(_MAX_STEPS):
            expr = bare(expr)
            if expr in self._softmaxes:
                return True
            before = self._before(expr)
            if before is None:
                return False
            expr = before
        return False

    def operands(self) -> Iterator[tuple[object, str]]:
        """Yield the variables that are queries, keys and values, each with its letter."""
        for part in (part for whole in self.wholes for part in walk(whole)):
            match part:
                case (
                    Binary(_op="@", _left=left, _right=right)
                    | Call(_function=Attribute(_name="einsum"), _args=[_, left, right])
                ):
                    if self.is_scores(part):
                        yield from ((key, QUERY) for key in self.same(left))
                        yield from ((key, KEY) for key in self.same(right))
                    elif self.is_weights(left):
                        yield from ((key, VALUE) for key in self.same(right))
                    elif self.is_weights(right):
                        yield from ((key, VALUE) for key in self.same(left))

    def joined(self, statement: Assign) -> Iterator[tuple[object, str]]:
        """Yield the pieces of a joint projection, each with its letter: `a, b, c = self.qkv(x).chunk(3, -1)` -> a: q,
        b: k, c: v."""
        match bare(statement.expr):
            case Call(_function=Attribute(_name="chunk" | "split" | "unbind", _base=base)):
                letters = _JOINED.search(self._layer_of(base))
                if letters is not None and len(letters[1]) == len(statement.targets):
                    for target, letter in zip(statement.targets, letters[1].lower(), strict=True):
                        if target is not None:
                            yield variable(target), letter

    def _layer_of(self, expr: Expr | None) -> str:
        """Return the name of the layer whose result `expr` is, perhaps with its axes moved."""
        for _ in range(_MAX_STEPS):
            match expr:
                case None:
                    return ""
                case Call(_function=Member(_target=target)):
                    return self.module.name_of(target)[-1]
            expr = self._before(expr)
        return ""

    def same(self, expr: Expr) -> Iterator[object]:
        """Yield the variable that `expr` is, perhaps moved, scaled, rotated or normalised."""
        for _ in range(_MAX_STEPS):
            expr = bare(expr)
            key = variable(expr)
            if key is not None and key not in self.inlined:
                yield key
                return
            before = self.inlined[key] if key is not None else self._before(expr, normalised=True)
            if before is None:
                return
            expr = before

    def _before(self, expr: Expr, normalised: bool = False) -> Expr | None:
        """Return the value that `expr` was one step earlier, if the step leaves it the same thing. With `normalised`,
        functions that normalise or rotate and products with a constant count as such steps too."""
        match bare(expr):
            case Ref() | Local() as ref:
                return self.inlined.get(variable(ref), self._written.get(variable(ref)))
            case Attribute(_name="mT" | "T", _base=base) | Subscript(_base=base):
                return base
            case Call(_function=Attribute(_name=name, _base=base)) if not isinstance(base, Name):
                return base if name in _MOVES else None
            case Call(_function=Attribute(_name="dropout"), _args=[first, *_]):
                return first
            case Call(_function=Attribute(_name=name), _args=[first, *_]) if normalised and name in _NORMS:
                return first
            case Call(_function=Name(_name=name), _args=[first, *_]) if normalised and name.startswith("apply_rotary"):
                return first
            case Call(_function=Member(_target=target), _args=[first, *_]) if self._is_on_the_line(target):
                return first
            case Binary(_op="*" | "/" | "+", _left=left, _right=right) if normalised:
                sides = [side for side in (left, right) if self._is_computed(side)]
                return sides[0] if len(sides) == 1 else None
        return None

    def _is_computed(self, expr: Expr) -> bool:
        return any(key not in self.module.constants for key in main_line(expr, self.inlined))

    def _is_on_the_line(self, target: object) -> bool:
        return bool(_ON_THE_LINE.search(self.module.name_of(target)[-1]))

    def _products(self, expr: Expr) -> Iterator[Expr]:
        """Yield the products among the terms and factors of an expression that a softmax is taken of."""
        waiting = [expr]
        for _ in range(_MAX_STEPS):
            if not waiting:
                return
            expr = bare(waiting.pop())
            match expr:
                case Binary(_op="@") | Call(_function=Attribute(_name="einsum"), _args=[_, _, _]):
                    yield expr
                case Binary(_op="+" | "-" | "*" | "/", _left=left, _right=right):
                    waiting += [left, right]
                case Call(_function=Attribute(_name="where"), _args=[_, kept, other]):
                    waiting += [kept, other]
                case Call(_function=Attribute(_name="tanh" | "clamp", _base=base)):
                    waiting.append(base)  # keeps scores from growing
                case _:
                    before = self._before(expr)
                    waiting += [] if before is None else [before]
