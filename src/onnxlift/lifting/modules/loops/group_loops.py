"""Write statements that are the same for one entry of a list after the other as a loop.

    x = F.relu(self.convs[0](x)); x = F.relu(self.convs[1](x))   ->   for conv in self.convs: x = F.relu(conv(x))

    x = self.layers[0][0](x) + x; x = self.layers[0][1](x) + x   ->   for attn, mlp in self.layers:
    x = self.layers[1][0](x) + x; x = self.layers[1][1](x) + x            x = attn(x) + x; x = mlp(x) + x

    a = self.heads[0](x); b = self.heads[1](x)                   ->   torch.cat([head(x) for head in self.heads], 1)
    torch.cat((a, b), 1)

    a = self.layers[0](x); b = self.layers[1](a)                 ->   outputs = []
    torch.cat((a, b), 1)                                              for layer in self.layers:
                                                                          x = layer(x)
                                                                          outputs.append(x)
                                                                      torch.cat(outputs, 1)

    a = self.heads[0](x); b = self.heads[1](y)                   ->   for head, feature in zip(self.heads, (x, y)): ...

Applies to a list of modules, or of lists of one length. The statements for each entry (`iterations.py`) must be the
same, except for differences that a loop can have (`iteration_values.py`). The first entry and the last one may be left
out: a sum over all begins with the first, and the last one may lack the code that prepares the next. Lists within lists
come first.

Results that are joined become a list. It is made in one line, if no value goes from iteration to iteration and that
line is short enough to read. Otherwise each iteration appends to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from onnxlift.lifting.code.expr import (
    Attribute,
    Call,
    Comprehension,
    Display,
    Expr,
    Local,
    Member,
    Ref,
    Star,
    builtin,
    variable,
)
from onnxlift.lifting.code.reads import parts, variables_read
from onnxlift.lifting.code.statements import Assign, Block, Evaluate, ForLoop, Return, Statement
from onnxlift.lifting.code.substitute import copied, substitute
from onnxlift.lifting.modules.meaning import in_common
from onnxlift.lifting.modules.module import Module, Stored, is_list
from onnxlift.lifting.modules.statements.inline import is_readable
from onnxlift.lifting.tree.paths import Path

from .iteration_values import Changes, Collected, find_changes, made_in, with_all_bounds
from .iterations import Facts, Iterations, assigned, find_iterations, member_path
from .loops import Container, singular

Words = Callable[[object], str]
"""A function that gives the name of a variable for a member of a module."""


def roll_groups(module: Module, words: Words, texts: Mapping[object, str]) -> int:
    """Roll up what the module's forward does with the entries of its lists; return the number of loops. `texts` are
    what numbers are written as where they differ between instances."""
    loops = 0
    lists, facts = find_lists(module), Facts(module)
    lengths = Counter(path[:-1] for path in module.members if lists.get(path[:-1]) == 0)
    # Inner lists come first. But the lists that are entries of a list of lists come last: a loop over those entries has
    # a variable for each of their modules, and must come before.
    for path, width in sorted(lists.items(), key=lambda item: (lists.get(item[0][:-1], 0) > 0, -len(item[0]))):
        for iterations in find_iterations(facts, path, width, lengths):
            loop = _loop(module, iterations, lengths, words, texts) or _loop(
                module, with_all_bounds(iterations), lengths, words, texts
            )
            if loop:
                module.body.statements = loop
                loops += 1
                break
    return loops


def find_lists(module: Module) -> dict[Path, int]:
    """Return the lists of modules with 0, and the lists of lists, which all have one length, with that length."""
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


def _loop(
    module: Module, iterations: Iterations, lengths: Mapping[Path, int], words: Words, texts: Mapping[object, str]
) -> list[Statement]:
    """Return the statements of the module's forward with a loop for the iterations; none if there cannot be one."""
    changes = find_changes(module, iterations, lengths, texts)
    return roll_up(module, iterations, changes, words, texts) if changes is not None else []


def roll_up(
    module: Module, iterations: Iterations, changes: Changes, words: Words, texts: Mapping[object, str]
) -> list[Statement]:
    """Return the statements of the module's forward with a loop for the iterations, which differ as `changes` tells;
    none if the head of the loop would be hard to read."""
    loop = _EntryLoop(module, iterations, changes, words)
    return loop.statements(texts) if loop.is_simple else []


class _EntryLoop:
    """The iterations as a loop: its variables, and the replacements for expressions in an iteration, before the loop
    and after it."""

    def __init__(self, module: Module, iterations: Iterations, changes: Changes, words: Words) -> None:
        self.module, self.iterations, self.changes, self.words = module, iterations, changes, words
        self.items: dict[Path, Local] = {}
        self.index = Local("i")
        self.parts = {cut.statement: Local("parts") for cut in changes.cuts.values()}
        self.part_of = {cut.part: Local("part") for cut in changes.cuts.values()}
        self.pieces = {
            variable(target): self.parts[cut.statement][place]
            for cut in changes.cuts.values()
            for place, target in enumerate(cut.statement.targets)
            if target is not None
        }
        self.lists = {each.display: Local("outputs") for each in changes.collected}
        self.given = {key: Local(in_common(values) or "feature") for key, values in changes.given.items()}

    @property
    def is_simple(self) -> bool:
        """Tell whether the head of the loop can be read: it goes over one list, or over several side by side, or
        counts."""
        others = len(self.changes.lists) + len(self.changes.cuts) + len(self.given)
        is_alone = not (self.iterations.width and others) and not (
            self.changes.growing and (others or self.iterations.width)
        )
        are_named = all(in_common(values) for values in self.changes.given.values())
        return is_alone and (len(self.given) < 2 or are_named)

    def statements(self, texts: Mapping[object, str]) -> list[Statement]:
        iterations, changes = self.iterations, self.changes
        body = [copied(statement, self._in_an_iteration) for statement in iterations.groups[-1]]
        for statement, *counterparts in zip(body, *iterations.groups, strict=True):
            statement.origin = [name for each in counterparts for name in each.origin]
        body = [s for s in body if not _is_idle(s)]
        origin = [name for group in iterations.groups for statement in group for name in statement.origin]
        items, entries = self._head()
        element = self._element(body)
        before = [self._outside(statement, {}) for statement in iterations.before]
        if element is not None and is_readable(self.module, element, texts):
            (outputs,) = self.lists.values()
            (collected,) = changes.collected
            made: Statement = Assign([outputs], Comprehension(element, items, entries), origin=origin)
            joined: dict[Expr, Expr] = {collected.display: self._joined(collected, ())}
            return [*before, made, *(self._outside(statement, joined) for statement in iterations.after)]
        starts: list[Statement] = []
        joined = {}
        for collected in changes.collected:
            outputs = self.lists[collected.display]
            initial = self._initial(collected)
            starts.append(Assign([outputs], Display([substitute(item, self._piece) for item in initial], "[]")))
            values = [_read(value) for value in collected.values]
            more = Call(Attribute(outputs, "append"), values, {})
            if len(values) > 1:
                more = Call(Attribute(outputs, "extend"), [Display(values, "()")], {})
            body.append(Evaluate(more, origin=[]))
            joined[collected.display] = self._joined(collected, initial)
            self.module.of_iterations.update(collected.values)
        starts += [Assign([Ref(new)], substitute(_read(old), self._piece)) for new, old in changes.carried.values()]
        loop = ForLoop([*items], entries, Block(body), origin=origin)
        return [*before, *starts, loop, *(self._outside(statement, joined) for statement in iterations.after)]

    def _in_an_iteration(self, expr: Expr) -> Expr | None:
        """Return the expression that replaces a part of the last iteration in the loop; None if the part stays as it
        is."""
        key = variable(expr) if isinstance(expr, Ref | Local) else None
        if key in self.changes.carried:
            return _read(self.changes.carried[key][0])
        if key in self.part_of:
            return self.part_of[key]
        if key in self.given:
            return self.given[key]
        if expr in self.changes.growing:
            start, step = self.changes.growing[expr]
            return _linear(self.index, start - step * self.iterations.first, step)
        item = self._item(expr)
        return self._piece(expr) if item is None else item

    def _item(self, expr: Expr) -> Expr | None:
        path, iterations = member_path(self.module, expr), self.iterations
        depth = len(iterations.path)
        if path is not None and path[:depth] == iterations.path:
            member = self.module.members.get((*iterations.path, str(iterations.first), *path[depth + 1 :]))
            word = (
                "layers" if member is None else self.words(member) if iterations.width else self._entry(iterations.path)
            )
            return self.items.setdefault(path[depth + 1 :], Local(word, member))
        if path is not None and path[:-1] in self.changes.lists and path[-1] == str(iterations.end - 1):
            member = self.module.members.get((*path[:-1], str(iterations.first)))
            return self.items.setdefault(path[:-1], Local(self._entry(path[:-1]), member))
        return None

    def _entry(self, path: Path) -> str:
        """Return the word for an entry of a list: `conv` of `convs`. If there are `cv2` and `cv3`, it is `cv2`, to tell
        them apart."""
        words = Counter(singular(each[-1]) for each in (self.iterations.path, *self.changes.lists))
        word = singular(path[-1])
        return word if words[word] == 1 else path[-1]

    def _piece(self, expr: Expr) -> Expr | None:
        return self.pieces.get(variable(expr)) if isinstance(expr, Ref | Local) else None

    def _head(self) -> tuple[list[Local | None], Expr]:
        """Return the variables of the loop, and the expression that it goes over."""
        iterations, changes = self.iterations, self.changes
        targets = [self.items.get((str(place),)) for place in range(iterations.width)] or [self.items.get(())]
        over = [self._entries(path) for path in (iterations.path, *changes.lists)]
        targets += [self.items[path] for path in changes.lists]
        for cut in changes.cuts.values():
            targets.append(self.part_of[cut.part])
            last, length = cut.first + len(iterations.groups), len(cut.statement.targets)
            whole, is_whole = self.parts[cut.statement], cut.first == 0 and last == length
            over.append(whole if is_whole else whole[cut.first or None : last if last < length else None])
        for key, values in changes.given.items():
            targets.append(self.given[key])
            over.append(Display([substitute(_read(value), self._piece) for value in values], "()"))
        entries = over[0] if len(over) == 1 else builtin("zip")(*over)
        if changes.growing:
            start = [iterations.first] if iterations.first else []
            targets, entries = [self.index, *targets], builtin("enumerate")(entries, *start)
        return targets, entries

    def _entries(self, path: Path) -> Expr:
        """Return the entries of a list that have an iteration: `self.layers[1:]`."""
        container = Container(path)
        self.module.name(container, path)
        entries: Expr = Member(container)
        if len(self.iterations.groups) < self.iterations.count:
            end = self.iterations.end
            entries = entries[self.iterations.first or None : end if end < self.iterations.count else None]
        return entries

    def _element(self, body: Sequence[Statement]) -> Expr | None:
        """Return the result of an iteration as one expression; None if other results of it are needed, too."""
        if self.changes.carried or len(self.changes.collected) != 1:
            return None
        (collected,) = self.changes.collected
        if len(collected.values) != 1:
            return None
        (result,) = collected.values
        inside = Counter(key for statement in body for key in variables_read(statement))
        outside = Counter(key for statement in self.iterations.after for key in variables_read(statement))
        values: dict[object, Expr] = {}
        for statement in body:
            if not isinstance(statement, Assign) or len(statement.targets) != 1:
                return None
            key = variable(statement.targets[0])
            if (inside[key], outside[key]) != ((0, 1) if key is result else (1, 0)):
                return None
            values[key] = substitute(statement.expr, lambda e: values.get(variable(e)) if isinstance(e, Ref) else None)
        return values[result]

    def _initial(self, collected: Collected) -> Sequence[Expr]:
        """Return the items that the list begins with: those that are joined before the results of the iterations, if
        they exist by then."""
        initial = collected.display._items[: collected.first]
        late = {key for statement in self.iterations.after for key in assigned(statement)}
        late |= {key for group in self.iterations.groups for key in made_in(group)}
        keys = [variable(item) for item in initial]
        return initial if all(key is not None and key not in late for key in keys) else ()

    def _joined(self, collected: Collected, initial: Sequence[Expr]) -> Expr:
        """Return the expression that replaces a list of tensors. The `initial` ones are already in the new list."""
        display, outputs = collected.display, self.lists[collected.display]
        first, end = collected.first, collected.first + len(self.iterations.groups) * len(collected.values)
        items = [substitute(item, self._piece) for item in display._items]
        before, after = items[len(initial) : first], items[end:]
        is_returned = any(
            isinstance(statement, Return) and statement.expr is display for statement in self.iterations.after
        )
        if not before and not after:
            return builtin("tuple")(outputs) if is_returned else outputs
        return Display([*before, Star(outputs), *after], "()" if is_returned else "[]")

    def _outside(self, statement: Statement, joined: Mapping[Expr, Expr]) -> Statement:
        """Return a statement before or after the iterations, in which lists replace the parts and results that are in
        them."""
        if statement in self.parts:
            assert isinstance(statement, Assign)
            return replace(statement, targets=[self.parts[statement]])
        if self.pieces.keys().isdisjoint(variables_read(statement)) and not any(e in joined for e in parts(statement)):
            return statement
        return copied(statement, lambda expr: joined.get(expr, self._piece(expr)))


def _linear(index: Local, start: int, step: int) -> Expr:
    """Return `start + step * index`, as people write it."""
    if step == 1:
        return index + start if start > 0 else index - -start if start < 0 else index
    if start > 0 and start % step == 0:
        return (index + start // step) * step
    return index * step + start if start else index * step


def _read(key: object) -> Expr:
    return key if isinstance(key, Local) else Ref(key)


def _is_idle(statement: Statement) -> bool:
    """Tell whether a statement is `x = x`."""
    if not isinstance(statement, Assign) or len(statement.targets) != 1:
        return False
    key = variable(statement.targets[0])
    return key is not None and isinstance(statement.expr, Ref) and statement.expr._key is key
