"""Map the lines of the generated source to the ONNX nodes that they come from, and back.

The writer knows the nodes behind every statement, but then ruff moves the lines. So the statements are found again in
the formatted text by parsing it: every `forward`, and every method of one, holds the same statements in the same order.
A class is written once for all its instances, so one statement comes from the nodes of each of them.
"""

from __future__ import annotations

import ast
import difflib
import json
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.lifting.code.expr import Ref
from onnxlift.lifting.code.statements import Assign, Return, Statement, walk_statements
from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.module import Module

from .forward_statements import forward_statements


@dataclass(frozen=True)
class Origin:
    """The ONNX nodes behind a statement, and the names of the ONNX values that its targets hold, by instance."""

    nodes: tuple[str, ...]
    values: tuple[tuple[Module, tuple[str | None, ...]], ...]


class Origins:
    """The origin of each statement of a class. It must be made before anything is inlined in the example: only then do
    the bodies of the instances correspond statement by statement."""

    def __init__(self, cls: ModuleClass) -> None:
        self._instances = cls.instances
        self._counterparts: dict[Statement, tuple[Statement | None, ...]] = {}
        # Node of the example -> nodes of all instances. The nodes of one statement share one dictionary, to save
        # memory: a loop that calls layers can have nearly all nodes of the model behind one statement.
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
        """Return the origin of a statement of the example, with the nodes of all that was inlined into it."""
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
    """A statement of a `forward`: its lines (counted from 1; only the head of a compound statement), the ONNX nodes
    behind it, and the names of the ONNX values that it assigns or returns in each module, by module path."""

    first_line: int
    last_line: int
    nodes: tuple[str, ...]
    values: Mapping[str, tuple[str | None, ...]]


@dataclass(frozen=True)
class MappedName:
    """A name of the source: the kind of thing that has it (class, argument, member, variable), its place, and the
    reason."""

    kind: str
    where: str
    name: str
    why: str


class SourceMap:
    """The way from the source to the ONNX model, `nodes_at(line)`, and back, `lines_of(node)`. `names` has the reason
    of each name."""

    def __init__(
        self,
        statements: Sequence[MappedStatement],
        names: Sequence[MappedName] = (),
        *,
        nodes: Collection[str] = (),
        line_count: int = 0,
    ) -> None:
        self.statements = tuple(statements)
        self.names = tuple(names)
        self._nodes = frozenset(nodes)
        self._line_count = line_count
        self._starts = [statement.first_line for statement in statements]

    def __repr__(self) -> str:
        return f"SourceMap({self._line_count} lines, {len(self.statements)} statements, {len(self._lines)} nodes)"

    def statement_at(self, line: int) -> MappedStatement | None:
        """Return the innermost statement on a line; None if the line is not part of any `forward`.

        Raises an error if the source has no such line."""
        if not 1 <= line <= self._line_count:
            raise OnnxLiftError(f"the source has no line {line}: its lines are 1 to {self._line_count}.")
        index = bisect_right(self._starts, line) - 1
        if index < 0 or line > self.statements[index].last_line:
            return None
        return self.statements[index]

    def nodes_at(self, line: int) -> tuple[str, ...]:
        """Return the names of the ONNX nodes that the statement on a line computes."""
        statement = self.statement_at(line)
        return () if statement is None else statement.nodes

    def lines_of(self, node: str) -> tuple[int, ...]:
        """Return the lines that compute an ONNX node: those in its own module first, then those that call the module. A
        node that became part of another (folded, fused) has the lines of that node. A node without effect has none.

        Raises an error if the model has no such node."""
        if node not in self._lines and node not in self._nodes:
            known = sorted(self._nodes | self._lines.keys())
            similar = difflib.get_close_matches(node, known, 3, 0.5) or known[:3]
            more = f", such as {', '.join(map(quote, similar))}" if similar else ""
            raise OnnxLiftError(f"the model has no node {quote(node)}. It has {len(known):,} nodes{more}.")
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
        """Return the map as it is saved beside the source: one line for each statement, then one for each name."""
        statements = [json.dumps({"lines": [s.first_line, s.last_line], "nodes": s.nodes}) for s in self.statements]
        names = [json.dumps(vars(name)) for name in self.names]
        head = f'{{\n  "version": 2,\n  "source": {json.dumps(source_name)},'
        return f'{head}\n  "statements": {_rows(statements)},\n  "names": {_rows(names)}\n}}\n'


def _rows(rows: Sequence[str]) -> str:
    """Return a list in JSON with one row on each line."""
    body = ",\n    ".join(rows)
    return f"[\n    {body}\n  ]" if rows else "[]"


Readers = Mapping[str, Sequence[str]]
"""For each node of the model as it was loaded, the nodes that read its outputs. In the order of the graph."""


def readers_of(model: ir.Model) -> Readers:
    readers: dict[str, Sequence[str]] = {}
    for node in model.graph.all_nodes():
        users = [user.name for value in node.outputs for user, _ in value.uses()]
        readers[node.name or ""] = [name for name in users if name]
    return readers


def map_source(
    text: str, origins: Sequence[Origin], root: Module, readers: Readers, names: Sequence[MappedName] = ()
) -> SourceMap:
    """Return the map of a formatted source whose statements come from `origins`, in the order of the text."""
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
        ],
        names,
        nodes=readers,
        line_count=len(text.splitlines()),
    )


def _with_absorbed(nodes: Sequence[tuple[str, ...]], readers: Readers) -> list[tuple[str, ...]]:
    """Return the nodes of each statement, with the nodes that became part of them: a node that a pass folded or an
    idiom took in is part of whatever reads it."""
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
    """Yield the path of each module in the tree of the live model."""
    yield module, ".".join(prefix)
    for path, child in module.children():
        yield from _paths(child, (*prefix, *path))
