"""Write calls of numbered modules, or of one module, in a row as a loop.

    x = self.layer[0](x, mask); x = self.layer[1](x, mask)   ->   for layer in self.layer: x = layer(x, mask)
    x, bias = self.layer[0](x, bias); ...                    ->   for layer in self.layer: x, bias = layer(x, bias)
    x = self.layer[0](x); x = self.layer[1](x, mask); ...    ->   for layer in self.layer[1:]: x = layer(x, mask)
    x = self.block(x); x = self.block(x); x = self.block(x)  ->   for _ in range(3): x = self.block(x)
    x = self.layer[0](x, near); x = self.layer[1](x, far)    ->   for i, layer in enumerate(self.layer):
    x = self.layer[2](x, near); x = self.layer[3](x, far)             if i % 2 == 0: x = layer(x, near)
                                                                      else: x = layer(x, far)

Applies to members of a list that follow one another and are called once each, in order. Each call must take results of
the one before, always the same results at the same places, and everything else must be the same. The members need not
be of one class. No other statement may read the values that are passed on: a value that is needed later ends the loop,
and another loop begins after it. A part of a list is worth a loop from three members on, and so are calls of one
module. If a loop over a list is there several times, there is a loop around it.

The other arguments of the members of a whole list may alternate between two choices, if one of the choices comes after
every so many members. The windows of attention do so in many language models. Statements between such calls are moved
before the loop. They do not depend on the calls, since only the next call reads a call's results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from onnxlift.lifting.code.expr import Binary, Call, Expr, Literal, Local, Member, Ref, builtin, variable
from onnxlift.lifting.code.identifiers import identifier
from onnxlift.lifting.code.reads import values_read
from onnxlift.lifting.code.statements import (
    Assign,
    Block,
    Branch,
    ForLoop,
    Statement,
    Target,
)
from onnxlift.lifting.modules.module import Module, is_list
from onnxlift.lifting.modules.signatures.prune import called_module
from onnxlift.lifting.tree.paths import Path

SHORTEST, SHORTEST_PART = 2, 3
MOST_BETWEEN = 32  # statements between two calls of a loop
LONGEST_PERIOD = 64  # members after which the same arguments come again


class Container:
    """A list of modules as a whole (`self.layer`), the target of a `Member`."""

    def __init__(self, path: Path) -> None:
        self.path = path


@dataclass(eq=False)
class CallRun:
    """Calls of the members of a list that follow one another, or of one module. These are `modules`; all of them may be
    called several times, one time after the other. `carried` maps the positions of arguments to the results of the call
    before that they take; it is None until there is a second call."""

    modules: list[Module]
    calls: list[Assign]
    carried: dict[int, int] | None = None

    def given(self, call: Assign) -> tuple[object, ...]:
        """Return the variables that a call takes besides the results of the one before."""
        return tuple(key for place, key in enumerate(_arguments(call)) if place not in (self.carried or {}))

    @property
    def times(self) -> int:
        """Return how many times all modules are called."""
        return len(self.calls) // len(self.modules)

    def is_long(self, count: int) -> bool:
        """Tell whether the run is worth a loop, if there are `count` modules in their list."""
        if len(self.modules) == 1 or self.times > 1:
            return len(self.calls) >= SHORTEST_PART
        return len(self.calls) >= (SHORTEST if len(self.calls) == count else SHORTEST_PART)


def roll_loops(module: Module) -> int:
    """Roll up the runs of calls in the module's forward; return the number of loops."""
    loops = 0
    entries: dict[Path, set[str]] = {}  # of each container, those that are containers themselves included
    for path in module.members:
        for depth in range(1, len(path)):
            entries.setdefault(path[:depth], set()).add(path[depth])
    reads = Counter(values_read(module.body))
    lists = {path: len(names) for path, names in entries.items() if is_list(names)}
    kept: list[Statement] = []
    statements = module.body.statements
    position = 0
    while position < len(statements):
        alternation = _alternation(module, lists, statements, position, reads)
        if alternation is not None:
            kept.extend(alternation.rolled(module))
            loops += 1
            position += len(alternation.between) + len(alternation.run.calls)
            continue
        run = _run(module, lists, statements, position, reads)
        count = lists.get(module.name_of(run.modules[0])[:-1], 0) if run is not None else 0
        if run is not None and run.is_long(count):
            kept.extend(_rolled(module, run, count))
            loops += 1
        else:
            kept.extend(statements[position : position + (len(run.calls) if run is not None else 1)])
        position += len(run.calls) if run is not None else 1
    module.body.statements = kept
    return loops


def _run(
    module: Module, lists: Mapping[Path, int], statements: list[Statement], start: int, reads: Counter[object]
) -> CallRun | None:
    """Return the longest run of calls from `start` on; None if the statement there calls no module that could be in a
    run."""
    run: CallRun | None = None
    for index in range(start, len(statements)):
        statement = statements[index]
        child = called_module(statement.expr) if isinstance(statement, Assign) else None
        if child is None or not isinstance(statement, Assign):
            break
        path = module.name_of(child)
        if run is None:
            if path[:-1] not in lists and child.calls == 1:
                return None
            run = CallRun([child], [statement])
            continue
        first, is_first_time = module.name_of(run.modules[0]), len(run.calls) == len(run.modules)
        is_next = path[:-1] in lists and path[:-1] == first[:-1] and int(path[-1]) == int(first[-1]) + len(run.modules)
        is_again = child is run.modules[len(run.calls) % len(run.modules)]
        if not (is_again or (is_next and is_first_time)) or not _continues(run, statement, reads):
            break
        if run.given(statement) != run.given(run.calls[0]):
            break
        run.calls.append(statement)
        if not is_again:
            run.modules.append(child)
    if run is not None:
        del run.calls[run.times * len(run.modules) :]
    return run


def _continues(run: CallRun, statement: Assign, reads: Counter[object]) -> bool:
    """Tell whether a call takes results of the last call of the run, and no other statement reads these."""
    before, mine, theirs = run.calls[-1], _arguments(statement), _arguments(run.calls[-1])
    if len(mine) != len(theirs) or len(statement.targets) != len(before.targets):
        return False
    results = {variable(target): place for place, target in enumerate(before.targets) if target is not None}
    carried = {place: results[key] for place, key in enumerate(mine) if key in results}
    if not carried or run.carried not in (None, carried) or any(reads[key] != mine.count(key) for key in results):
        return False
    starts: dict[int, object] = {}  # result -> the one argument of the call before whose place it takes
    if any(starts.setdefault(result, theirs[place]) is not theirs[place] for place, result in carried.items()):
        return False
    run.carried = carried
    return None not in (*run.given(statement), *run.given(before))


def _arguments(statement: Assign) -> list[object]:
    """Return the variables that are passed; None for an argument that is no plain variable."""
    assert isinstance(statement.expr, Call)
    return [variable(argument) for argument in statement.expr._args]


def _rolled(module: Module, run: CallRun, count: int) -> list[Statement]:
    begin, results = _start(run)
    origin = [name for statement in run.calls for name in statement.origin]
    first = run.calls[0]
    if len(run.modules) > 1:
        item, modules = _members(module, run, count)
        body = Block(
            [ForLoop([item], modules, Block([_again(run, first, item, results, origin)]), origin=list(origin))]
        )
    else:
        assert isinstance(first.expr, Call)
        body = Block([_again(run, first, first.expr._function, results, origin)])
    if run.times > 1:
        body = Block([ForLoop([], builtin("range")(run.times), body, origin=list(origin))])
    return [*begin, *body.statements]


def _start(run: CallRun) -> tuple[list[Statement], list[Target]]:
    """Return the statements that give their first values to the variables that go through all calls, and the targets of
    all calls."""
    first, before, last = run.calls[0], run.calls[-2], run.calls[-1]
    assert isinstance(first.expr, Call) and run.carried is not None
    results = list(last.targets)
    starts: dict[int, Expr] = {}
    for position, place in run.carried.items():
        if results[place] is None:  # nobody reads the last one, but the calls before pass it on
            results[place] = before.targets[place]
        starts[place] = first.expr._args[position]
    return [Assign([results[place]], starts[place], origin=[]) for place in sorted(starts)], results


def _again(run: CallRun, call: Assign, function: Expr, results: list[Target], origin: list[str]) -> Assign:
    """Return a call as it is written in a loop."""
    assert isinstance(call.expr, Call) and run.carried is not None
    arguments = list(call.expr._args)
    for position, place in run.carried.items():
        arguments[position] = Ref(variable(results[place]))
    return Assign(list(results), Call(function, arguments, {}), origin=origin)


@dataclass(eq=False)
class Alternation:
    """Calls of all members of a list. The member at the place `rest`, and every `period`-th member from there on, take
    other arguments than the rest."""

    run: CallRun
    between: list[Assign]
    period: int
    rest: int

    def rolled(self, module: Module) -> list[Statement]:
        begin, results = _start(self.run)
        item, modules = _members(module, self.run, len(self.run.modules))
        i, chosen = Local("i"), self.run.calls[self.rest :: self.period]
        others = [call for place, call in enumerate(self.run.calls) if place % self.period != self.rest]
        then, otherwise = (
            Block([_again(self.run, calls[0], item, results, [name for call in calls for name in call.origin])])
            for calls in (chosen, others)
        )
        remainder = Binary("==", Binary("%", i, Literal(self.period)), Literal(self.rest))
        origin = [name for call in self.run.calls for name in call.origin]
        body = Block([Branch(remainder, then, otherwise, origin=origin)])
        return [*self.between, *begin, ForLoop([i, item], builtin("enumerate")(modules), body, origin=list(origin))]


def _alternation(
    module: Module, lists: Mapping[Path, int], statements: list[Statement], start: int, reads: Counter[object]
) -> Alternation | None:
    """Return the calls of the members of a list from `start` on, if their arguments alternate; otherwise None."""
    run: CallRun | None = None
    between: list[Assign] = []
    waiting: list[Assign] = []
    path: Path = ()
    for index in range(start, len(statements)):
        statement = statements[index]
        if not isinstance(statement, Assign) or len(waiting) > MOST_BETWEEN:
            return None
        child = called_module(statement.expr)
        if run is None:
            path = module.name_of(child)[:-1] if child is not None else ()
            if child is None or path not in lists or module.name_of(child)[-1] != "0" or child.calls != 1:
                return None
            run = CallRun([child], [statement])
        elif child is None or module.name_of(child) != (*path, str(len(run.modules))):
            waiting.append(statement)
        elif child.calls != 1 or not _continues(run, statement, reads):
            return None
        else:
            between += waiting
            waiting = []
            run.modules.append(child)
            run.calls.append(statement)
        if len(run.modules) == lists[path]:
            break
    if run is None or len(run.modules) != lists[path]:
        return None
    found = _remainder([run.given(call) for call in run.calls])
    return Alternation(run, between, *found) if found is not None else None


def _remainder(given: list[tuple[object, ...]]) -> tuple[int, int] | None:
    """Return the period after which one of two choices comes again, and the place where it comes first: (3, 2) for a,
    a, b, a, a, b. Return None if there is none."""
    choices = list(dict.fromkeys(given))
    if len(choices) != 2:
        return None
    for period in range(2, min(len(given) // 2, LONGEST_PERIOD) + 1):
        for choice in choices:
            places = [place for place, each in enumerate(given) if each == choice]
            if places[0] < period and places == list(range(places[0], len(given), period)):
                return period, places[0]
    return None


def _members(module: Module, run: CallRun, count: int) -> tuple[Local, Expr]:
    """Return the variable of a loop over the modules of a run, and the expression that it goes over."""
    *path, number = module.name_of(run.modules[0])
    container = Container(tuple(path))
    module.name(container, container.path)
    start, end = int(number), int(number) + len(run.modules)
    modules: Expr = Member(container)
    if len(run.modules) < count:
        modules = modules[start or None : end if end < count else None]
    return Local(singular(path[-1]), run.modules[0]), modules


def singular(word: str) -> str:
    """Return the word for one of several: `layers` -> layer."""
    word = word.rstrip("0123456789") if len(word) > 2 else word
    if len(word) < 2:
        return "block"
    return identifier(word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 2 else word)
