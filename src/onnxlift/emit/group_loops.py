"""What is done again and again with one entry of a list after the other becomes a loop.

    x = F.relu(self.convs[0](x)); x = F.relu(self.convs[1](x))   ->   for conv in self.convs: x = F.relu(conv(x))

    x = self.layers[0][0](x) + x; x = self.layers[0][1](x) + x   ->   for attn, mlp in self.layers:
    x = self.layers[1][0](x) + x; x = self.layers[1][1](x) + x            x = attn(x) + x; x = mlp(x) + x

Applies to a list of modules, or of lists of one length, if the statements from the first use of an entry up to that of
the next one are the same each time, but for the entry and for values of the round before: what reads the result of one
round in the next must read the same result in every round. Numbers that another instance of the class may have
otherwise are the same if they are one argument. All else that is read is the same in all rounds, and nobody
but the next round reads what a round makes, but for the last one. Not if a round still needs a value of the one before
when it has made the value that takes its place. The first entry and the last one may be left out: a sum over all begins
with the first, and what the last one leaves for the next may be gone. Lists within lists come first.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..code.expr import Expr, Local, Member, Ref, variable, walk
from ..code.statements import (
    Assign,
    Block,
    Branch,
    ForLoop,
    Return,
    Statement,
    WhileLoop,
    With,
    blocks,
    expressions,
    walk_statements,
)
from ..code.substitute import substitute_in
from ..tree.scopes import Path
from .canonical import Canonical
from .loops import SHORTEST, SHORTEST_PART, Container, singular
from .module import Module, Stored, is_list
from .number_groups import place_of

Words = Callable[[object], str]
"""What a variable that holds a member of a module is called."""


def roll_groups(module: Module, words: Words, arguments: Mapping[object, str]) -> None:
    """Roll up what the module's forward does with the entries of its lists. `arguments` has the places of numbers that
    differ between the instances of its class, and what stands there."""
    lists = _lists(module)
    # Lists within lists first, but the modules of an entry are to be told apart, if there is a loop over the entries.
    for path, width in sorted(lists.items(), key=lambda item: (lists.get(item[0][:-1], 0) > 0, -len(item[0]))):
        for rounds in _rounds(module, path, width):
            carried = _carried(module, rounds, arguments)
            if carried is not None:
                end = rounds.start + len(rounds.groups) * rounds.length
                module.body.statements[rounds.start : end] = _loop(module, rounds, carried, words)
                break


def _lists(module: Module) -> dict[Path, int]:
    """The lists of modules, and those of lists of one length with that length; the others have 0."""
    names: dict[Path, set[str]] = {}
    for path in module.members:
        for depth in range(1, len(path)):
            names.setdefault(path[:depth], set()).add(path[depth])
    found: dict[Path, int] = {}
    for path, entries in names.items():
        inner = [names.get((*path, entry), set()) for entry in entries]
        is_regular = all(part == inner[0] and is_list(part) for part in inner)
        members = [module.members.get((*path, entry)) for entry in entries]
        is_flat = not any(inner) and not any(isinstance(member, Stored) for member in members)
        if len(entries) > 1 and is_list(entries) and (is_flat or is_regular):
            found[path] = len(inner[0])
    return found


@dataclass
class _Rounds:
    """Groups of `length` statements, from `start` on, for entries of the list at `path`: of `count` entries those from
    `first` on, each a list of `width`, or a module if that is 0."""

    path: Path
    width: int
    count: int
    first: int
    start: int
    length: int
    groups: list[list[Statement]]


def _rounds(module: Module, path: Path, width: int) -> Iterator[_Rounds]:
    """The statements for most entries of a list, if these take equally many."""
    starts: dict[int, int] = {}
    statements = module.body.statements
    used = [_entries(module, path, width, statement) for statement in statements]
    for position, entries in enumerate(used):
        for entry in entries:
            starts.setdefault(entry, position)
    count = len(starts)
    if [*starts] != [*range(count)] or count < SHORTEST:
        return
    gaps = [after - before for before, after in pairwise(starts.values())]
    length, _ = Counter(gaps).most_common(1)[0]
    regular = [entry for entry, gap in enumerate(gaps) if gap == length]
    first, last = regular[0], regular[-1] + 1
    for begin, end in ((first, last), (first + 1, last), (first, last - 1), (first + 1, last - 1)):
        size = end - begin + 1
        groups = [statements[starts[entry] : starts[entry] + length] for entry in range(begin, end + 1)]
        if size < (SHORTEST if size == count else SHORTEST_PART) or length < 1 + (width == 0):
            continue
        if any(gap != length for gap in gaps[begin:end]) or len(groups[-1]) < length or _ends(groups[-1]):
            continue
        places = range(starts[begin], starts[end] + length)
        if all(used[place] <= {begin + (place - places.start) // length} for place in places):
            yield _Rounds(path, width, count, begin, places.start, length, groups)


def _ends(group: Sequence[Statement]) -> bool:
    return any(isinstance(statement, Return) for statement in group)


def _entries(module: Module, path: Path, width: int, statement: Statement) -> set[int]:
    """The entries of a list whose members a statement uses; -1 stands for what lies in an entry of such an entry, and
    for the list itself."""
    names = (_member_path(module, part) for part in _parts(statement))
    used = [name for name in names if name is not None and name[: len(path)] == path]
    depth = len(path) + (2 if width else 1)
    return {int(name[len(path)]) if len(name) == depth else -1 for name in used}


def _member_path(module: Module, part: Expr) -> Path | None:
    return module.name_of(part._target) if isinstance(part, Member) else None


def _parts(statement: Statement) -> Iterator[Expr]:
    """All expressions in a statement and in the blocks under it, the targets of assignments left out."""
    for inner in walk_statements(Block([statement])):
        for expr in expressions(inner):
            yield from walk(expr)


def _assigned(statement: Statement) -> Iterator[object]:
    for inner in walk_statements(Block([statement])):
        if isinstance(inner, Assign | ForLoop):
            yield from (variable(target) for target in inner.targets if target is not None)


class _Round(Canonical):
    """The text of the statements for one entry, in which that is `item`."""

    def __init__(self, module: Module, list_path: Path) -> None:
        super().__init__(module, [])
        self.list_path = list_path

    def name(self, leaf: Expr) -> str:
        path, depth = _member_path(self.module, leaf), len(self.list_path)
        if path is None or path[:depth] != self.list_path:
            return super().name(leaf)
        return f"item.{'.'.join(path[depth + 1 :])}"


def _carried(
    module: Module, rounds: _Rounds, arguments: Mapping[object, str]
) -> dict[object, tuple[object, object]] | None:
    """Value of the round before that the last round reads -> the value that the last round makes in its place, and what
    the first round has there; None if the rounds are not the same."""
    texts: list[tuple[list[str], list[object]]] = []
    slots: list[list[object]] = []
    for group in rounds.groups:
        canonical = _Round(module, rounds.path)
        lines = [*canonical.lines(Block(group), "")]
        texts.append((lines, [(type(n.value), n.value, arguments.get(place_of(n))) for n in canonical.numbers]))
        slots.append([*canonical.variables])
    if any(text != texts[0] for text in texts) or not _are_private(module, rounds):
        return None
    made = [
        {key: place for place, key in enumerate(keys) if key in _made(group)}
        for keys, group in zip(slots, rounds.groups, strict=True)
    ]
    carried: dict[object, tuple[object, object]] = {}
    for keys in zip(*slots, strict=True):
        if keys[-1] in made[-1] or all(key is keys[0] for key in keys):
            continue
        sources = {made[i].get(key) for i, key in enumerate(keys[1:])}
        if len(sources) != 1 or None in sources:
            return None
        (source,) = sources
        assert source is not None
        if not _is_read_first(rounds.groups[-1], keys[-1], slots[-1][source]):
            return None
        carried[keys[-1]] = (slots[-1][source], keys[0])
    return carried or None


def _made(group: Sequence[Statement]) -> set[object]:
    return {key for statement in group for key in _assigned(statement)}


def _are_private(module: Module, rounds: _Rounds) -> bool:
    """Whether nobody reads what a round makes but itself and the next one; whoever reads what the last one makes."""
    maker = {key: i for i, group in enumerate(rounds.groups[:-1]) for key in _made(group)}
    for position, statement in enumerate(module.body.statements):
        reader = (position - rounds.start) // rounds.length
        for part in _parts(statement):
            made_in = maker.get(variable(part)) if isinstance(part, Ref | Local) else None
            if made_in is not None and reader not in (made_in, made_in + 1):
                return False
    return True


def _is_read_first(group: Sequence[Statement], old: object, new: object) -> bool:
    """Whether a round reads `old` no more once it has made `new`."""
    first = next(position for position, statement in enumerate(group) if new in _assigned(statement))
    reads = [
        position
        for position, statement in enumerate(group)
        if any(isinstance(part, Ref | Local) and variable(part) is old for part in _parts(statement))
    ]
    return max(reads) < first or (max(reads) == first and isinstance(group[first], Assign))


def _loop(
    module: Module, rounds: _Rounds, carried: Mapping[object, tuple[object, object]], words: Words
) -> list[Statement]:
    """What begins with the values of the first round, and the loop."""
    depth = len(rounds.path)
    items: dict[str, Local] = {}

    def new(expr: Expr) -> Expr | None:
        if isinstance(expr, Ref) and expr._key in carried:
            return Ref(carried[expr._key][0])
        path = _member_path(module, expr)
        if path is None or path[:depth] != rounds.path:
            return None
        member = module.members.get((*rounds.path, str(rounds.first), *path[depth + 1 :]))
        word = "layers" if member is None else words(member) if rounds.width else singular(rounds.path[-1])
        return items.setdefault(path[-1] if rounds.width else "", Local(word, member))

    body = Block([_copied(statement, new) for statement in rounds.groups[-1]])
    for statement, *counterparts in zip(body.statements, *rounds.groups, strict=True):
        statement.origin = [name for each in counterparts for name in each.origin]
    body.statements = [s for s in body.statements if not _is_idle(s)]
    container = Container(rounds.path)
    module.name(container, rounds.path)
    modules: Expr = Member(container)
    end = rounds.first + len(rounds.groups)
    if len(rounds.groups) < rounds.count:
        modules = modules[rounds.first or None : end if end < rounds.count else None]
    targets = [items.get(str(place)) for place in range(rounds.width)] if rounds.width else [items[""]]
    origin = [name for group in rounds.groups for statement in group for name in statement.origin]
    begin = [Assign([Ref(result)], Ref(first), origin=[]) for result, first in carried.values()]
    return [*begin, ForLoop([*targets], modules, body, origin=origin)]


def _is_idle(statement: Statement) -> bool:
    """`x = x`"""
    if not isinstance(statement, Assign) or len(statement.targets) != 1:
        return False
    key = variable(statement.targets[0])
    return key is not None and isinstance(statement.expr, Ref) and statement.expr._key is key


def _copied(statement: Statement, new: Callable[[Expr], Expr | None]) -> Statement:
    """A statement with other expressions in the place of some, also in the blocks under it."""
    copied = copy.copy(statement)
    substitute_in(copied, new)
    if isinstance(copied, ForLoop | WhileLoop | With):
        copied.body = Block([_copied(inner, new) for inner in copied.body.statements])
    elif isinstance(copied, Branch):
        copied.then, copied.otherwise = (Block([_copied(s, new) for s in b.statements]) for b in blocks(statement))
    return copied
