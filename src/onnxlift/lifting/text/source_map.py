"""Which lines of the generated source come from which ONNX nodes, and back.

The writer knows, for every statement, the nodes behind it; ruff then moves the lines. So the statements are found again
in the formatted text by parsing it: every `forward` holds the same statements in the same order. A class is written
once for all its instances, so one statement comes from the nodes of each of them.
"""

from __future__ import annotations

import ast
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from onnxlift.lifting.code.expr import Ref
from onnxlift.lifting.code.statements import Assign, Return, Statement, walk_statements
from onnxlift.lifting.modules.classes.classes import ModuleClass
from onnxlift.lifting.modules.module import Module

from .forward_statements import forward_statements


@dataclass(frozen=True)
class Origin:
    """The ONNX nodes behind a statement, and the names of the ONNX values that its targets hold, by instance."""

    nodes: tuple[str, ...]
    values: tuple[tuple[Module, tuple[str | None, ...]], ...]


class Origins:
    """The origin of each statement of a class. To be made before anything is inlined in the example, since only then
    do the bodies of the instances correspond statement by statement."""

    def __init__(self, cls: ModuleClass) -> None:
        self._instances = cls.instances
        self._counterparts: dict[Statement, tuple[Statement | None, ...]] = {}
        # Node of the example -> nodes of all instances. Nodes of one statement share the dictionary: there can be as
        # many of them as the model has, in the call of a layer that a loop goes over.
        self._nodes: dict[str, dict[str, None]] = {}
        nothing: dict[str, None] = {}
        columns = (cls.statements_of(instance) for instance in cls.instances)
        for example, *statements in zip(walk_statements(cls.example.body), *columns, strict=True):
            self._counterparts[example] = tuple(statements)
            names = dict.fromkeys(name for statement in statements if statement for name in statement.origin)
            before = {name: self._nodes.get(name, nothing) for name in example.origin}
            joined = {id(known): {**known, **names} for known in {id(k): k for k in before.values()}.values()}
            self._nodes.update((name, joined[id(known)]) for name, known in before.items())

    def of(self, statement: Statement) -> Origin:
        """Where a statement of the example comes from, with all that was inlined into it."""
        sources = [self._nodes.get(name) or {name: None} for name in statement.origin]
        nodes = dict.fromkeys(node for source in {id(s): s for s in sources}.values() for node in source)
        counterparts = self._counterparts.get(statement, ())
        values = tuple(
            (module, _values(module, each))
            for module, each in zip(self._instances, counterparts, strict=False)
            if each is not None
        )
        return Origin(tuple(nodes), values)


def _values(module: Module, statement: Statement) -> tuple[str | None, ...]:
    if isinstance(statement, Return):
        return tuple(value.name for value in module.outputs)
    if not isinstance(statement, Assign):
        return ()
    keys = [target._key if isinstance(target, Ref) else None for target in statement.targets]
    return tuple(key.name if isinstance(key, ir.Value) else None for key in keys)


@dataclass(frozen=True)
class MappedStatement:
    """A statement of a `forward`: its lines (counted from 1; of a compound statement those of its head), the ONNX
    nodes behind it, and the names of the ONNX values that it assigns or returns in each module, by module path."""

    first_line: int
    last_line: int
    nodes: tuple[str, ...]
    values: Mapping[str, tuple[str | None, ...]]


class SourceMap:
    """`nodes_at(line)` and `lines_of(node)`: from the source to the ONNX model, and back."""

    def __init__(self, statements: Sequence[MappedStatement]) -> None:
        self.statements = tuple(statements)
        self._starts = [statement.first_line for statement in statements]

    def statement_at(self, line: int) -> MappedStatement | None:
        """The statement that stands on a line, the innermost one; None if the line is not part of any `forward`."""
        index = bisect_right(self._starts, line) - 1
        if index < 0 or line > self.statements[index].last_line:
            return None
        return self.statements[index]

    def nodes_at(self, line: int) -> tuple[str, ...]:
        """The names of the ONNX nodes that the statement on a line computes."""
        statement = self.statement_at(line)
        return () if statement is None else statement.nodes

    def lines_of(self, node: str) -> tuple[int, ...]:
        """The lines that compute an ONNX node: in its own module first, then those that call the module. A node that
        became part of another (folded, fused) has that one's lines; one without effect has none."""
        return self._lines.get(node, ())

    @cached_property
    def _lines(self) -> dict[str, tuple[int, ...]]:
        lines: dict[str, tuple[int, ...]] = {}
        for statement in self.statements:
            own = tuple(range(statement.first_line, statement.last_line + 1))
            for node in statement.nodes:
                lines[node] = lines.get(node, ()) + own
        return lines

    def to_json(self, source_name: str) -> str:
        """The map as it is saved beside the source: a statement a line."""
        rows = [json.dumps({"lines": [s.first_line, s.last_line], "nodes": s.nodes}) for s in self.statements]
        body = ",\n    ".join(rows)
        head = f'{{\n  "version": 1,\n  "source": {json.dumps(source_name)},\n  "statements": ['
        return f"{head}\n    {body}\n  ]\n}}\n" if rows else f"{head}]\n}}\n"


Readers = Mapping[str, Sequence[str]]
"""Node of the model as it was loaded -> the nodes that read its outputs; in the order of the graph."""


def readers_of(model: ir.Model) -> Readers:
    readers: dict[str, Sequence[str]] = {}
    for node in model.graph.all_nodes():
        users = [user.name for value in node.outputs for user, _ in value.uses()]
        readers[node.name or ""] = [name for name in users if name]
    return readers


def map_source(text: str, origins: Sequence[Origin], root: Module, readers: Readers) -> SourceMap:
    """The map of a formatted source whose statements come from `origins`, in the order of the text."""
    paths = dict(_paths(root, ()))
    nodes = _with_absorbed([origin.nodes for origin in origins], readers)
    return SourceMap(
        [
            MappedStatement(
                statement.lineno,
                _last_line(statement),
                names,
                {paths[module]: values for module, values in origin.values if values},
            )
            for statement, origin, names in zip(forward_statements(ast.parse(text)), origins, nodes, strict=True)
        ]
    )


def _with_absorbed(nodes: Sequence[tuple[str, ...]], readers: Readers) -> list[tuple[str, ...]]:
    """The nodes of each statement, with those that became part of them: what a pass folded or an idiom swallowed is
    part of whatever reads it."""
    place: dict[str, int] = {}
    for index, names in enumerate(nodes):
        for name in names:
            place.setdefault(name, index)
    absorbed: dict[int, list[str]] = {}
    for name, users in reversed(list(readers.items())):
        reader = next((place[user] for user in users if user in place), None)
        if name not in place and reader is not None:
            place[name] = reader
            absorbed.setdefault(reader, []).append(name)
    return [(*reversed(absorbed.get(index, ())), *names) for index, names in enumerate(nodes)]


def _last_line(statement: ast.stmt) -> int:
    if isinstance(statement, ast.If | ast.For | ast.While):
        return statement.body[0].lineno - 1
    return statement.end_lineno or statement.lineno


def _paths(module: Module, prefix: tuple[str, ...]) -> Iterator[tuple[Module, str]]:
    """The path of each module in the tree of the live model."""
    yield module, ".".join(prefix)
    for path, child in module.children():
        yield from _paths(child, (*prefix, *path))
