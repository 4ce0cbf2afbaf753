"""Find the roles of a forward's variables: the query of an attention, a residual, or the name that a caller or callee
has for it.

A role is found where a variable is used. From there it is handed back, along the line of computation, to the value that
becomes that variable. Letters say nothing and are no roles. A value that becomes several things has no role yet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import onnx_ir as ir

from onnxlift.lifting.code.expr import (
    Attribute,
    Binary,
    Call,
    Display,
    Expr,
    Local,
    Member,
    Ref,
    bare,
    variable,
    walk,
)
from onnxlift.lifting.code.identifiers import identifier
from onnxlift.lifting.code.naming import Candidate
from onnxlift.lifting.code.statements import Assign, blocks, walk_statements
from onnxlift.lifting.modules.classes.variants import asked_member
from onnxlift.lifting.modules.meaning import LONGEST_NAME
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.modules.signatures.prune import called_module
from onnxlift.lifting.modules.statements.inline import Inlined, main_line

from .attention_roles import KEY, OPERANDS, QUERY, VALUE, AttentionRoles
from .role_signs import (
    added_to_scores,
    are_alike,
    is_layers_function,
    is_plain,
    is_rotary,
    kept_by_mask,
    looks_up,
    whole,
    written_by,
)
from .words import MASK, POSITIONS, WORDS, is_called_again, spoken

ATTENTION = "scaled_dot_product_attention"
# Names of a parameter that a forward adds to its result, or to the scores of an attention. They are good only in that
# forward: elsewhere the value is something else.
RESIDUAL, BIAS = "residual", "bias"
WEIGHT = "weight"
# The name of an embedding, and the word for the values that are looked up in it.
_LOOKED_UP = (
    (re.compile(r"(?i)pos(itions?)?(_|$)|_positions?$|wpe$"), POSITIONS),
    (re.compile(r"(?i)token_types?(_|$)|segments?(_|$)"), "token_types"),
)
_IN_ATTENTION = {QUERY: "the query of an attention", KEY: "the key of an attention", VALUE: "the value of an attention"}


@dataclass
class Hints:
    """The names that other modules have for the values of a forward: `parameters` are its parameters as the callers
    name them; `called` gives, for a module that it calls, the names of that module's parameters and results. Letters
    say nothing and are left out."""

    parameters: dict[int, str] = field(default_factory=dict)
    called: Callable[[Module], tuple[Mapping[int, str], Mapping[int, str]]] = lambda child: ({}, {})


class Role(NamedTuple):
    """The use of a variable as a `word`, with the reason. The word is empty if the variable is several things. A role
    that `overrules` replaces the role that was found before. Any other gives way to the earlier one."""

    variable: object
    word: str
    reason: str
    details: tuple[object, ...] = ()
    overrules: bool = False

    @property
    def candidate(self) -> Candidate:
        """The word as a name for the variable."""
        return Candidate(self.word, self.reason, self.details)


class Roles:
    """The roles of all variables of a forward.

    `found` has, for each variable, its name elsewhere or its use. `lost` gives the other roles that it has. `factors`
    are the variables that something is multiplied with. `indices` are the variables that are looked up in an embedding.
    The rules are asked in the order of `_RULES`, at the end of the class.
    """

    def __init__(self, module: Module, inlined: Inlined, hints: Hints, attention: AttentionRoles) -> None:
        self.module = module
        self.inlined = inlined
        self._attention = attention
        self._hints = hints
        self._statements = list(walk_statements(module.body))
        self._parts = [part for whole in attention.wholes for part in walk(whole)]
        self._calls = [part for part in self._parts if isinstance(part, Call)]
        self._all: dict[object, Role] = {}
        self._lost: dict[object, list[Role]] = {}
        self.factors = set(self._factors())
        self.indices = {variable(call._args[0]) for call in self._calls if looks_up(call)}
        for rule in self._RULES:
            for role in rule(self):
                self._note(role)
        kept = {key: role for key, role in self._all.items() if role.word and len(role.word) <= LONGEST_NAME}
        self.found = {key: role.candidate for key, role in kept.items()}

    def lost(self, key: object) -> list[Candidate]:
        """Return the other roles of a variable."""
        return [role.candidate for role in self._lost.get(key, ()) if role.word]

    def _note(self, role: Role) -> None:
        known = self._all.get(role.variable)
        if role.variable is None or known == role:
            return
        if known is not None:
            self._lost.setdefault(role.variable, []).append(known if role.overrules else role)
        if known is None or role.overrules:
            self._all[role.variable] = role

    def _word(self, key: object) -> str | None:
        """Return the role that a variable has so far: None if it has no role, "" if it is several things."""
        known = self._all.get(key)
        return None if known is None else known.word

    # Roles that a call gives

    def _of_calls(self) -> Iterator[Role]:
        """Yield the roles that calls give, in the order of the text. The first call that says what a variable is
        decides."""
        for call in self._calls:
            for rule in self._CALL_RULES:
                yield from rule(self, call)

    def _attended(self, call: Call) -> Iterator[Role]:
        """Call the operands of PyTorch's attention query, key and value."""
        if isinstance(call._function, Attribute) and call._function._name == ATTENTION:
            operands = zip(call._args, (QUERY, KEY, VALUE), strict=False)
            yield from _in_attention((key, role) for e, role in operands for key in self._attention.same(e))

    def _passed_on(self, call: Call) -> Iterator[Role]:
        """Call an argument of a module as that module calls it."""
        child = called_module(call)
        names = {} if child is None else self._hints.called(child)[0]
        for position, argument in enumerate(call._args):
            if position in names:
                yield Role(variable(argument), names[position], "`self.{}` calls it so", (_Path(self.module, child),))

    def _weights(self, call: Call) -> Iterator[Role]:
        """Call the other arguments of a layer's function weight and bias: `F.linear(x, weight, bias)`."""
        if is_layers_function(call):
            for argument, word in zip(call._args[1:], (WEIGHT, BIAS), strict=False):
                yield Role(variable(argument), word, "a layer would have it as its {}", (word,))

    def _angles(self, call: Call) -> Iterator[Role]:
        """Call the angles of a rotary embedding cos and sin: `apply_rotary(x, cos, sin)`."""
        if is_rotary(call):
            for argument, word in zip(call._args[1:], (WORDS["cos"], WORDS["sin"]), strict=False):
                yield Role(variable(argument), word, "something is turned by it")

    def _looked_up(self, call: Call) -> Iterator[Role]:
        """Call the argument of an embedding by that embedding's name: `self.position_embeddings(x)` -> x: positions."""
        if looks_up(call):
            assert isinstance(call._function, Member)
            name = self.module.name_of(call._function._target)[-1]
            for word in [word for pattern, word in _LOOKED_UP if pattern.search(name)][-1:]:
                yield Role(variable(call._args[0]), word, "it is looked up in `self.{}`", (name,))

    def _masking(self, call: Call) -> Iterator[Role]:
        """Call the `attn_mask` of an attention a mask."""
        if "attn_mask" in call._kwargs:
            yield Role(variable(call._kwargs["attn_mask"]), MASK, "the mask of an attention")

    # Roles that the whole forward gives

    def _biases(self) -> Iterator[Role]:
        """Call a parameter that is added to scores a bias, if the callers have no name for it."""
        biases = set(added_to_scores(self._statements, self._calls, self.inlined))
        for position, value in enumerate(self.module.inputs):
            if value in biases:
                yield from self._as_called(position, value)
                yield Role(value, BIAS, "it is added to the scores of an attention")

    def _residuals(self) -> Iterator[Role]:
        """Call a parameter a residual if the forward adds it to what it computes, and reads it nowhere else. The first
        parameter, and a part of a mask, is no residual."""
        of_masks = set(self._added_to_masks())
        for addend in self._addends():
            if addend not in of_masks:
                yield Role(addend, RESIDUAL, "it is added to what the forward computes")

    def _attention_operands(self) -> Iterator[Role]:
        """Name the queries, keys and values of attentions that are written out."""
        yield from _in_attention(self._attention.operands())

    def _called_by_callers(self) -> Iterator[Role]:
        """Call a parameter as the callers call it."""
        for position, value in enumerate(self.module.inputs):
            yield from self._as_called(position, value)

    def _in_place_of_nothing(self) -> Iterator[Role]:
        """Call the result of an optional member by that member."""
        for statement in self._statements if self.module.optional else ():
            member = asked_member(statement)
            if member is not None:
                written = [key for inner in blocks(statement) for s in inner.statements for key in written_by(s)]
                name = self.module.name_of(member)[-1]
                yield Role(written[-1], spoken(name), "the result of `self.{}`, where that is there", (name,))

    # Roles that are handed back along the line of computation

    def _of_statements(self) -> Iterator[Role]:
        """Yield the roles that statements give, from the last to the first: the role of a result is known before its
        sources are asked for."""
        for statement in reversed(self._statements):
            if isinstance(statement, Assign):
                for rule in self._STATEMENT_RULES:
                    yield from rule(self, statement)

    def _taken_apart(self, statement: Assign) -> Iterator[Role]:
        """Name the pieces of a joint projection: `a, b, c = self.qkv(x).chunk(3, -1)` -> a: q, b: k, c: v."""
        for key, role in self._attention.joined(statement):
            yield Role(key, role, _IN_ATTENTION[role])

    def _given_back(self, statement: Assign) -> Iterator[Role]:
        """Call the results of a module as that module calls them."""
        child = called_module(statement.expr)
        named = {} if child is None or is_called_again(statement.expr) else self._hints.called(child)[1]
        for position, name in named.items():
            if position < len(statement.targets):
                target = variable(statement.targets[position])
                yield Role(target, name, "`self.{}` calls it so", (_Path(self.module, child),))

    def _whole_of_parts(self, statement: Assign) -> Iterator[Role]:
        """Name a value by the two parts into which it is split: `q_rot, q_pass = x.split(...)` -> x: q."""
        joint = whole([self._word(variable(target)) or "" for target in statement.targets])
        if joint is not None:
            for source in main_line(statement.expr, self.inlined):
                if source not in self.module.inputs:
                    yield Role(source, joint, "it becomes the two parts of `{}`", (joint,), overrules=True)

    def _rotated_parts(self, statement: Assign) -> Iterator[Role]:
        """Name the parts by the whole, if one of them is rotated: `q = torch.cat((apply_rotary(x, cos, sin), y), -1)`
        -> x: q_rot, y: q_pass."""
        word = self._word(variable(statement.targets[0])) if is_plain(statement) else None
        match bare(statement.expr):
            case Call(_function=Attribute(_name="cat"), _args=[Display(_items=[first, second]), *_]) if word:
                match bare(self.inlined.get(variable(first), first)):
                    case Call(_args=[turned, *_]) as call if is_rotary(call):
                        for part, suffix in ((turned, "rot"), (second, "pass")):
                            reason = "the part of `{}` that is turned, or passed"
                            yield Role(variable(part), f"{word}_{suffix}", reason, (word,), overrules=True)

    def _masked(self, statement: Assign) -> Iterator[Role]:
        """Call a value that a mask chooses a bias: `mask = torch.where(mask, bias, low)`. It is added to the scores
        where the mask lets it."""
        if is_plain(statement) and self._word(variable(statement.targets[0])) == MASK:
            yield Role(kept_by_mask(statement.expr), BIAS, "it is added to the scores where a mask lets it")

    def _handed_back(self, statement: Assign) -> Iterator[Role]:
        """Give the role of a result to the one variable that it is computed from. A variable that becomes several
        things has no role."""
        result = variable(statement.targets[0]) if is_plain(statement) else None
        word = self._word(result)
        if word is None:
            return
        sources = list(self._sources(statement.expr, word))
        if len(sources) == 1 and are_alike(sources[0], result) and sources[0] not in self.module.inputs:
            known = self._word(sources[0])
            role = self._all[result]
            is_same = known is None or known == word
            yield role._replace(variable=sources[0], word=word if is_same else "", overrules=True)

    def _held(self, statement: Assign) -> Iterator[Role]:
        """Call a value that is computed from one parameter or buffer, and nothing else, like that parameter or
        buffer."""
        if len(statement.targets) == 1 and (name := self._only_parameter(statement.expr)) is not None:
            yield Role(variable(statement.targets[0]), name, "it is computed from `self.{}` alone", (name,))

    # The order is the rank: the first rule that knows a variable decides.
    _CALL_RULES: tuple[Callable[[Roles, Call], Iterator[Role]], ...] = (
        _attended,
        _passed_on,
        _weights,
        _angles,
        _looked_up,
        _masking,
    )
    # The rules are asked for the last statement first.
    _STATEMENT_RULES: tuple[Callable[[Roles, Assign], Iterator[Role]], ...] = (
        _taken_apart,
        _given_back,
        _whole_of_parts,  # as soon as both parts are known
        _rotated_parts,
        _masked,
        _handed_back,  # from a variable whose role is known: by the rules above, or from later statements
        _held,
    )
    _RULES: tuple[Callable[[Roles], Iterator[Role]], ...] = (
        _of_calls,  # the function that takes a variable says most plainly what it is
        _biases,
        _residuals,  # after calls and biases: these find the masks, whose parts are no residuals
        _attention_operands,  # products say less than a call
        _of_statements,
        _called_by_callers,  # callers know least about what is done here
        _in_place_of_nothing,
    )

    def _as_called(self, position: int, value: ir.Value) -> Iterator[Role]:
        if position in self._hints.parameters:
            name = self._hints.parameters[position]
            yield Role(value, name, "the caller calls it `{}`", (name,))

    def _sources(self, expr: Expr, role: str) -> Iterator[object]:
        """Yield the variables that have become `expr`, which has this role. A value that a layer turns into queries is
        no query yet."""
        return self._attention.same(expr) if role in OPERANDS else main_line(expr, self.inlined)

    def _only_parameter(self, expr: Expr) -> str | None:
        """Return the name of the parameter or buffer that an expression is computed from, if it reads nothing else."""
        keys = {variable(part) for part in walk(expr) if isinstance(part, Ref | Local)}
        name = self.module.stored_name(keys.pop()) if len(keys) == 1 else None
        return identifier(name[-1]) if name is not None else None

    def _factors(self) -> Iterator[object]:
        for part in self._parts:
            if isinstance(part, Binary) and part._op == "*":
                yield from (variable(side) for side in (part._left, part._right))

    def _addends(self) -> Iterator[object]:
        """Yield the parameters, except for the first, that are added to something computed and read nowhere else."""
        reads = Counter(variable(part) for part in self._parts if isinstance(part, Ref | Local))
        others = set(list(self.module.inputs)[1:])
        for part in self._parts:
            if isinstance(part, Binary) and part._op == "+":
                sides = [variable(part._left), variable(part._right)]
                for side, other in (sides, sides[::-1]):
                    if side in others and reads[side] == 1 and other not in self.module.inputs:
                        yield side

    def _added_to_masks(self) -> Iterator[object]:
        """Yield the two terms of a sum that others call a mask: `mask = x + y` -> x, y."""
        for statement in self._statements:
            if isinstance(statement, Assign) and MASK in [self._word(variable(t)) for t in statement.targets]:
                match bare(statement.expr):
                    case Binary(_op="+", _left=left, _right=right):
                        yield from (variable(side) for side in (left, right))


class _Path(NamedTuple):
    """The path of a member, made into text only when it is printed."""

    module: Module
    member: object

    def __format__(self, _: str) -> str:
        return ".".join(self.module.name_of(self.member))


def _in_attention(operands: Iterable[tuple[object, str]]) -> Iterator[Role]:
    """Yield the roles of queries, keys and values. A variable that is several of these gets no word."""
    roles: dict[object, set[str]] = {}
    for key, role in operands:
        roles.setdefault(key, set()).add(role)
    for key, several in roles.items():
        role = several.pop() if len(several) == 1 else ""
        yield Role(key, role, _IN_ATTENTION.get(role, ""))
