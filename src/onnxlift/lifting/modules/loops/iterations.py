"""Find iterations: the statements for one entry of a list of modules after the other.

    a = self.convs[0](x); b = self.convs[1](x); y = a.relu(); z = b.relu(); ...   ->   [a, y], [b, z], ...

A statement belongs to the last entry that it depends on. A statement that depends on none belongs to the iteration that
reads its result, if only one does and every iteration has as many of these: `x[:, 0]` for the first, `x[:, 1]` for the
second. So the order in which an exporter writes the nodes does not matter: all calls first and then all sums is the
same as one after the other. Sound because statements affect each other only by their results, and whatever a statement
reads still comes before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onnxlift.lifting.code.expr import Expr, Local, Member, variable, walk
from onnxlift.lifting.code.reads import parts, variables_read
from onnxlift.lifting.code.statements import Assign, Block, Evaluate, ForLoop, Statement, walk_statements
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.tree.paths import Path

from .loops import SHORTEST, SHORTEST_PART


@dataclass
class Iterations:
    """Groups of statements, equally many for each entry of the list at `path`. The list has `count` entries, and those
    from `first` on have an iteration. Each entry is a list of length `width`, or a module if that is 0. `before` and
    `after` are the statements before the first iteration and after the last one."""

    path: Path
    width: int
    count: int
    first: int
    groups: list[list[Statement]]
    before: list[Statement]
    after: list[Statement]

    @property
    def end(self) -> int:
        """Return the number of the first entry after those that have an iteration."""
        return self.first + len(self.groups)


class Facts:
    """The variables that each statement of a module reads and writes, and the members that it uses."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._known: dict[Statement, tuple[Statement, set[object], set[object], list[Path]]] = {}

    def of(self, statement: Statement) -> tuple[Statement, set[object], set[object], list[Path]]:
        if statement not in self._known:
            names = (member_path(self.module, part) for part in parts(statement))
            paths = [name for name in names if name is not None]
            self._known[statement] = (statement, set(variables_read(statement)), set(assigned(statement)), paths)
        return self._known[statement]


def find_iterations(facts: Facts, path: Path, width: int, lengths: Mapping[Path, int]) -> Iterator[Iterations]:
    """Yield groups of statements for most entries of a list, if these take equally many. Those that leave out the
    fewest entries come first.

    A statement that makes something of one entry for the next may belong to either iteration: both are tried. `lengths`
    are those of the lists of modules. Entries of a list of the same length may go with those of this one.
    """
    others = {other for other, length in lengths.items() if length == lengths.get(path) and other != path}
    orders = [_Order(facts, path, width)]
    if orders[0].groups:
        orders += [_Order(facts, path, width, is_late=True), *([_Order(facts, path, width, others)] if others else [])]
    candidates = [(order, begin, end) for order in orders for begin, end in order.candidates()]
    for order, begin, end in sorted(candidates, key=lambda each: (each[1] - each[2], -each[2])):
        before, groups, after = order.split(begin, end)
        yield Iterations(path, width, len(order.groups), begin, groups, before, after)


@dataclass(eq=False)
class _Line:
    """Statements from a place in `forward` on, the variables that they read and write, and their iteration (None if
    they belong to none). Statements that write the same variable, such as the start of a loop and the loop, are one
    line."""

    place: int
    statements: list[Statement]
    reads: set[object]
    writes: set[object]
    entries: set[int]
    paths: list[Path]
    iteration: int | None = None
    sources: list[_Line] = field(default_factory=list)
    readers: list[_Line] = field(default_factory=list)


class _Order:
    """The statements of a forward by the entries of a list that they depend on. `groups` is empty if they cannot be
    told apart. `length` is the size that most groups have."""

    def __init__(
        self, facts: Facts, path: Path, width: int, others: Collection[Path] = (), *, is_late: bool = False
    ) -> None:
        self.lines: list[_Line] = []
        for place, statements in enumerate(_together(facts)):
            known = [facts.of(statement) for statement in statements]
            own = {key for _, keys, _, _ in known for key in keys}
            written = {key for _, _, keys, _ in known for key in keys}
            paths = [name for _, _, _, names in known for name in names]
            self.lines.append(_Line(place, statements, own, written, _entries(paths, path, width), paths))
        self.groups: list[list[_Line]] = []
        first_use = list(dict.fromkeys(entry for line in self.lines for entry in sorted(line.entries)))
        if first_use != [*range(len(first_use))] or len(first_use) < SHORTEST:
            return
        writer: dict[object, _Line] = {}
        for line in self.lines:
            line.sources = list(dict.fromkeys(w for key in line.reads if (w := writer.get(key)) is not None))
            for source in line.sources:
                source.readers.append(line)
            before = [source.iteration for source in line.sources if source.iteration is not None]
            beside = [int(name[-1]) for name in line.paths if name[:-1] in others]
            line.iteration = max((*line.entries, *before, *beside), default=None)
            writer.update(dict.fromkeys(line.writes, line))
        if is_late:
            self._put_off()
        self.groups = [[] for _ in first_use]
        for line in self.lines[:-1]:  # the last one, which returns, is in no iteration
            if line.iteration is not None:
                self.groups[line.iteration].append(line)
        self._take_what_only_one_iteration_reads()

    @property
    def length(self) -> int:
        sizes = Counter(map(len, self.groups[:-1]))
        return max(sizes, key=lambda size: (sizes[size], size))

    def candidates(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of entries that take equally many statements: the first and the last entry."""
        sizes = [len(group) for group in self.groups]
        regular = [entry for entry, size in enumerate(sizes[:-1]) if size == self.length] if sizes else []
        first, last = (regular[0], regular[-1] + 1) if regular else (0, 0)
        for begin, end in ((first, last), (first + 1, last), (first, last - 1), (first + 1, last - 1)):
            size = end - begin + 1
            if size < (SHORTEST if size == len(sizes) else SHORTEST_PART):
                continue
            groups = [group[: self.length] for group in self.groups[begin : end + 1]]
            is_regular = all(sizes[entry] == self.length for entry in range(begin, end)) and sizes[end] >= self.length
            if is_regular and all(any(line.entries for line in group) for group in groups):
                yield begin, end

    def _put_off(self) -> None:
        """Move lines that only the next iteration's entry needs into the next iteration."""
        moved: set[_Line] = set()
        for line in reversed(self.lines):
            needs = {reader.iteration for reader in line.readers if reader.entries or reader in moved}
            if line.iteration is None or line.entries or needs != {line.iteration + 1}:
                continue
            if all(reader.entries or reader in moved for reader in line.readers):
                line.iteration += 1
                moved.add(line)

    def _take_what_only_one_iteration_reads(self) -> None:
        inside = {line for group in (*self.groups[:-1], self.groups[-1][: self.length]) for line in group}
        own: list[list[_Line]] = [[] for _ in self.groups]
        homes: dict[_Line, int] = {}
        for line in reversed(self.lines):
            if line.iteration is None and line.readers:
                iterations = {reader.iteration if reader in inside else homes.get(reader) for reader in line.readers}
                home = iterations.pop() if len(iterations) == 1 else None
                if home is not None:
                    homes[line] = home
                    own[home].insert(0, line)
        fewest, length = min(map(len, own)), self.length
        for number, lines in enumerate(own):
            missing = max(fewest, length - len(self.groups[number]))
            taken = lines[max(len(lines) - missing, 0) :]
            for line in taken:
                line.iteration = number
            self.groups[number] = sorted([*taken, *self.groups[number]], key=lambda line: line.place)

    def split(self, begin: int, end: int) -> tuple[list[Statement], list[list[Statement]], list[Statement]]:
        """Return the statements before the iterations from `begin` to `end`, the statements of each of these, and the
        statements after."""
        groups = [self.groups[entry][: self.length] for entry in range(begin, end + 1)]
        inside = {line for group in groups for line in group}
        last = max(line.place for group in groups for line in group if line.entries)
        needed = _all_sources([line for group in groups for line in group])
        before: list[Statement] = []
        after: list[Statement] = []
        for line in self.lines:
            if line not in inside:
                is_free = line.place < last and (line.iteration is None or line.iteration < begin)
                (before if is_free or line in needed else after).extend(line.statements)
        return before, [[statement for line in group for statement in line.statements] for group in groups], after


def _together(facts: Facts) -> Iterator[list[Statement]]:
    """Yield the statements in groups. Statements that write one variable are in one group, with all statements between
    them."""
    statements = facts.module.body.statements
    last = {key: place for place, statement in enumerate(statements) for key in facts.of(statement)[2]}
    group: list[Statement] = []
    end = 0
    for place, statement in enumerate(statements):
        group.append(statement)
        end = max(end, *(last[key] for key in facts.of(statement)[2]), place)
        if end == place:
            yield group
            group = []


def _all_sources(lines: Sequence[_Line]) -> set[_Line]:
    """Return all lines that these lines depend on."""
    found: set[_Line] = set()
    waiting = list(lines)
    while waiting:
        for source in waiting.pop().sources:
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found


def _entries(names: Sequence[Path], path: Path, width: int) -> set[int]:
    """Return the numbers of a list's entries among the members that are used. -1 stands for the list itself, and for a
    member that lies deeper than an entry."""
    depth = len(path) + (2 if width else 1)
    used = [name for name in names if name[: len(path)] == path]
    return {int(name[len(path)]) if len(name) == depth else -1 for name in used}


def member_path(module: Module, part: Expr) -> Path | None:
    return module.name_of(part._target) if isinstance(part, Member) else None


def assigned(statement: Statement) -> Iterator[object]:
    """Yield the variables that a statement writes or appends to, also in the blocks under it."""
    for inner in walk_statements(Block([statement])):
        if isinstance(inner, Assign | ForLoop):
            yield from (variable(target) for target in inner.targets if target is not None)
        elif isinstance(inner, Evaluate):
            yield from (variable(part) for part in walk(inner.expr) if isinstance(part, Local))
