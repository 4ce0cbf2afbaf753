"""Calls of numbered modules in a row become a loop.

    x = self.layer[0](x, mask); x = self.layer[1](x, mask)   ->   for layer in self.layer: x = layer(x, mask)

Applies to all members of a list, called once each in order, when each call passes on the result of the one before and
everything else is the same. They need not be of one class.
"""

from __future__ import annotations

from ..code.expr import Call, Local, Member, Ref, variable, walk
from ..code.statements import Assign, Block, ForLoop, Statement, expressions, walk_statements
from ..tree.names import identifier
from ..tree.scopes import Path
from .module import Module
from .prune import called_module

SHORTEST = 2


class Container:
    """A list of modules as a whole (`self.layer`), the target of a `Member`."""

    def __init__(self, path: Path) -> None:
        self.path = path


def roll_loops(module: Module) -> None:
    """Roll up the runs of calls in the module's forward."""
    entries: dict[Path, set[str]] = {}  # of each container, those that are containers themselves included
    for path in module.members:
        for depth in range(1, len(path)):
            entries.setdefault(path[:depth], set()).add(path[depth])
    kept: list[Statement] = []
    statements = module.body.statements
    position = 0
    while position < len(statements):
        run = _run(module, statements, position)
        if len(run) >= SHORTEST and len(run) == len(entries[_path(module, run[0])[:-1]]) and _is_private(module, run):
            kept.extend(_rolled(module, run))
        else:
            run = statements[position : position + 1]
            kept.extend(run)
        position += len(run)
    module.body.statements = kept


def _path(module: Module, statement: Statement) -> Path:
    assert isinstance(statement, Assign)
    return module.name_of(called_module(statement.expr))


def _run(module: Module, statements: list[Statement], start: int) -> list[Statement]:
    """The longest run of calls from `start` on, of members 0, 1, 2, ... of one container."""
    run: list[Statement] = []
    for index in range(start, len(statements)):
        statement = statements[index]
        child = called_module(statement.expr) if isinstance(statement, Assign) else None
        if child is None or not isinstance(statement, Assign) or not _is_single(statement):
            break
        path = module.name_of(child)
        if len(path) < 2 or path[-1] != str(len(run)):
            break
        if run and (path[:-1] != _path(module, run[0])[:-1] or not _continues(run, statement)):
            break
        run.append(statement)
    return run


def _is_single(statement: Assign) -> bool:
    return len(statement.targets) == 1 and isinstance(statement.targets[0], Ref)


def _continues(run: list[Statement], statement: Assign) -> bool:
    first, last = run[0], run[-1]
    assert isinstance(first, Assign) and isinstance(last, Assign) and isinstance(last.targets[0], Ref)
    mine, before = _arguments(statement), _arguments(last)
    if len(mine) != len(before) or not mine or mine[0] is not last.targets[0]._key:
        return False
    return all(a is b and a is not None for a, b in zip(mine[1:], before[1:], strict=True))


def _arguments(statement: Assign) -> list[object]:
    """The variables that are passed; None for what is no plain variable."""
    assert isinstance(statement.expr, Call)
    return [variable(argument) for argument in statement.expr._args]


def _is_private(module: Module, run: list[Statement]) -> bool:
    """Whether the results between are read by the next call only."""
    between = {s.targets[0]._key for s in run[:-1] if isinstance(s, Assign) and isinstance(s.targets[0], Ref)}
    inside = {id(s) for s in run}
    for statement in walk_statements(module.body):
        if id(statement) in inside:
            continue
        if any(isinstance(p, Ref) and p._key in between for e in expressions(statement) for p in walk(e)):
            return False
    return all(between.isdisjoint(_arguments(s)[1:]) for s in run if isinstance(s, Assign))


def _rolled(module: Module, run: list[Statement]) -> list[Statement]:
    first, last = run[0], run[-1]
    assert isinstance(first, Assign) and isinstance(last, Assign) and isinstance(first.expr, Call)
    result = last.targets[0]
    assert isinstance(result, Ref)
    path = _path(module, first)[:-1]
    container = Container(path)
    module.name(container, path)
    item = Local(_singular(path[-1]), called_module(first.expr))
    start, *others = first.expr._args
    origin = [name for statement in run for name in statement.origin]
    body = Assign([Ref(result._key)], Call(item, [Ref(result._key), *others], {}), origin=origin)
    loop = ForLoop([item], Member(container), Block([body]), origin=list(origin))
    return [Assign([Ref(result._key)], start, origin=[]), loop]


def _singular(word: str) -> str:
    word = word.rstrip("0123456789") if len(word) > 2 else word
    if len(word) < 2:
        return "block"
    return identifier(word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word)
