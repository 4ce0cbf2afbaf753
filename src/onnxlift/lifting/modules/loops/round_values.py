"""What differs between rounds that are the same otherwise: where their values come from, and where they go.

1. A value of the round before: what reads the result of one round in the next must read the same result in every round.
   Not if a round still needs a value of the one before when it has made the value that takes its place.
2. An entry of another list of modules with the same number: `self.norms[2]` beside `self.convs[2]`.
3. A part of what was cut: `a, b, c = x.chunk(3)`, of which each round reads the next one.
4. A number in brackets that grows regularly: `x[:, 0]`, `x[:, 1]`.
5. One of several values that are there before all rounds, for each another one: the levels of a pyramid.
6. Results that are joined, all of them in their order: `torch.cat((a, b, c), 1)`, or returned.

All else that is read is the same in all rounds, and nobody but the next round reads what a round makes, but for the
last one. Numbers must be the same in every instance of the class, too: `texts` are those that its constructor is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from onnxlift.lifting.code.expr import (
    Attribute,
    Call,
    Display,
    Expr,
    Literal,
    Name,
    SliceExpr,
    Subscript,
    bare,
    variable,
    walk,
)
from onnxlift.lifting.code.reads import variables_read
from onnxlift.lifting.code.statements import Assign, Block, Return, Statement, expressions
from onnxlift.lifting.code.substitute import copied
from onnxlift.lifting.modules.classes.canonical import Canonical
from onnxlift.lifting.modules.classes.number_groups import Number
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.tree.scopes import Path

from .rounds import Rounds, assigned, member_path

INDEX = "index"


@dataclass
class Cut:
    """`part`, which the last round reads, is one of the targets of `statement`; `first` is the place of that which the
    first round reads."""

    part: object
    statement: Assign
    first: int


@dataclass
class Collected:
    """`value`, which the last round makes, is an item of `display`; `first` is the place of that of the first round."""

    value: object
    display: Display
    first: int


@dataclass
class Changes:
    """`carried` has the values of the round before that the last round reads, with the values that the last round makes
    in their place, and what the first round has there; `counted` the numbers of the last round, by id, with what they
    begin with and by how much they grow; `lists` the other lists of which each round uses an entry; `given` the values,
    by that of the last round, of which each round reads one."""

    carried: dict[object, tuple[object, object]] = field(default_factory=dict)
    lists: list[Path] = field(default_factory=list)
    cuts: dict[object, Cut] = field(default_factory=dict)
    given: dict[object, Sequence[object]] = field(default_factory=dict)
    counted: dict[int, tuple[int, int]] = field(default_factory=dict)
    collected: list[Collected] = field(default_factory=list)


def find_changes(
    module: Module, rounds: Rounds, lists: Mapping[Path, int], texts: Mapping[object, str]
) -> Changes | None:
    """What differs between the rounds; None if they are not the same otherwise. `lists` are the lists of modules, and
    how many entries they have."""
    described = [Round(module, rounds, lists, i) for i in range(len(rounds.groups))]
    lines = [[*text.lines(Block(group), "")] for text, group in zip(described, rounds.groups, strict=True)]
    if any(each != lines[0] for each in lines) or not _are_private(rounds):
        return None
    changes = Changes(lists=[*described[0].others])
    for numbers in zip(*(text.numbers for text in described), strict=True):
        if not _is_regular(numbers, id(numbers[0].where) in described[0].indices, texts, changes):
            return None
    made = [made_in(group) for group in rounds.groups]
    places = [
        {key: place for place, key in reversed([*enumerate(text.occurrences)]) if key in keys}
        for text, keys in zip(described, made, strict=True)
    ]
    results: dict[int, Sequence[object]] = {}
    for keys in zip(*(text.occurrences for text in described), strict=True):
        own = {place.get(key) for place, key in zip(places, keys, strict=True)}
        before = {place.get(key) for place, key in zip(places, keys[1:], strict=False)}
        if len(own) == 1 and (place := own.pop()) is not None:
            results[place] = keys
        elif all(key is keys[0] for key in keys):
            continue
        elif len(before) == 1 and (place := before.pop()) is not None:
            value = (described[-1].occurrences[place], keys[0])
            if changes.carried.setdefault(keys[-1], value) != value:
                return None
        elif (cut := _cut(rounds.before, keys)) is not None:
            changes.cuts[cut.part] = cut
        elif len({*map(id, keys)}) == len(keys) and not any(key in each for key in keys for each in made):
            changes.given[keys[-1]] = keys
        else:
            return None
    if not all(is_read_first(rounds.groups[-1], old, new) for old, (new, _) in changes.carried.items()):
        return None
    if not _collect(rounds, [*results.values()], changes):
        return None
    return changes if changes.carried or changes.collected else None


class Round(Canonical):
    """The text of the statements for one entry, in which that is `item`, and numbers in brackets are holes. `others`
    are other lists of which an entry with the same number is used."""

    def __init__(self, module: Module, rounds: Rounds, lists: Mapping[Path, int], number: int) -> None:
        super().__init__(module, [], anonymous=True)
        self.rounds, self.lists, self.entry = rounds, lists, str(rounds.first + number)
        self.others: dict[Path, None] = {}
        self.indices: set[int] = set()  # numbers in brackets, by id
        self.occurrences: list[object] = []  # of variables, in the order of the text, which does not tell them apart

    def variable(self, key: object) -> str:
        if self.module.stored_name(key) is None:
            self.occurrences.append(key)
        return super().variable(key)

    def head(self, statement: Statement) -> str:
        for expr in expressions(statement):
            self.indices |= {id(number) for number in _indices(expr)}
        self.renderer.roles |= dict.fromkeys(self.indices, INDEX)
        return super().head(statement)

    def name(self, leaf: Expr) -> str:
        path, depth = member_path(self.module, leaf), len(self.rounds.path)
        if path is not None and path[:depth] == self.rounds.path:
            return f"item.{'.'.join(path[depth + 1 :])}"
        if path is not None and path[-1] == self.entry and self.lists.get(path[:-1]) == self.rounds.count:
            self.others[path[:-1]] = None
            return f"item of {'.'.join(path[:-1])}"
        return super().name(leaf)


def _indices(expr: Expr) -> Iterator[Literal]:
    """The numbers in brackets."""
    for part in walk(expr):
        for index in part._index if isinstance(part, Subscript) else ():
            yield from (p for p in walk(index) if isinstance(p, Literal) and type(p._value) is int)


def _is_regular(numbers: Sequence[Number], is_index: bool, texts: Mapping[object, str], changes: Changes) -> bool:
    """Whether a number is the same in all rounds, or grows regularly, which is noted then, if it is in brackets."""
    literals = [number.where for number in numbers if isinstance(number.where, Literal)]
    values = [literal._value for literal in literals]
    if all(type(value) is type(values[0]) and value == values[0] for value in values):
        return all(texts.get(id(literal)) == texts.get(id(literals[0])) for literal in literals)
    start, after, *_ = (value if isinstance(value, int) else 0 for value in values)
    step = after - start
    if not is_index or any(id(literal) in texts for literal in literals):
        return False
    changes.counted[id(literals[-1])] = (start, step)
    return values == [start + step * i for i in range(len(values))]


def made_in(group: Sequence[Statement]) -> set[object]:
    """The variables that a round writes."""
    return {key for statement in group for key in assigned(statement)}


def _are_private(rounds: Rounds) -> bool:
    """Whether no round reads what one makes, but that one and the next."""
    maker = {key: i for i, group in enumerate(rounds.groups[:-1]) for key in made_in(group)}
    return all(
        i in (maker.get(key, i), maker.get(key, i) + 1)
        for i, group in enumerate(rounds.groups)
        for statement in group
        for key in variables_read(statement)
    )


def is_read_first(group: Sequence[Statement], old: object, new: object) -> bool:
    """Whether a round reads `old` no more once it has made `new`."""
    first = next(position for position, statement in enumerate(group) if new in assigned(statement))
    last = max(
        position for position, statement in enumerate(group) if any(key is old for key in variables_read(statement))
    )
    return last < first or (last == first and isinstance(group[first], Assign))


def _cut(before: Sequence[Statement], keys: Sequence[object]) -> Cut | None:
    for statement in before:
        targets = [variable(target) for target in statement.targets] if isinstance(statement, Assign) else []
        if isinstance(statement, Assign) and keys[0] in targets and _cuts(statement.expr):
            first = targets.index(keys[0])
            return Cut(keys[-1], statement, first) if targets[first : first + len(keys)] == [*keys] else None
    return None


def _cuts(expr: Expr) -> bool:
    """`x.chunk(4, 1)`"""
    function = bare(expr._function) if isinstance(expr, Call) else None
    return isinstance(function, Attribute) and function._name in ("chunk", "split", "unbind", "tensor_split")


def _collect(rounds: Rounds, results: Sequence[Sequence[object]], changes: Changes) -> bool:
    """Find where the results go that are read after the rounds, and not only that of the last round. False if one goes
    elsewhere."""
    used = Counter(key for statement in rounds.after for key in variables_read(statement))
    displays = [display for statement in rounds.after for display in _joined(statement)]
    place = {variable(item): (display, i) for display in displays for i, item in enumerate(display._items)}
    for keys in results:
        if not any(used[key] for key in keys[:-1]):
            continue
        display, first = place.get(keys[0], (None, 0))
        if display is None or any(used[key] != 1 for key in keys[:-1]):
            return False
        if [variable(item) for item in display._items[first : first + len(keys)]] != [*keys]:
            return False
        changes.collected.append(Collected(keys[-1], display, first))
    return True


def _joined(statement: Statement) -> Iterator[Display]:
    """The lists of tensors that a statement joins or returns."""
    for expr in expressions(statement):
        if isinstance(statement, Return) and isinstance(expr, Display):
            yield expr
        for part in walk(expr):
            function = bare(part._function) if isinstance(part, Call) else None
            if isinstance(part, Call) and isinstance(function, Attribute) and function._name in ("cat", "stack"):
                base, items = bare(function._base), bare(part._args[0]) if part._args else None
                if isinstance(base, Name) and base._name == "torch" and isinstance(items, Display):
                    yield items


def with_all_bounds(rounds: Rounds) -> Rounds:
    """The rounds with both bounds of slices that have one, where the size is known: `x[:, :4]` is `x[:, 0:4]`, so that
    the first slice and the last one are like the others."""
    groups = [[copied(statement, _with_bounds) for statement in group] for group in rounds.groups]
    return replace(rounds, groups=groups)


def _with_bounds(expr: Expr) -> Expr | None:
    key = variable(expr._base) if isinstance(expr, Subscript) else None
    if not isinstance(expr, Subscript) or not isinstance(key, ir.Value) or key.shape is None:
        return None
    if not all(isinstance(index, SliceExpr) for index in expr._index):
        return None  # a number takes an axis away, and a list of them may bring others
    slices = [index for index in expr._index if isinstance(index, SliceExpr)]
    return Subscript(expr._base, tuple(map(_bounded, slices, key.shape)))


def _bounded(part: SliceExpr, size: object) -> SliceExpr:
    if part._step is not None or (part._start is None) == (part._stop is None):
        return part
    start = Literal(0) if part._start is None else part._start
    stop = Literal(size) if part._stop is None and isinstance(size, int) else part._stop
    return SliceExpr(start, stop, None)
