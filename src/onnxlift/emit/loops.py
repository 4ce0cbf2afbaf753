"""Calls of numbered modules, or of one module, in a row become a loop.

    x = self.layer[0](x, mask); x = self.layer[1](x, mask)   ->   for layer in self.layer: x = layer(x, mask)
    x, bias = self.layer[0](x, bias); ...                    ->   for layer in self.layer: x, bias = layer(x, bias)
    x = self.layer[0](x); x = self.layer[1](x, mask); ...    ->   for layer in self.layer[1:]: x = layer(x, mask)
    x = self.block(x); x = self.block(x); x = self.block(x)  ->   for _ in range(3): x = self.block(x)

Applies to members of a list that follow one another, called once each in order, when each call takes results of the one
before, always the same ones in the same places, and everything else is the same. They need not be of one class. Nobody
else may read what is passed on: a value that is needed later ends the loop, and another one begins after it. A part of
a list is worth a loop from three members on, and so are the calls of one module. If a loop over a list is there several
times, there is a loop around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ..code.expr import Call, Expr, Local, Member, Ref, builtin, variable, walk
from ..code.statements import Assign, Block, ForLoop, Statement, expressions, walk_statements
from ..tree.names import identifier
from ..tree.scopes import Path
from .module import Module, is_list
from .prune import called_module

SHORTEST, SHORTEST_PART = 2, 3


class Container:
    """A list of modules as a whole (`self.layer`), the target of a `Member`."""

    def __init__(self, path: Path) -> None:
        self.path = path


@dataclass(eq=False)
class Run:
    """Calls of modules: of the members of a list that follow one another, or of one module. These are `modules`; all of
    them may be called several times, one time after the other. `carried` tells which argument (by position) is which
    result of the call before; None until there is a second call."""

    modules: list[Module]
    calls: list[Assign]
    carried: dict[int, int] | None = None

    @property
    def times(self) -> int:
        """How often all modules are called."""
        return len(self.calls) // len(self.modules)

    def is_long(self, count: int) -> bool:
        """Whether it is worth a loop, if there are `count` modules in their list."""
        if len(self.modules) == 1 or self.times > 1:
            return len(self.calls) >= SHORTEST_PART
        return len(self.calls) >= (SHORTEST if len(self.calls) == count else SHORTEST_PART)


def roll_loops(module: Module) -> None:
    """Roll up the runs of calls in the module's forward."""
    entries: dict[Path, set[str]] = {}  # of each container, those that are containers themselves included
    for path in module.members:
        for depth in range(1, len(path)):
            entries.setdefault(path[:depth], set()).add(path[depth])
    reads = Counter(
        variable(part)
        for statement in walk_statements(module.body)
        for expr in expressions(statement)
        for part in walk(expr)
        if isinstance(part, Ref)
    )
    lists = {path: len(names) for path, names in entries.items() if is_list(names)}
    kept: list[Statement] = []
    statements = module.body.statements
    position = 0
    while position < len(statements):
        run = _run(module, lists, statements, position, reads)
        count = lists.get(module.name_of(run.modules[0])[:-1], 0) if run is not None else 0
        if run is not None and run.is_long(count):
            kept.extend(_rolled(module, run, count))
        else:
            kept.extend(statements[position : position + (len(run.calls) if run is not None else 1)])
        position += len(run.calls) if run is not None else 1
    module.body.statements = kept


def _run(
    module: Module, lists: Mapping[Path, int], statements: list[Statement], start: int, reads: Counter[object]
) -> Run | None:
    """The longest run of calls from `start` on; None if no module is called there that could be in one."""
    run: Run | None = None
    for index in range(start, len(statements)):
        statement = statements[index]
        child = called_module(statement.expr) if isinstance(statement, Assign) else None
        if child is None or not isinstance(statement, Assign):
            break
        path = module.name_of(child)
        if run is None:
            if path[:-1] not in lists and child.calls == 1:
                return None
            run = Run([child], [statement])
            continue
        first, is_first_time = module.name_of(run.modules[0]), len(run.calls) == len(run.modules)
        is_next = path[:-1] in lists and path[:-1] == first[:-1] and int(path[-1]) == int(first[-1]) + len(run.modules)
        is_again = child is run.modules[len(run.calls) % len(run.modules)]
        if not (is_again or (is_next and is_first_time)) or not _continues(run, statement, reads):
            break
        run.calls.append(statement)
        if not is_again:
            run.modules.append(child)
    if run is not None:
        del run.calls[run.times * len(run.modules) :]
    return run


def _continues(run: Run, statement: Assign, reads: Counter[object]) -> bool:
    """Whether a call goes on with what the last one of the run gave, and nobody else does."""
    before, mine, theirs = run.calls[-1], _arguments(statement), _arguments(run.calls[-1])
    if len(mine) != len(theirs) or len(statement.targets) != len(before.targets):
        return False
    results = {variable(target): place for place, target in enumerate(before.targets) if target is not None}
    carried = {place: results[key] for place, key in enumerate(mine) if key in results}
    if not carried or run.carried not in (None, carried) or any(reads[key] != mine.count(key) for key in results):
        return False
    others = [pair for place, pair in enumerate(zip(mine, theirs, strict=True)) if place not in carried]
    starts: dict[int, object] = {}  # what one result takes the place of must be one thing
    if any(starts.setdefault(result, theirs[place]) is not theirs[place] for place, result in carried.items()):
        return False
    if not all(a is b and a is not None for a, b in others):
        return False
    run.carried = carried
    return True


def _arguments(statement: Assign) -> list[object]:
    """The variables that are passed; None for what is no plain variable."""
    assert isinstance(statement.expr, Call)
    return [variable(argument) for argument in statement.expr._args]


def _rolled(module: Module, run: Run, count: int) -> list[Statement]:
    first, before, last = run.calls[0], run.calls[-2], run.calls[-1]
    assert isinstance(first.expr, Call) and run.carried is not None
    origin = [name for statement in run.calls for name in statement.origin]
    results = list(last.targets)
    starts: dict[int, Expr] = {}
    arguments = list(first.expr._args)
    for position, place in run.carried.items():
        if results[place] is None:  # what nobody reads in the end is passed on all the same
            results[place] = before.targets[place]
        starts[place] = arguments[position]
        arguments[position] = Ref(variable(results[place]))
    body = Block([Assign(list(results), Call(first.expr._function, arguments, {}), origin=origin)])
    if len(run.modules) > 1:
        item, modules = _members(module, run, count)
        body.statements = [Assign(list(results), Call(item, arguments, {}), origin=origin)]
        body = Block([ForLoop([item], modules, body, origin=list(origin))])
    if run.times > 1:
        body = Block([ForLoop([], builtin("range")(run.times), body, origin=list(origin))])
    begin = [Assign([results[place]], starts[place], origin=[]) for place in sorted(starts)]
    return [*begin, *body.statements]


def _members(module: Module, run: Run, count: int) -> tuple[Local, Expr]:
    """The variable of a loop over the modules of a run, and what it goes over."""
    *path, number = module.name_of(run.modules[0])
    container = Container(tuple(path))
    module.name(container, container.path)
    start, end = int(number), int(number) + len(run.modules)
    modules: Expr = Member(container)
    if len(run.modules) < count:
        modules = modules[start or None : end if end < count else None]
    return Local(singular(path[-1]), run.modules[0]), modules


def singular(word: str) -> str:
    """`layers` -> layer: what one of several is called."""
    word = word.rstrip("0123456789") if len(word) > 2 else word
    if len(word) < 2:
        return "block"
    return identifier(word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 2 else word)
