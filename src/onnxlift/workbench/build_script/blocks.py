"""The main graph as a tree of modules: runs of statements in the same module, and equal ones found.

    encoder.layer.0/..., encoder.layer.1/...   ->   def layer(x, name): with build.scope(name): ...

1. Statements lie in the order of the file. A run of them in one module, with at least `LEAST` statements, is a block.
2. A block takes what its statements read and others make, and gives what they make and others read. It holds the
   weights that only its statements read: these are called by its path.
3. Blocks are equal if their statements are, up to the names of values and to their own path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from .code import Code, LocalFunction, Part, Statement
from .paths import steps

LEAST = 4
"""A module of fewer statements is written in the one around it."""


@dataclass(eq=False)
class Block:
    """A module: statements and modules in it, from statement `begin` up to `end`."""

    path: str
    label: str
    """Its path from the module around it."""
    begin: int
    end: int
    items: list[Statement | Block] = field(default_factory=list)
    inputs: list[ir.Value] = field(default_factory=list)
    outputs: list[ir.Value] = field(default_factory=list)
    kind: int = -1
    """Equal blocks have the same number."""

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks inside, at any depth, the inner ones first."""
        for item in self.items:
            if isinstance(item, Block):
                yield from item.blocks()
                yield item


def tree(statements: list[Statement], results: list[ir.Value], is_weight: Callable[[ir.Value], bool]) -> Block:
    """Return the whole graph as a block."""
    paths = _filled([steps(statement.path) for statement in statements])
    root = Block("", "", 0, len(statements))
    root.items = _items(statements, paths, 0, len(statements), 0, "")
    last: dict[ir.Value, int] = {value: len(statements) for value in results}
    made: dict[ir.Value, int] = {}
    for index, statement in enumerate(statements):
        made.update((target, index) for target in statement.targets if target is not None)
        for value in statement.reads():
            last[value] = max(last.get(value, 0), index)
    for block in root.blocks():
        _connect(block, statements, made, last, is_weight)
    return root


def _filled(paths: list[list[str]]) -> list[list[str]]:
    """Give statements without a module that of their neighbours, as far as these agree."""
    found = list(paths)
    before: list[str] = []
    after: list[list[str]] = [[] for _ in paths]
    known: list[str] = []
    for index in range(len(paths) - 1, -1, -1):
        known = paths[index] or known
        after[index] = known
    for index, path in enumerate(paths):
        if path:
            before = path
            continue
        common = 0
        while common < min(len(before), len(after[index])) and before[common] == after[index][common]:
            common += 1
        found[index] = before[:common]
    return found


def _items(
    statements: list[Statement], paths: list[list[str]], begin: int, end: int, depth: int, path: str
) -> list[Statement | Block]:
    found: list[Statement | Block] = []
    index = begin
    while index < end:
        step = paths[index][depth] if len(paths[index]) > depth else None
        stop = index + 1
        while stop < end and (paths[stop][depth] if len(paths[stop]) > depth else None) == step:
            stop += 1
        if step is None or stop - index < LEAST:
            found += statements[index:stop]
        else:
            inner = f"{path}.{step}" if path else step
            block = Block(inner, step, index, stop)
            block.items = _items(statements, paths, index, stop, depth + 1, inner)
            if len(block.items) == 1 and isinstance(block.items[0], Block):
                only = block.items[0]
                only.label = f"{step}.{only.label}"
                block = only
            found.append(block)
        index = stop
    return found


def _connect(
    block: Block,
    statements: list[Statement],
    made: Mapping[ir.Value, int],
    last: Mapping[ir.Value, int],
    is_weight: Callable[[ir.Value], bool],
) -> None:
    """Find what a block takes and gives. Only its own statements and the borders of blocks in it are looked at."""
    read: dict[ir.Value, None] = {}
    given: dict[ir.Value, None] = {}
    for item in block.items:
        if isinstance(item, Block):
            read |= dict.fromkeys(item.inputs)
            given |= dict.fromkeys(item.outputs)
        else:
            read |= dict.fromkeys(item.reads())
            given |= dict.fromkeys(target for target in item.targets if target is not None)
    block.inputs = [value for value in read if value not in made or made[value] < block.begin]
    block.outputs = [value for value in given if last.get(value, -1) >= block.end]


def settle(root: Block, owners: Mapping[ir.Value, Block], relative: Callable[[Block, ir.Value], str | None]) -> None:
    """Take the weights that blocks hold from their inputs, and give equal blocks the same number.

    `relative` is the name of a weight in a block that holds it, or None."""
    numbers: dict[object, int] = {}
    for block in root.blocks():
        block.inputs = [value for value in block.inputs if value not in owners or relative(block, value) is None]
        block.kind = numbers.setdefault(_form(block, relative), len(numbers))


def _form(block: Block, relative: Callable[[Block, ir.Value], str | None]) -> object:
    """Return what equal blocks share."""
    places: dict[ir.Value, int] = {}

    def place(value: ir.Value) -> object:
        if value not in places and (name := relative(block, value)) is not None:
            return name
        return places.setdefault(value, len(places))

    inputs = tuple(place(value) for value in block.inputs)
    items = tuple(_item_form(item, block, place) for item in block.items)
    return inputs, items, tuple(place(value) for value in block.outputs)


def _item_form(item: Statement | Block, around: Block, place: Callable[[ir.Value], object]) -> object:
    if isinstance(item, Block):
        borders = tuple(map(place, item.inputs)), tuple(map(place, item.outputs))
        return item.kind, item.label, borders
    code = _code_form(item.code, place)
    return code, tuple(None if target is None else place(target) for target in item.targets), item.unpacks


def _code_form(code: Code, place: Callable[[ir.Value], object]) -> object:
    return code.strength, tuple(_part_form(part, place) for part in code.parts)


def _part_form(part: Part, place: Callable[[ir.Value], object]) -> object:
    if isinstance(part, str):
        return part
    if isinstance(part, LocalFunction):
        parameters = tuple(map(place, part.parameters))
        inner = tuple(
            (_code_form(each.code, place), tuple(None if t is None else place(t) for t in each.targets), each.unpacks)
            for each in part.statements
        )
        return part.hint, parameters, inner, tuple(map(place, part.results)), tuple(map(place, part.kept))
    return place(part.value), part.strength
