"""Tell from written statements which variables they read and write.

What is read here are names in finished text, and not values of the graph: whatever an expression turned into
(`x.device`, `x.dtype`, a loop's counter), it is known.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


@dataclass
class Flow:
    """The names that statements read before they write them, those that they surely write, and those that they write in
    some branch or iteration at least. In the order of the text."""

    reads: dict[str, None] = field(default_factory=dict)
    writes: dict[str, None] = field(default_factory=dict)
    may_write: dict[str, None] = field(default_factory=dict)

    def then(self, later: Flow) -> None:
        """Add what comes after."""
        self.reads.update((name, None) for name in later.reads if name not in self.writes)
        self.writes.update(later.writes)
        self.may_write.update(later.may_write)


def flow_of(lines: Sequence[str]) -> Flow:
    """Return what a statement, as it is written, does with names."""
    return _of_all(ast.parse(textwrap.dedent("\n".join(lines))).body)


def _of_all(body: Iterable[ast.stmt]) -> Flow:
    flow = Flow()
    for statement in body:
        flow.then(_of(statement))
    return flow


def _of(statement: ast.stmt) -> Flow:
    match statement:
        case ast.If():
            then, otherwise = _of_all(statement.body), _of_all(statement.orelse)
            both = {name: None for name in then.writes if name in otherwise.writes}
            either = then.may_write | otherwise.may_write
            return Flow(_read(statement.test) | then.reads | otherwise.reads, both, either)
        case ast.For():
            targets, body = _written(statement.target), _of_all(statement.body)
            inside = {name: None for name in body.reads if name not in targets}
            return Flow(_read(statement.iter) | inside, {}, targets | body.may_write)
        case ast.While():
            body = _of_all(statement.body)
            return Flow(_read(statement.test) | body.reads, {}, body.may_write)
        case ast.With():
            flow = Flow()
            for item in statement.items:
                flow.then(Flow(_read(item.context_expr)))
            flow.then(_of_all(statement.body))
            return flow
    written = {name: None for part in getattr(statement, "targets", []) for name in _written(part)}
    return Flow(_read(statement), written, dict(written))


def _read(tree: ast.AST) -> dict[str, None]:
    """Return the names that an expression reads, but not the variables of its comprehensions. No variable of the
    forward has one of their names in the same statement."""
    own = {name for part in ast.walk(tree) if isinstance(part, _SCOPES) for name in _bound(part)}
    names = [part for part in ast.walk(tree) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)]
    names.sort(key=lambda name: (name.lineno, name.col_offset))
    return {name.id: None for name in names if name.id not in own}


def _bound(scope: ast.AST) -> Iterator[str]:
    """Yield the variables of a comprehension or a lambda."""
    if isinstance(scope, ast.Lambda):
        yield from (argument.arg for argument in scope.args.args)
    for generator in getattr(scope, "generators", []):
        yield from _written(generator.target)


def _written(target: ast.AST) -> dict[str, None]:
    return {
        part.id: None for part in ast.walk(target) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
