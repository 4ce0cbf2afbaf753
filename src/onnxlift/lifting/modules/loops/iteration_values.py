"""Find the differences between iterations that are the same otherwise: where their values come from, and where they go.

1. A value of the iteration before. If an iteration reads a result of the one before, every iteration must read the same
   result. Not allowed if an iteration still reads the old value after it has made the new one.
2. An entry of another list of modules with the same number: `self.norms[2]` beside `self.convs[2]`.
3. A part of a tensor that was cut, `a, b, c = x.chunk(3)`, if each iteration reads the next part.
4. A number in brackets that grows regularly: `x[:, 0]`, `x[:, 1]`.
5. One of several values from before all iterations, if each iteration reads another one: the levels of a pyramid.
6. Results that are joined, all of them in their order: `torch.cat((a, b, c), 1)`, or returned. Several results may take
   turns: `key0, value0, key1, value1`.

All other values that are read are the same in all iterations. Only the next iteration reads the results of an
iteration, except for those of the last one. Numbers must also be written alike in every instance of the class: `texts`
are the numbers that the constructor is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from onnxlift.lifting.tree.paths import Path

from .iterations import Iterations, assigned, member_path

INDEX = "index"


@dataclass
class Cut:
    """A tensor that is cut into parts, of which each iteration reads the next one: `a, b, c = x.chunk(3)`. `part` is
    the target of `statement` that the last iteration reads. `first` is the place of the target that the first iteration
    reads."""

    part: object
    statement: Assign
    first: int


@dataclass
class Collected:
    """Results of all iterations that are joined: `torch.cat((a, b, c))`. `values` are the results of the last
    iteration, items of `display`. `first` is the place of the first iteration's first result there."""

    values: Sequence[object]
    display: Display
    first: int


@dataclass
class Changes:
    """All that differs between the iterations. Keys are what the last iteration has.

    carried: a value of the iteration before -> the value that takes its place, and the one in the first iteration
    lists: the other lists of modules of which each iteration uses an entry
    cuts: a part of a tensor that was cut -> the cut
    given: a value from before all iterations -> the values that the iterations read there
    growing: a number in brackets -> the number in the first iteration, and its growth from one iteration to the next
    collected: the results that are joined
    """

    carried: dict[object, tuple[object, object]] = field(default_factory=dict)
    lists: list[Path] = field(default_factory=list)
    cuts: dict[object, Cut] = field(default_factory=dict)
    given: dict[object, Sequence[object]] = field(default_factory=dict)
    growing: dict[Expr, tuple[int, int]] = field(default_factory=dict)
    collected: list[Collected] = field(default_factory=list)


def find_changes(
    module: Module, iterations: Iterations, lists: Mapping[Path, int], texts: Mapping[object, str]
) -> Changes | None:
    """Return the differences between the iterations; None if they are not the same otherwise. `lists` are the lists of
    modules with their lengths."""
    described = [IterationText(module, iterations, lists, i) for i in range(len(iterations.groups))]
    lines = [[*text.lines(Block(group), "")] for text, group in zip(described, iterations.groups, strict=True)]
    if any(each != lines[0] for each in lines) or not _are_private(iterations):
        return None
    changes = Changes(lists=[*described[0].others])
    for numbers in zip(*(text.numbers for text in described), strict=True):
        if not _is_regular(numbers, numbers[0].where in described[0].indices, texts, changes):
            return None
    occurrences = [text.occurrences for text in described]
    variables = _Variables(iterations, occurrences, changes)
    if not all(variables.explain(keys) for keys in zip(*occurrences, strict=True)):
        return None
    if not all(is_read_first(iterations.groups[-1], old, new) for old, (new, _) in changes.carried.items()):
        return None
    if not _collect(iterations, [*variables.results.values()], changes):
        return None
    return changes if changes.carried or changes.collected else None


class _Variables:
    """The reasons why the iterations have different variables at one place of their text. It notes the differences in
    `changes`. `results` has the variables that each iteration makes itself, by their first place in the text."""

    def __init__(self, iterations: Iterations, occurrences: Sequence[Sequence[object]], changes: Changes) -> None:
        self.iterations, self.changes, self.last = iterations, changes, occurrences[-1]
        self.made = [made_in(group) for group in iterations.groups]
        self.place_of = [
            {key: place for place, key in reversed([*enumerate(keys)]) if key in made}
            for keys, made in zip(occurrences, self.made, strict=True)
        ]
        self.results: dict[int, Sequence[object]] = {}

    def explain(self, keys: Sequence[object]) -> bool:
        """Tell whether a loop can have these variables, one of each iteration, at one place."""
        return any(rule(self, keys) for rule in _RULES)

    def are_own(self, keys: Sequence[object]) -> bool:
        """Tell whether each iteration reads a variable that it made itself, at the same place."""
        places = {place_of.get(key) for place_of, key in zip(self.place_of, keys, strict=True)}
        place = places.pop() if len(places) == 1 else None
        if place is not None:
            self.results[place] = keys
        return place is not None

    def are_the_same(self, keys: Sequence[object]) -> bool:
        """Tell whether all iterations read the same variable."""
        return all(key is keys[0] for key in keys)

    def are_carried(self, keys: Sequence[object]) -> bool:
        """Tell whether all iterations but the first read a variable that the one before has made, at the same place."""
        places = {place_of.get(key) for place_of, key in zip(self.place_of, keys[1:], strict=False)}
        place = places.pop() if len(places) == 1 else None
        if place is None:
            return False
        value = (self.last[place], keys[0])
        return self.changes.carried.setdefault(keys[-1], value) == value

    def are_cut(self, keys: Sequence[object]) -> bool:
        """Tell whether the iterations read the parts, in their order, of a tensor that was cut before them."""
        cut = _cut(self.iterations.before, keys)
        if cut is not None:
            self.changes.cuts[cut.part] = cut
        return cut is not None

    def are_given(self, keys: Sequence[object]) -> bool:
        """Tell whether each iteration reads another value from before all of them."""
        is_given = len({*keys}) == len(keys) and not any(key in made for key in keys for made in self.made)
        if is_given:
            self.changes.given[keys[-1]] = keys
        return is_given


# The parts of a cut exist before the iterations, too, so `are_given` would also fit. `are_cut` comes first: a loop over
# the whole reads better than one over a list of all parts. The other rules exclude one another.
_RULES: tuple[Callable[[_Variables, Sequence[object]], bool], ...] = (
    _Variables.are_own,
    _Variables.are_the_same,
    _Variables.are_carried,
    _Variables.are_cut,
    _Variables.are_given,
)


class IterationText(Canonical):
    """The text of the statements for one entry. The entry is written as `item`, and numbers in brackets are left out.
    `others` are other lists of which it uses the entry with the same number."""

    def __init__(self, module: Module, iterations: Iterations, lists: Mapping[Path, int], number: int) -> None:
        super().__init__(module, [], anonymous=True)
        self.iterations, self.lists, self.entry = iterations, lists, str(iterations.first + number)
        self.others: dict[Path, None] = {}
        self.indices: set[object] = set()  # numbers in brackets
        self.occurrences: list[object] = []  # of variables, in the order of the text, in which all look the same

    def variable(self, key: object) -> str:
        if self.module.stored_name(key) is None:
            self.occurrences.append(key)
        return super().variable(key)

    def head(self, statement: Statement) -> str:
        for expr in expressions(statement):
            numbers: dict[Expr, str] = dict.fromkeys(_indices(expr), INDEX)
            self.indices |= numbers.keys()
            self.renderer.roles |= numbers
        return super().head(statement)

    def name(self, leaf: Expr) -> str:
        path, depth = member_path(self.module, leaf), len(self.iterations.path)
        if path is not None and path[:depth] == self.iterations.path:
            return f"item.{'.'.join(path[depth + 1 :])}"
        if path is not None and path[-1] == self.entry and self.lists.get(path[:-1]) == self.iterations.count:
            self.others[path[:-1]] = None
            return f"item of {'.'.join(path[:-1])}"
        return super().name(leaf)


def _indices(expr: Expr) -> Iterator[Literal]:
    """Yield the numbers in brackets."""
    for part in walk(expr):
        for index in part._index if isinstance(part, Subscript) else ():
            yield from (p for p in walk(index) if isinstance(p, Literal) and type(p._value) is int)


def _is_regular(numbers: Sequence[Number], is_index: bool, texts: Mapping[object, str], changes: Changes) -> bool:
    """Tell whether a number is the same in all iterations, or is in brackets and grows regularly. Growth is noted in
    `changes`."""
    literals = [number.where for number in numbers if isinstance(number.where, Literal)]
    values = [literal._value for literal in literals]
    if all(type(value) is type(values[0]) and value == values[0] for value in values):
        return all(texts.get(literal) == texts.get(literals[0]) for literal in literals)
    start, after, *_ = (value if isinstance(value, int) else 0 for value in values)
    step = after - start
    if not is_index or any(literal in texts for literal in literals):
        return False
    changes.growing[literals[-1]] = (start, step)
    return values == [start + step * i for i in range(len(values))]


def made_in(group: Sequence[Statement]) -> set[object]:
    """Return the variables that an iteration writes."""
    return {key for statement in group for key in assigned(statement)}


def _are_private(iterations: Iterations) -> bool:
    """Tell whether only an iteration itself and the next one read its results."""
    maker = {key: i for i, group in enumerate(iterations.groups[:-1]) for key in made_in(group)}
    return all(
        i in (maker.get(key, i), maker.get(key, i) + 1)
        for i, group in enumerate(iterations.groups)
        for statement in group
        for key in variables_read(statement)
    )


def is_read_first(group: Sequence[Statement], old: object, new: object) -> bool:
    """Tell whether an iteration no longer reads `old` once it has made `new`."""
    first = next(position for position, statement in enumerate(group) if new in assigned(statement))
    reading = (any(key is old for key in variables_read(statement)) for statement in group)
    last = max(position for position, is_read in enumerate(reading) if is_read)
    return last < first or (last == first and isinstance(group[first], Assign))


def _cut(before: Sequence[Statement], keys: Sequence[object]) -> Cut | None:
    for statement in before:
        targets = [variable(target) for target in statement.targets] if isinstance(statement, Assign) else []
        if isinstance(statement, Assign) and keys[0] in targets and _cuts(statement.expr):
            first = targets.index(keys[0])
            return Cut(keys[-1], statement, first) if targets[first : first + len(keys)] == [*keys] else None
    return None


def _cuts(expr: Expr) -> bool:
    """Tell whether an expression cuts a tensor into parts: `x.chunk(4, 1)`."""
    function = bare(expr._function) if isinstance(expr, Call) else None
    return isinstance(function, Attribute) and function._name in ("chunk", "split", "unbind", "tensor_split")


def _collect(iterations: Iterations, results: Sequence[Sequence[object]], changes: Changes) -> bool:
    """Find the lists into which results go that are read after the iterations. Only the last iteration's result may be
    read otherwise. Return False if another result goes elsewhere than into a list of tensors."""
    used = Counter(key for statement in iterations.after for key in variables_read(statement))
    displays = [display for statement in iterations.after for display in _joined(statement)]
    place = {variable(item): (display, i) for display in displays for i, item in enumerate(display._items)}
    found: dict[Display, dict[int, Sequence[object]]] = {}
    for keys in results:
        if not any(used[key] for key in keys[:-1]):
            continue
        display, first = place.get(keys[0], (None, 0))
        if display is None or any(used[key] != 1 for key in keys[:-1]):
            return False
        found.setdefault(display, {})[first] = keys
    for display, by_place in found.items():
        first, width = min(by_place), len(by_place)
        turns = [key for turn in zip(*(by_place[at] for at in sorted(by_place)), strict=True) for key in turn]
        if [variable(item) for item in display._items[first : first + len(turns)]] != turns:
            return False
        changes.collected.append(Collected(turns[-width:], display, first))
    return True


def _joined(statement: Statement) -> Iterator[Display]:
    """Yield the lists of tensors that a statement joins or returns."""
    for expr in expressions(statement):
        if isinstance(statement, Return) and isinstance(expr, Display):
            yield expr
        for part in walk(expr):
            function = bare(part._function) if isinstance(part, Call) else None
            if isinstance(part, Call) and isinstance(function, Attribute) and function._name in ("cat", "stack"):
                base, items = bare(function._base), bare(part._args[0]) if part._args else None
                if isinstance(base, Name) and base._name == "torch" and isinstance(items, Display):
                    yield items


def with_all_bounds(iterations: Iterations) -> Iterations:
    """Return the iterations with both bounds of slices that have only one, if the size is known: `x[:, :4]` -> `x[:,
    0:4]`. Then the first slice and the last one look like the others."""
    groups = [[copied(statement, _with_bounds) for statement in group] for group in iterations.groups]
    return replace(iterations, groups=groups)


def _with_bounds(expr: Expr) -> Expr | None:
    key = variable(expr._base) if isinstance(expr, Subscript) else None
    if not isinstance(expr, Subscript) or not isinstance(key, ir.Value) or key.shape is None:
        return None
    if not all(isinstance(index, SliceExpr) for index in expr._index):
        return None  # a number removes an axis, and a list of numbers may add axes
    slices = [index for index in expr._index if isinstance(index, SliceExpr)]
    return Subscript(expr._base, tuple(map(_bounded, slices, key.shape)))


def _bounded(part: SliceExpr, size: object) -> SliceExpr:
    if part._step is not None or (part._start is None) == (part._stop is None):
        return part
    start = Literal(0) if part._start is None else part._start
    stop = Literal(size) if part._stop is None and isinstance(size, int) else part._stop
    return SliceExpr(start, stop, None)
