"""One class for modules of which some lack a part.

    x = self.conv(x) + x                      ->   self.downsample = nn.Conv2d(...) if in_channels != channels
    x = self.conv(x) + self.downsample(x)                            else nn.Identity()
                                                   x = self.conv(x) + self.downsample(x)

    return self.project(x)                    ->   return x + project if self.residual else project
    return x + self.project(x)

    return self.norm(x)                       ->   return F.relu(norm) if self.activation else norm
    return F.relu(self.norm(x))

    return self.project(x * bias)             ->   if self.table is not None:
    bias = self.table(i)                               bias = self.table(i)
    return self.project(x * bias)                  return self.project(x * bias)

    return attend(x, bias)                    ->   if self.mask is not None:
    return attend(x, bias + self.mask)                 bias = bias + self.mask
                                                   return attend(x, bias)

    return self.mix(x)                        ->   return self.mix(x.roll(self.shift))       (with shift=0)
    return self.mix(x.roll(2))

Applies to modules of one class of the original (where the exporter names no class: of one place, as `layer1.0` and
`layer2.0`), if the shorter forward is the longer one without a few steps, and if the members that only those steps need
are all that the shorter one lacks. Such a step is the call of a member on one value, the addition of one, an
activation, what is done to one with a constant of the module's own, or a `roll`, and passes the value on where it is
missing; or it is an `if` about a member, which `modules/handed_on.py` has written for this. Not if the numbers of an
optional part are not known where it is missing.
Sound because the shorter module runs the longer forward, with identities and without the other steps; to roll by 0 is
an identity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

from onnxlift.lifting.code.expr import (
    Attribute,
    Binary,
    Call,
    Display,
    Expr,
    Literal,
    Member,
    Name,
    Ref,
    Ternary,
    Wrapped,
    bare,
    variable,
    walk,
)
from onnxlift.lifting.code.reads import values_read
from onnxlift.lifting.code.statements import Assign, Block, Branch, Return, Statement, expressions, walk_statements
from onnxlift.lifting.code.substitute import substitute
from onnxlift.lifting.modules.inline import main_line
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.scopes import Path

from .canonical import Canonical
from .number_groups import ABSENT, Number

MOST_FORMS = 6
MOST_PARTS = 3
MOST_STATEMENTS = 120
MOST_ATTEMPTS = 64

ACTIVATIONS = frozenset("relu relu6 gelu silu hardswish hardsigmoid mish elu celu selu leaky_relu softplus".split())


@dataclass(eq=False)
class Part:
    """A step that some instances lack: the statement, the member that it calls or reads (None for an addition, an
    activation or a roll), and what it assigns with the value that it then passes on (None for an `if`: that leaves all
    as it is). A roll is not left out, but rolls by 0."""

    statement: Statement
    member: Path | None
    target: Ref | None = None
    passes: Ref | None = None
    is_roll: bool = False
    is_activation: bool = False

    @property
    def name(self) -> str:
        """Of the argument that tells whether it is there."""
        if self.member is None:
            return "activation" if self.is_activation else "residual"
        return "masked" if self.member[-1].endswith("mask") else self.member[-1]

    @property
    def statements(self) -> set[Statement]:
        """The statement and those in it."""
        return {*walk_statements(Block([self.statement]))}


@dataclass(eq=False)
class Form:
    """Modules that are equal up to numbers, all described like the first."""

    key: tuple[Any, ...]
    """Class, whether it is sequential, members and forward."""
    modules: list[Module] = field(default_factory=list)
    numbers: dict[int, list[Number]] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    absent: dict[int, set[Part]] = field(default_factory=dict)  # id(module) -> the parts that it lacks

    @property
    def members(self) -> tuple[tuple[Path, object], ...]:
        members: tuple[tuple[Path, object], ...] = self.key[2]
        return members

    def columns(self) -> tuple[list[Number], list[list[object]]]:
        """The numbers of the first module, and for each the values in all modules; at the end one for each part."""
        example = self.numbers[id(self.modules[0])]
        columns: list[list[object]] = [[] for _ in example]
        for module in self.modules:
            missing: dict[object, object] = {}
            for part in self.absent.get(id(module), ()):
                missing |= dict.fromkeys((part.member, *part.statements), 0 if part.is_roll else ABSENT)
            own = iter(self.numbers[id(module)])
            for column, number in zip(columns, example, strict=True):
                column.append(missing[number.home] if number.home in missing else next(own).value)
        optional = [part for part in self.parts if not part.is_roll]
        flags = [Number((part, "there"), part.name, True) for part in optional]
        there: list[list[object]] = [
            [part not in self.absent.get(id(m), ()) for m in self.modules] for part in optional
        ]
        return [*example, *flags], [*columns, *there]


def contained(longer: Form, shorter: Form) -> Form | None:
    """The form of both, if the modules of `shorter` are those of `longer` without some steps."""
    large, small = longer.modules[0], shorter.modules[0]
    if large.sequential or small.sequential or len(large.inputs) != len(small.inputs):
        return None
    steps, fewer = large.body.statements, small.body.statements
    if not len(fewer) < len(steps) <= MOST_STATEMENTS or not _is_plain(steps) or not _is_plain(fewer):
        return None
    for parts in _candidates(large, small):
        if _without(large, parts) == _without(small, ()) and _members(longer, parts) == _members(shorter, ()):
            merged = Form(longer.key, [*longer.modules, *shorter.modules], {**longer.numbers, **shorter.numbers})
            known = {part.statement: part for part in longer.parts}
            parts = [known.get(part.statement, part) for part in parts]
            merged.parts = [*longer.parts, *(part for part in parts if part not in longer.parts)]
            merged.absent = {**longer.absent, **{id(module): set(parts) for module in shorter.modules}}
            return merged
    return None


def _is_plain(statements: Sequence[Statement]) -> bool:
    *steps, last = statements
    return isinstance(last, Return) and all(isinstance(s, Assign) or asked_member(s) is not None for s in steps)


def asked_member(statement: Statement) -> Layer | Module | Stored | None:
    """The member that an `if` without `else` asks for: `if self.table is not None`."""
    if not isinstance(statement, Branch) or statement.otherwise.statements:
        return None
    match statement.condition:
        case Binary(_op="is not", _left=Member(_target=Layer() | Module() | Stored() as member)):
            return member
    return None


def _candidates(large: Module, small: Module) -> Iterator[list[Part]]:
    """The steps that may be missing in the small one: as many of each kind as there are more of it in the large one."""
    kinds: dict[str, list[Statement]] = {}
    for statement in large.body.statements:
        kinds.setdefault(_kind(large, statement), []).append(statement)
    counts = Counter(_kind(small, statement) for statement in small.body.statements)
    surplus = {kind: len(found) - counts.pop(kind, 0) for kind, found in kinds.items()}
    if counts or min(surplus.values()) < 0 or not 0 < sum(surplus.values()) <= MOST_PARTS:
        return
    choices = [combinations(kinds[kind], number) for kind, number in surplus.items() if number]
    attempts = 0
    for chosen in product(*choices):
        for parts in product(*(list(_parts(large, s)) for group in chosen for s in group)):
            attempts += 1
            if attempts > MOST_ATTEMPTS:
                return
            yield list(parts)


def _parts(module: Module, statement: Statement) -> Iterator[Part]:
    """The ways to do without a step."""
    asked = asked_member(statement)
    if asked is not None:
        yield Part(statement, module.name_of(asked))
    if not isinstance(statement, Assign) or len(statement.targets) != 1 or not isinstance(statement.targets[0], Ref):
        return
    target, expr = statement.targets[0], bare(statement.expr)
    match expr:
        case Call() if isinstance(expr._function, Member) and len(expr._args) == 1 and not expr._kwargs:
            member, argument = expr._function._target, bare(expr._args[0])
            if isinstance(argument, Ref) and not isinstance(member, Stored) and len(module.name_of(member)) == 1:
                yield Part(statement, module.name_of(member), target, argument)
        case Binary() if expr._op == "+":
            for operand in (bare(expr._left), bare(expr._right)):
                if isinstance(operand, Ref) and module.stored_name(operand._key) is None:
                    yield Part(statement, None, target, operand)
        case Call(_function=Attribute(_base=Name(_name="F"), _name=name), _args=[argument, *_]) if name in ACTIVATIONS:
            if isinstance(bare(argument), Ref):
                yield Part(statement, None, target, Ref(variable(argument)), is_activation=True)
        case Call(_function=Attribute(_name="roll", _base=base)) if isinstance(bare(base), Ref):
            if all(isinstance(part, Literal | Display | Wrapped) for arg in expr._args for part in walk(arg)):
                yield Part(statement, None, target, Ref(variable(base)), is_roll=True)
    constant = _own_constant(module, statement)
    sources = [key for key in main_line(expr, {}) if module.stored_name(key) is None]
    if constant is not None and len(sources) == 1 and _readers(module, sources[0]) == 1:
        yield Part(statement, constant, target, Ref(sources[0]))


def _own_constant(module: Module, statement: Statement) -> Path | None:
    """The constant of the module that this statement reads, and no other, if it is one."""
    read = dict.fromkeys(values_read(*expressions(statement)))
    stored = {key: path for key in read if (path := module.stored_name(key)) is not None}
    [*own] = [path for key, path in stored.items() if _readers(module, key) == 1 and len(path) == 1]
    return own[0] if len(own) == 1 else None


def _readers(module: Module, key: object) -> int:
    """How many statements read a variable."""
    return sum(key in values_read(*expressions(statement)) for statement in walk_statements(module.body))


def _members(form: Form, parts: Sequence[Part]) -> list[object]:
    """What the members are, but for those of the parts."""
    gone = {part.member for part in parts}
    return [(path, description) for path, description in form.members if path not in gone]


def _kind(module: Module, statement: Statement) -> str:
    """A statement but for the variables and numbers in it."""
    return Canonical(module, [], anonymous=True).head(statement)


def _without(module: Module, parts: Sequence[Part]) -> str:
    """The forward without these steps."""
    canonical = Canonical(module, [])
    for part in parts:
        if part.target is not None and part.passes is not None:
            canonical.aliases[part.target._key] = part.passes._key
    return canonical.describe({part.statement for part in parts})


def ask_for_constant(module: Module, statement: Assign) -> Branch:
    """Let `module` take a step with a constant of its own, which is one of the parts, if that is there."""
    part = next(part for part in _parts(module, statement) if part.member is not None)
    assert part.member is not None and part.target is not None and part.passes is not None
    target, source = part.target._key, part.passes
    there = Binary("is not", Member(module.members[part.member]), Literal(None))
    branch = Branch(there, Block([statement]), Block(), origin=list(statement.origin))
    statement.targets = [source]
    module.body.statements = [branch if s is statement else s for s in module.body.statements]

    def renamed(expr: Expr) -> Expr | None:
        return source if isinstance(expr, Ref) and expr._key is target else None

    for later in walk_statements(module.body):
        if isinstance(later, Assign | Return):
            later.expr = substitute(later.expr, renamed)
    return branch


def optional_step(statement: Assign, part: Part, flag: Expr) -> Expr:
    """The expression of an addition or activation that not all instances make: `x + y if flag else y`."""
    assert part.passes is not None
    return Ternary(flag, statement.expr, Ref(part.passes._key))
