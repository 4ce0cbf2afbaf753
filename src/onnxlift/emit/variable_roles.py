"""What the variables of a forward are for: what callers and callees call them, the query of an attention, a residual.

A role is found where a variable is used, and handed back along the line of computation to what becomes that variable.
Letters say nothing and are no roles. Where a variable becomes several things, it is none of them yet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ..code.expr import Attribute, Binary, Call, Display, Expr, Local, Name, Ref, bare, variable, walk
from ..code.statements import Assign, ForLoop, Statement, blocks, expressions, walk_statements
from ..tree.names import identifier
from .inline import Inlined, main_line
from .meaning import LONGEST_NAME
from .module import Module
from .prune import called_module
from .variants import asked_member

_ATTENTION = re.compile(r"(?i)(attention|attn)$")
RESIDUAL = "residual"  # a parameter's name in a forward that adds it to its result; elsewhere it is something else
WORDS = {
    "scaled_dot_product_attention": "attn",
    "softmax": "weights",
    "@": "scores",
    "arange": "positions",
    "sigmoid": "gate",
    "cos": "cos",
    "sin": "sin",
    "rsqrt": "scale",
    "==": "mask",
    ">": "mask",
    "<": "mask",
    ">=": "mask",
    "<=": "mask",
    "&": "mask",
    "|": "mask",
    "tril": "mask",
    "triu": "mask",
}


@dataclass
class Hints:
    """What others call the values of a forward: its parameters as the callers name them, and for every module that it
    calls the names of that one's parameters and results. Letters say nothing and are left out."""

    parameters: dict[int, str] = field(default_factory=dict)
    called: Callable[[Module], tuple[Mapping[int, str], Mapping[int, str]]] = lambda child: ({}, {})


class Roles:
    """`found`: variable -> what it is called elsewhere, or what it is used as; `factors`: the variables that something
    is multiplied with. `word` tells what an expression gives."""

    def __init__(self, module: Module, inlined: Inlined, hints: Hints, word: Callable[[Expr], str | None]) -> None:
        self.module = module
        self.inlined = inlined
        self._word = word
        self.factors: set[object] = set()
        self.found = self._collect(hints)

    def _collect(self, hints: Hints) -> dict[object, str]:
        found: dict[object, str] = {}
        statements = list(walk_statements(self.module.body))
        wholes = [e for statement in statements for e in expressions(statement)] + list(self.inlined.values())
        for call in (part for whole in wholes for part in walk(whole) if isinstance(part, Call)):
            child = called_module(call)
            roles = dict(hints.called(child)[0]) if child is not None else {}
            if isinstance(call._function, Attribute) and call._function._name == "scaled_dot_product_attention":
                roles = {0: "q", 1: "k", 2: "v"}
            for position, argument in enumerate(call._args):
                if position in roles:
                    found.setdefault(variable(argument), roles[position])
            if "attn_mask" in call._kwargs:
                found.setdefault(variable(call._kwargs["attn_mask"]), "mask")
        self.factors = set(_factors(wholes))
        for addend in self._addends(wholes):
            found.setdefault(addend, RESIDUAL)
        for key, role in self._attention_roles(statements, wholes):
            found.setdefault(key, role)
        for statement in reversed(statements):
            if not isinstance(statement, Assign):
                continue
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
                sources = list(main_line(statement.expr, self.inlined))
                if used_as is not None and len(sources) == 1 and sources[0] not in self.module.inputs:
                    # What becomes several things is none of them yet.
                    found[sources[0]] = used_as if found.get(sources[0], used_as) == used_as else ""
        for position, value in enumerate(self.module.inputs):
            if position in hints.parameters:
                found.setdefault(value, hints.parameters[position])
        for statement in statements:
            member = asked_member(statement)
            if member is not None and self.module.optional:  # what takes the place of nothing
                written = [key for inner in blocks(statement) for s in inner.statements for key in written_by(s)]
                found.setdefault(written[-1], spoken(self.module.name_of(member)[-1]))
        return {key: name for key, name in found.items() if name and len(name) <= LONGEST_NAME}

    def _rotated_part(self, expr: Expr, role: str) -> dict[object, str]:
        """`q = torch.cat((apply_rotary(x, cos, sin), y), -1)` -> x: q_rot, y: q_pass."""
        match bare(expr):
            case Call(_function=Attribute(_name="cat"), _args=[Display(_items=[first, second]), *_]):
                match bare(self.inlined.get(variable(first), first)):
                    case Call(_function=Name(_name="apply_rotary"), _args=[turned, *_]):
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

    def _attention_roles(self, statements: Iterable[Statement], wholes: Iterable[Expr]) -> Iterable[tuple[object, str]]:
        """Query, key and value of an attention that is written out: `(q @ k.mT).softmax(-1) @ v`."""
        weights = WORDS["softmax"]
        assigned = [s for s in statements if isinstance(s, Assign) and self._word(s.expr) == weights]
        variables = {variable(target) for statement in assigned for target in statement.targets}
        for part in (part for whole in wholes for part in walk(whole)):
            if not isinstance(part, Binary) or part._op != "@":
                continue
            if self._word(part._left) == weights or variable(part._left) in variables - {None}:
                yield from ((key, "v") for key in main_line(part._right, self.inlined))
            elif _is_transposed(self.inlined.get(variable(part._right), part._right)):
                yield from ((key, "q") for key in main_line(part._left, self.inlined))
                yield from ((key, "k") for key in main_line(part._right, self.inlined))


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


def _is_transposed(expr: Expr) -> bool:
    match bare(expr):
        case Attribute(_name="mT") | Call(_function=Attribute(_name="transpose")):
            return True
    return False


def spoken(attribute: str) -> str:
    """`q_proj` -> q, `SelfAttention` -> attn: the value, not the layer."""
    if _ATTENTION.search(attribute):
        return WORDS["scaled_dot_product_attention"]
    for suffix in ("_proj", "_linear", "_layer", "_fc"):
        if attribute.endswith(suffix) and len(attribute) > len(suffix):
            attribute = attribute[: -len(suffix)]
    return identifier(attribute.lower() if len(attribute) > 1 else attribute)


def written_by(statement: Statement | None) -> list[object]:
    """The variables that a statement gives a value."""
    targets = statement.targets if isinstance(statement, Assign | ForLoop) else ()
    return [variable(target) for target in targets if target is not None]
