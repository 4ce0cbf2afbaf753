"""Find one class for modules, some of which lack a part.

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

Applies to modules of one class of the original. If the exporter names no class, they must be of one place, like
`layer1.0` and `layer2.0`. The shorter forward must be the longer one without a few steps, and the shorter module must
lack just the members that only those steps need.

Such a step is the call of a member on one value, the addition of a value, an activation, an operation on one value with
a constant of the module's own, or a `roll`. Without the step, the value is passed on. Or the step is an `if` about a
member, which `modules/signatures/passed_through.py` has written for this. Does not apply if the numbers of an optional
part are not known for the instances that lack it. Sound because the shorter module runs the longer forward, with
identities and without the other steps. To roll by 0 is an identity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
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
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.modules.statements.inline import main_line
from onnxlift.lifting.ops.kinds import is_activation_function
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.paths import Path

from .canonical import Canonical
from .number_groups import ABSENT, Number

MOST_FORMS = 6
MOST_PARTS = 3
MOST_STATEMENTS = 120
MOST_ATTEMPTS = 64


@dataclass(eq=False)
class Part:
    """A step that some instances lack: its statement, and the `member` that it calls or reads (None for an addition, an
    activation or a roll).

    `target` is the variable that it writes, `passes` the value that takes its place without the step. Both are None for
    an `if`, which then changes nothing. A roll is not left out: it rolls by 0.
    """

    statement: Statement
    member: Path | None
    target: Ref | None = None
    passes: Ref | None = None
    is_roll: bool = False
    is_activation: bool = False

    @property
    def name(self) -> str:
        """Return the name of the argument that tells whether the part is there."""
        if self.member is None:
            return "activation" if self.is_activation else "residual"
        return "masked" if self.member[-1].endswith("mask") else self.member[-1]

    @property
    def statements(self) -> set[Statement]:
        """Return the statement and all statements inside it."""
        return {*walk_statements(Block([self.statement]))}


@dataclass(eq=False)
class Form:
    """Modules that are equal up to numbers. The first one's description is that of all."""

    key: tuple[Any, ...]
    """The description (`descriptions.py`): class hint, sequential or not, members, text of the forward, class key,
    and the original's names of members."""
    modules: list[Module] = field(default_factory=list)
    numbers: dict[Module, list[Number]] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    absent: dict[Module, set[Part]] = field(default_factory=dict)  # module -> the parts that it lacks

    @property
    def members(self) -> tuple[tuple[Path, object], ...]:
        members: tuple[tuple[Path, object], ...] = self.key[2]
        return members

    def without(self, modules: Collection[Module]) -> Form:
        """Return the form of the other modules. It has the example, and the parts that one of them lacks."""
        kept = [module for module in self.modules if module not in modules]
        absent = {module: self.absent[module] for module in kept if module in self.absent}
        parts = [part for part in self.parts if any(part in missing for missing in absent.values())]
        return Form(self.key, kept, {module: self.numbers[module] for module in kept}, parts, absent)

    def columns(self) -> tuple[list[Number], list[list[object]]]:
        """Return the numbers of the first module, and for each the values in all modules. At the end comes a flag for
        each part."""
        example = self.numbers[self.modules[0]]
        columns: list[list[object]] = [[] for _ in example]
        for module in self.modules:
            missing: dict[object, object] = {}
            for part in self.absent.get(module, ()):
                missing |= dict.fromkeys((part.member, *part.statements), 0 if part.is_roll else ABSENT)
            own = iter(self.numbers[module])
            for column, number in zip(columns, example, strict=True):
                column.append(missing[number.home] if number.home in missing else next(own).value)
        optional = [part for part in self.parts if not part.is_roll]
        flags = [Number((part, "there"), part.name, True) for part in optional]
        there: list[list[object]] = [[part not in self.absent.get(m, ()) for m in self.modules] for part in optional]
        return [*example, *flags], [*columns, *there]


def contained(longer: Form, shorter: Form) -> Form | None:
    """Return the form of both, if the modules of `shorter` are those of `longer` without some steps; otherwise None."""
    large, small = longer.modules[0], shorter.modules[0]
    if large.sequential or small.sequential or len(large.inputs) != len(small.inputs):
        return None
    steps, fewer = large.body.statements, small.body.statements
    if not len(fewer) < len(steps) <= MOST_STATEMENTS or not _is_plain(steps) or not _is_plain(fewer):
        return None
    for parts in _candidates(large, small):
        is_same = _keys(large, parts) == _keys(small, ()) and _members(longer, parts) == _members(shorter, ())
        if is_same and _without(large, parts) == _without(small, ()):
            merged = Form(longer.key, [*longer.modules, *shorter.modules], {**longer.numbers, **shorter.numbers})
            known = {part.statement: part for part in longer.parts}
            parts = [known.get(part.statement, part) for part in parts]
            merged.parts = [*longer.parts, *(part for part in parts if part not in longer.parts)]
            merged.absent = {**longer.absent, **{module: set(parts) for module in shorter.modules}}
            return merged
    return None


def _is_plain(statements: Sequence[Statement]) -> bool:
    *steps, last = statements
    return isinstance(last, Return) and all(isinstance(s, Assign) or asked_member(s) is not None for s in steps)


def asked_member(statement: Statement) -> Layer | Module | Stored | None:
    """Return the member that an `if` without `else` asks for (`if self.table is not None`); None for any other
    statement."""
    if not isinstance(statement, Branch) or statement.otherwise.statements:
        return None
    match statement.condition:
        case Binary(_op="is not", _left=Member(_target=Layer() | Module() | Stored() as member)):
            return member
    return None


def _candidates(large: Module, small: Module) -> Iterator[list[Part]]:
    """Yield choices of steps that the small module may lack: of each kind of step as many as the large one has more."""
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
    """Yield the ways to do without a step."""
    asked = asked_member(statement)
    if asked is not None:
        yield Part(statement, module.name_of(asked))
    if isinstance(statement, Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], Ref):
        for way in _WAYS:
            yield from way(module, statement, statement.targets[0])


def _without_call(module: Module, statement: Assign, target: Ref) -> Iterator[Part]:
    """Leave out `y = self.downsample(x)`: the value goes on as it came."""
    match bare(statement.expr):
        case Call(_function=Member(_target=member), _args=(arg,), _kwargs=kwargs) if not kwargs:
            argument = bare(arg)
            if isinstance(argument, Ref) and not isinstance(member, Stored) and len(module.name_of(member)) == 1:
                yield Part(statement, module.name_of(member), target, argument)


def _without_addition(module: Module, statement: Assign, target: Ref) -> Iterator[Part]:
    """Leave out `z = x + y`: either operand goes on, unless it is a constant of the module."""
    match bare(statement.expr):
        case Binary(_op="+", _left=left, _right=right):
            for operand in (bare(left), bare(right)):
                if isinstance(operand, Ref) and module.stored_name(operand._key) is None:
                    yield Part(statement, None, target, operand)


def _without_activation(module: Module, statement: Assign, target: Ref) -> Iterator[Part]:
    """Leave out `y = F.relu(x)`: the value goes on as it came."""
    match bare(statement.expr):
        case Call(_function=Attribute(_base=Name(_name="F"), _name=name), _args=[argument, *_]):
            if is_activation_function(name) and isinstance(bare(argument), Ref):
                yield Part(statement, None, target, Ref(variable(argument)), is_activation=True)


def _without_roll(module: Module, statement: Assign, target: Ref) -> Iterator[Part]:
    """Leave out `y = x.roll(2, 1)`, if its arguments are all numbers: it rolls by 0."""
    match bare(statement.expr):
        case Call(_function=Attribute(_name="roll", _base=base), _args=args) if isinstance(bare(base), Ref):
            if all(isinstance(part, Literal | Display | Wrapped) for arg in args for part in walk(arg)):
                yield Part(statement, None, target, Ref(variable(base)), is_roll=True)


def _without_constant(module: Module, statement: Assign, target: Ref) -> Iterator[Part]:
    """Leave out `y = x + self.mask`: an operation on one value with a constant that no other statement reads."""
    constant = _own_constant(module, statement)
    sources = [key for key in main_line(statement.expr, {}) if module.stored_name(key) is None]
    if constant is not None and len(sources) == 1 and _readers(module, sources[0]) == 1:
        yield Part(statement, constant, target, Ref(sources[0]))


# A step is of one of the first four kinds at most. It may also have a constant. To leave it out for that reason comes
# last, since this needs an `if`, while the others only need an expression.
_WAYS: tuple[Callable[[Module, Assign, Ref], Iterator[Part]], ...] = (
    _without_call,
    _without_addition,
    _without_activation,
    _without_roll,
    _without_constant,
)


def _own_constant(module: Module, statement: Statement) -> Path | None:
    """Return the path of the constant that only this statement reads, if there is exactly one."""
    read = dict.fromkeys(values_read(*expressions(statement)))
    stored = {key: path for key in read if (path := module.stored_name(key)) is not None}
    [*own] = [path for key, path in stored.items() if _readers(module, key) == 1 and len(path) == 1]
    return own[0] if len(own) == 1 else None


def _readers(module: Module, key: object) -> int:
    """Count the statements that read a variable."""
    return sum(key in values_read(*expressions(statement)) for statement in walk_statements(module.body))


def _members(form: Form, parts: Sequence[Part]) -> list[object]:
    """Return the descriptions of the members, without those of the parts."""
    gone = {part.member for part in parts}
    return [(path, description) for path, description in form.members if path not in gone]


def _keys(module: Module, parts: Sequence[Part]) -> dict[Path, str]:
    """Return the original's names of members, without those of the parts."""
    gone = {part.member for part in parts}
    return {path: name for path, name in module.keys.items() if path not in gone}


def _kind(module: Module, statement: Statement) -> str:
    """Return the text of a statement without its variables and numbers."""
    return Canonical(module, [], anonymous=True).head(statement)


def _without(module: Module, parts: Sequence[Part]) -> str:
    """Return the text of the forward without these steps."""
    canonical = Canonical(module, [])
    for part in parts:
        if part.target is not None and part.passes is not None:
            canonical.aliases[part.target._key] = part.passes._key
    return canonical.describe({part.statement for part in parts})


def ask_for_constant(module: Module, statement: Assign) -> Branch:
    """Put a step with a constant of the module's own, which is one of the parts, under an `if` that asks for the
    constant."""
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
    """Return the expression of an addition or activation that only some instances compute: `x + y if flag else y`."""
    assert part.passes is not None
    return Ternary(flag, statement.expr, Ref(part.passes._key))
