"""Go through a list of one module in a loop, if relatives do so with their lists.

    z = self.m[0](y)             ->   outputs = [x, y]
    torch.cat((x, y, z), 1)           for block in self.m:
                                          y = block(y)
                                          outputs.append(y)
                                      torch.cat(outputs, 1)

One iteration does not show what a second one would read. A relative that does the same with several entries shows it:
which of the values that an iteration reads come from the iteration before, and which results are joined. Applies if the
statements for the one entry stand together and have the same text as an iteration of the relative. Sound because in the
only iteration, a value of the iteration before is the value from before the loop, and the list of results gets just one
more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from onnxlift.lifting.code.expr import Display, variable
from onnxlift.lifting.code.reads import parts
from onnxlift.lifting.code.statements import Block
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.tree.paths import Path

from .group_loops import find_lists, roll_up
from .iteration_values import Changes, Collected, IterationText, find_changes, is_read_first
from .iterations import Facts, Iterations, find_iterations


@dataclass(frozen=True)
class Pattern:
    """An iteration over the list at `path`: its text, and the number of its statements. Places are counted among all
    variables in that text.

    `carried` has the places of values of the iteration before, each with the place of the value that takes over.
    `collected` has the places of results that are joined, each with the number of items before them there.
    """

    path: Path
    text: tuple[str, ...]
    length: int
    carried: tuple[tuple[int, int], ...]
    collected: tuple[tuple[int, int], ...]


def find_patterns(module: Module) -> list[Pattern]:
    """Return a pattern for each list of a module that a loop could go through as a whole."""
    lists, facts = find_lists(module), Facts(module)
    lengths = Counter(path[:-1] for path in module.members if lists.get(path[:-1]) == 0)
    found = (_pattern(module, facts, path, lengths) for path, width in lists.items() if width == 0)
    return [pattern for pattern in found if pattern is not None]


def _pattern(module: Module, facts: Facts, path: Path, lengths: Counter[Path]) -> Pattern | None:
    for iterations in find_iterations(facts, path, 0, lengths):
        changes = find_changes(module, iterations, lengths, {}) if len(iterations.groups) == iterations.count else None
        if changes is None or changes.lists or changes.cuts or changes.given or changes.growing:
            continue
        if any(len(each.values) > 1 for each in changes.collected):
            continue
        group = iterations.groups[-1]
        last = IterationText(module, iterations, lengths, len(iterations.groups) - 1)
        text = tuple(last.lines(Block(group), ""))
        places = last.occurrences
        carried = [
            (place, places.index(changes.carried[key][0])) for place, key in enumerate(places) if key in changes.carried
        ]
        collected = [(places.index(value), each.first) for each in changes.collected for value in each.values]
        return Pattern(path, text, len(group), tuple(carried), tuple(collected))
    return None


def roll_single(module: Module, pattern: Pattern) -> None:
    """Go through the list of the pattern in a loop, if it has one entry and is used as the pattern says."""
    if [path for path in module.members if path[:-1] == pattern.path] != [(*pattern.path, "0")]:
        return
    statements = module.body.statements
    for start in range(len(statements) - pattern.length):
        end = start + pattern.length
        iterations = Iterations(pattern.path, 0, 1, 0, [statements[start:end]], statements[:start], statements[end:])
        own = IterationText(module, iterations, {}, 0)
        if tuple(own.lines(Block(statements[start:end]), "")) == pattern.text:
            changes = _changes(pattern, own.occurrences, iterations)
            loop = roll_up(module, iterations, changes, lambda _: "block", {}) if changes is not None else []
            module.body.statements = loop or statements
            return


def _changes(pattern: Pattern, places: Sequence[object], iterations: Iterations) -> Changes | None:
    """Return what the pattern says about the variables in an iteration's text; None if it does not fit."""
    changes = Changes()
    for old, new in pattern.carried:
        value = (places[new], places[old])
        is_first = is_read_first(iterations.groups[0], places[old], places[new])
        if changes.carried.setdefault(places[old], value) != value or not is_first:
            return None
    if any(key is places[old] for old, _ in pattern.carried for key in _others(pattern, places)):
        return None  # here the value is also read at a place where all iterations would read the same one
    for place, first in pattern.collected:
        value_of = places[place]
        displays = [e for s in iterations.after for e in parts(s) if isinstance(e, Display) and len(e._items) > first]
        joined = [display for display in displays if variable(display._items[first]) is value_of]
        if len(joined) != 1:
            return None
        changes.collected.append(Collected([value_of], joined[0], first))
    return changes


def _others(pattern: Pattern, places: Sequence[object]) -> list[object]:
    """Return the variables at places that are not carried: there, all iterations of the pattern have the same variable,
    or each one of its own."""
    carried = {place for place, _ in pattern.carried}
    return [key for place, key in enumerate(places) if place not in carried]
