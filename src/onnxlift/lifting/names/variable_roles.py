"""What the variables of a forward are for: what callers and callees call them, the query of an attention, a residual.

A role is found where a variable is used, and handed back along the line of computation to what becomes that variable.
Letters say nothing and are no roles. Where a variable becomes several things, it is none of them yet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from keyword import iskeyword

import onnx_ir as ir

from onnxlift.ir.graph.types import FLOATS
from onnxlift.lifting.code.expr import (
    Attribute,
    Binary,
    Call,
    Comprehension,
    Display,
    Expr,
    Literal,
    Local,
    Member,
    Name,
    Ref,
    bare,
    variable,
    walk,
)
from onnxlift.lifting.code.identifiers import identifier
from onnxlift.lifting.code.statements import Assign, ForLoop, Statement, blocks, walk_statements
from onnxlift.lifting.modules.classes.variants import asked_member
from onnxlift.lifting.modules.meaning import LONGEST_NAME
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.modules.signatures.prune import called_module
from onnxlift.lifting.modules.statements.inline import Inlined, main_line
from onnxlift.lifting.ops.layers import Layer

from .attention_roles import KEY, OPERANDS, QUERY, VALUE, AttentionRoles

SOFTMAX = "softmax"
_ATTENTION = re.compile(r"(?i)(attention|attn)$")
# Names of a parameter in a forward that adds it to its result, or to the scores of an attention; elsewhere it is
# something else.
RESIDUAL, BIAS = "residual", "bias"
MASK = "mask"
WEIGHT = "weight"
_HIDDEN = -1e4  # a score of so much does not count
POSITIONS = "positions"
# What is looked up in an embedding of this name.
_LOOKED_UP = (
    (re.compile(r"(?i)pos(itions?)?(_|$)|_positions?$|wpe$"), POSITIONS),
    (re.compile(r"(?i)token_types?(_|$)|segments?(_|$)"), "token_types"),
)
WORDS = {
    "scaled_dot_product_attention": "attn",
    "softmax": "weights",
    "@": "scores",
    "arange": POSITIONS,
    "sigmoid": "gate",
    "cos": "cos",
    "sin": "sin",
    "rsqrt": "scale",
    **dict.fromkeys(("==", "!=", ">", "<", ">=", "<=", "&", "|", "tril", "triu"), MASK),
}


@dataclass
class Hints:
    """What others call the values of a forward: its parameters as the callers name them, and for every module that it
    calls the names of that one's parameters and results. Letters say nothing and are left out."""

    parameters: dict[int, str] = field(default_factory=dict)
    called: Callable[[Module], tuple[Mapping[int, str], Mapping[int, str]]] = lambda child: ({}, {})


class Roles:
    """`found`: variable -> what it is called elsewhere, or what it is used as; `factors`: the variables that something
    is multiplied with; `indices`: those that are looked up in an embedding."""

    def __init__(self, module: Module, inlined: Inlined, hints: Hints, attention: AttentionRoles) -> None:
        self.module = module
        self.inlined = inlined
        self._attention = attention
        self.factors: set[object] = set()
        self.indices: set[object] = set()
        self.found = self._collect(hints)

    def _collect(self, hints: Hints) -> dict[object, str]:
        found: dict[object, str] = {}
        statements = list(walk_statements(self.module.body))
        wholes = self._attention.wholes
        for call in (part for whole in wholes for part in walk(whole) if isinstance(part, Call)):
            child = called_module(call)
            roles = dict(hints.called(child)[0]) if child is not None else {}
            if isinstance(call._function, Attribute) and call._function._name == "scaled_dot_product_attention":
                operands = zip(call._args, (QUERY, KEY, VALUE), strict=False)
                self._add_operands(((key, role) for e, role in operands for key in self._attention.same(e)), found)
            elif _is_layers_function(call):
                roles = {1: WEIGHT, 2: BIAS}
            elif _is_rotary(call):
                roles = {1: WORDS["cos"], 2: WORDS["sin"]}
            elif isinstance(call._function, Member):
                roles.update((0, word) for word in self._looked_up(call._function._target))
                if _is_embedding(call._function._target):
                    self.indices.add(variable(call._args[0]))
            for position, argument in enumerate(call._args):
                if position in roles:
                    found.setdefault(variable(argument), roles[position])
            if "attn_mask" in call._kwargs:
                found.setdefault(variable(call._kwargs["attn_mask"]), MASK)
        self.factors = set(_factors(wholes))
        biases = set(self._added_to_scores(statements, wholes))
        for position, value in enumerate(self.module.inputs):
            if value in biases:
                found.setdefault(value, hints.parameters.get(position, BIAS))
        of_masks = set(_added_to_masks(statements, found))
        for addend in self._addends(wholes):
            if addend not in of_masks:
                found.setdefault(addend, RESIDUAL)
        self._add_operands(self._attention.operands(), found)
        for statement in reversed(statements):
            if not isinstance(statement, Assign):
                continue
            for key, role in self._attention.joined(statement):
                found.setdefault(key, role)
            child = called_module(statement.expr)
            named = {} if child is None or is_called_again(statement.expr) else hints.called(child)[1]
            for position, name in named.items():
                if position < len(statement.targets) and statement.targets[position] is not None:
                    found.setdefault(variable(statement.targets[position]), name)
            whole = _whole([found.get(variable(target), "") for target in statement.targets])
            if whole is not None:
                line = main_line(statement.expr, self.inlined)
                found.update((source, whole) for source in line if source not in self.module.inputs)
            if len(statement.targets) == 1 and statement.targets[0] is not None and child is None:
                used_as = found.get(variable(statement.targets[0]))
                if used_as is not None:
                    found.update(self._rotated_part(statement.expr, used_as))
                if used_as == MASK:
                    found.setdefault(_masked(statement.expr), BIAS)
                sources = list(self._sources(statement.expr, used_as))
                is_alike = len(sources) == 1 and _are_alike(sources[0], variable(statement.targets[0]))
                if used_as is not None and is_alike and sources[0] not in self.module.inputs:
                    # What becomes several things is none of them yet.
                    found[sources[0]] = used_as if found.get(sources[0], used_as) == used_as else ""
            if len(statement.targets) == 1 and (held := self._only_parameter(statement.expr)) is not None:
                found.setdefault(variable(statement.targets[0]), held)
        for position, value in enumerate(self.module.inputs):
            if position in hints.parameters:
                found.setdefault(value, hints.parameters[position])
        for statement in statements:
            member = asked_member(statement)
            if member is not None and self.module.optional:  # what takes the place of nothing
                written = [key for inner in blocks(statement) for s in inner.statements for key in written_by(s)]
                found.setdefault(written[-1], spoken(self.module.name_of(member)[-1]))
        return {key: name for key, name in found.items() if name and len(name) <= LONGEST_NAME}

    def _add_operands(self, operands: Iterable[tuple[object, str]], found: dict[object, str]) -> None:
        """Queries, keys and values; what is several of these is none of them."""
        roles: dict[object, set[str]] = {}
        for key, role in operands:
            roles.setdefault(key, set()).add(role)
        for key, several in roles.items():
            found.setdefault(key, several.pop() if len(several) == 1 else "")

    def _sources(self, expr: Expr, role: str | None) -> Iterator[object]:
        """The variables that have become `expr`, which has this role. What a layer makes queries of is no query yet."""
        return self._attention.same(expr) if role in OPERANDS else main_line(expr, self.inlined)

    def _only_parameter(self, expr: Expr) -> str | None:
        """What the one parameter or buffer is called that an expression is computed from, and nothing else."""
        keys = {variable(part) for part in walk(expr) if isinstance(part, Ref | Local)}
        name = self.module.stored_name(keys.pop()) if len(keys) == 1 else None
        return identifier(name[-1]) if name is not None else None

    def _rotated_part(self, expr: Expr, role: str) -> dict[object, str]:
        """`q = torch.cat((apply_rotary(x, cos, sin), y), -1)` -> x: q_rot, y: q_pass."""
        match bare(expr):
            case Call(_function=Attribute(_name="cat"), _args=[Display(_items=[first, second]), *_]):
                match bare(self.inlined.get(variable(first), first)):
                    case Call(_args=[turned, *_]) as call if _is_rotary(call):
                        return {variable(turned): f"{role}_rot", variable(second): f"{role}_pass"}
        return {}

    def _addends(self, wholes: Iterable[Expr]) -> Iterable[object]:
        """The parameters, but for the first, that are added to what the forward computes and are read nowhere else."""
        parts = [part for whole in wholes for part in walk(whole)]
        reads = Counter(variable(part) for part in parts if isinstance(part, Ref | Local))
        others = set(list(self.module.inputs)[1:])
        for part in parts:
            if isinstance(part, Binary) and part._op == "+":
                sides = [variable(part._left), variable(part._right)]
                for side, other in (sides, sides[::-1]):
                    if side in others and reads[side] == 1 and other not in self.module.inputs:
                        yield side

    def _looked_up(self, target: object) -> Iterable[str]:
        """What an embedding is given: `self.position_embeddings(x)` -> positions."""
        if _is_embedding(target):
            name = self.module.name_of(target)[-1]
            yield from (word for pattern, word in _LOOKED_UP if pattern.search(name))

    def _before_moves(self, expr: Expr) -> Expr:
        """`x.unflatten(0, (-1, 4))` -> x: what only has other axes then."""
        while True:
            expr = self.inlined.get(variable(expr), expr)
            match bare(expr):
                case Call(_function=Attribute(_base=base, _name="unflatten" | "unsqueeze" | "transpose" | "permute")):
                    expr = base
                case _:
                    return expr

    def _added_to_scores(self, statements: Iterable[Statement], wholes: Iterable[Expr]) -> Iterable[object]:
        """The variables that are added to what a softmax is taken of, `(q @ k.mT + bias).softmax(-1)`, or to the mask
        of an attention."""
        written = {variable(s.targets[0]): s.expr for s in statements if isinstance(s, Assign) and len(s.targets) == 1}
        calls = [part for whole in wholes for part in walk(whole) if isinstance(part, Call)]
        waiting = [
            c._function._base for c in calls if isinstance(c._function, Attribute) and c._function._name == SOFTMAX
        ]
        waiting += [call._kwargs["attn_mask"] for call in calls if "attn_mask" in call._kwargs]
        seen: set[object] = set()
        while waiting:
            match bare(waiting.pop()):
                case Binary(_op="+", _left=left, _right=right):
                    waiting += [left, right]
                    yield from (variable(self._before_moves(side)) for side in (left, right))
                case Binary(_op="*" | "/", _left=left):
                    waiting.append(left)
                case Call(_function=Attribute(_base=base)) if not isinstance(base, Name):
                    waiting.append(base)
                case Ref() as ref if ref._key not in seen:
                    seen.add(ref._key)
                    waiting += [e for e in (self.inlined.get(ref._key), written.get(ref._key)) if e is not None]


def _is_embedding(target: object) -> bool:
    return isinstance(target, Layer) and target.kind == "Embedding"


def _added_to_masks(statements: Iterable[Statement], found: Mapping[object, str]) -> Iterator[object]:
    """`mask = x + y`, where others call this a mask -> x, y."""
    for statement in statements:
        if isinstance(statement, Assign) and MASK in [found.get(variable(target)) for target in statement.targets]:
            match bare(statement.expr):
                case Binary(_op="+", _left=left, _right=right):
                    yield from (variable(side) for side in (left, right))


def _masked(expr: Expr) -> object:
    """`torch.where(mask, bias, low)` -> bias: what is added to the scores where the mask lets it."""
    match bare(expr):
        case Call(_function=Attribute(_name="where"), _args=[_, *choices]):
            return next((key for choice in choices if (key := variable(choice)) is not None), None)
    return None


def _is_layers_function(call: Call) -> bool:
    """Whether this does what a layer does, with a weight and perhaps a bias: `F.linear(x, weight, bias)`."""
    match call._function:
        case Attribute(_base=Name(_name="F"), _name=name):
            return name == "linear" or name.startswith("conv")
    return False


def _is_rotary(call: Call) -> bool:
    """Whether something is turned by cosines and sines: `apply_rotary(x, cos, sin)`."""
    return isinstance(call._function, Name) and call._function._name.startswith("apply_rotary")


def _are_alike(source: object, result: object) -> bool:
    """Whether a variable can be the same thing before and after: what is looked up is not what it is looked up by."""
    kinds = [value.dtype in FLOATS for value in (source, result) if isinstance(value, ir.Value)]
    return len(set(kinds)) < 2


def is_mask(call: Call) -> bool:
    """`torch.where(mask, 0.0, -inf)`: whether there are two numbers in it, one where something holds."""
    match call:
        case Call(_function=Attribute(_name="where"), _args=[_, then, otherwise]):
            return isinstance(bare(then), Literal) and isinstance(bare(otherwise), Literal)
    return False


def is_hiding(expr: Expr) -> bool:
    """Whether this is a number so low that scores which it is added to do not count."""
    number = bare(expr)
    return isinstance(number, Literal) and isinstance(number._value, float) and number._value <= _HIDDEN


def is_called_again(expr: Expr) -> bool:
    """Whether a module is called that is called several times, not in a loop."""
    child = called_module(expr)
    return child is not None and child.calls > 1


def _whole(roles: list[str]) -> str | None:
    """`q_rot`, `q_pass` -> q: what these are the two parts of."""
    match roles:
        case [first, second] if first.endswith("_rot") and second == first.removesuffix("_rot") + "_pass":
            return first.removesuffix("_rot")
    return None


def _factors(wholes: Iterable[Expr]) -> Iterable[object]:
    for part in (part for whole in wholes for part in walk(whole)):
        if isinstance(part, Binary) and part._op == "*":
            yield from (variable(side) for side in (part._left, part._right))


def spoken(attribute: str) -> str:
    """`q_proj` -> q, `SelfAttention` -> attn: the value, not the layer."""
    if _ATTENTION.search(attribute):
        return WORDS["scaled_dot_product_attention"]
    for suffix in ("_proj", "_linear", "_layer", "_fc"):
        if attribute.endswith(suffix) and not iskeyword(attribute.removesuffix(suffix) or "in"):
            attribute = attribute.removesuffix(suffix)
    return identifier(attribute.lower() if len(attribute) > 1 else attribute)


def written_by(statement: Statement | None) -> list[object]:
    """The variables that a statement gives a value."""
    targets = statement.targets if isinstance(statement, Assign | ForLoop) else ()
    return [variable(target) for target in targets if target is not None]


def counted_in(expr: Expr, inlined: Inlined) -> Iterator[Local]:
    """The variables of loops in an expression: `head` of `[head(x) for head in self.heads]`."""
    for part in walk(expr):
        if isinstance(part, Comprehension):
            yield from (target for target in part._targets if target is not None)
        elif isinstance(part, Ref | Local) and variable(part) in inlined:
            yield from counted_in(inlined[variable(part)], inlined)
