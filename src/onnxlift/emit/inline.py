"""Write a value where it is used, where a person would.

    a = self.conv1(x); b = self.bn1(a); c = F.relu(b)   ->   c = F.relu(self.bn1(self.conv1(x)))

A value is inlined if it is read once, its line stays readable (length, nesting), and it does not deserve a name. It is
sound because no statement has an effect on what another one computes, but for loops, whose variables change: a value
from outside is never moved into a loop, and an expression that reads a changing variable moves only to the next line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ..code.expr import Attribute, Call, Display, Expr, Literal, Local, Member, Name, Ref, Subscript, Wrapped, children, walk
from ..code.statements import Assign, Block, Branch, ForLoop, Return, Statement, WhileLoop, blocks, expressions, walk_statements
from .module import Module

LENGTH = 78
NESTING = 4


Inlined = dict[object, Expr]
"""Variable -> what is written in its place."""


def inline(module: Module, deserves_name: Callable[[object], bool]) -> Inlined:
    """Decide what is inlined in the module's forward, and remove the assignments that thereby are not needed."""
    inliner = _Inliner(module, deserves_name)
    inliner.visit(module.body, {})
    _remove(module.body, inliner.taken)
    return inliner.inlined


def _remove(block: Block, taken: set[int]) -> None:
    block.statements = [s for s in block.statements if id(s) not in taken]
    for statement in block.statements:
        for inner in blocks(statement):
            _remove(inner, taken)


class _Inliner:
    def __init__(self, module: Module, deserves_name: Callable[[object], bool]) -> None:
        self.module = module
        self.deserves_name = deserves_name
        self.inlined: Inlined = {}
        self.taken: set[int] = set()
        self.reads: Counter[object] = Counter()
        self.writes: Counter[object] = Counter()
        for statement in walk_statements(module.body):
            for expr in expressions(statement):
                self.reads.update(_key(part) for part in walk(expr) if isinstance(part, Ref | Local))
            if isinstance(statement, Assign):
                self.writes.update(_key(t) for t in statement.targets if t is not None)

    def visit(self, block: Block, candidates: dict[object, Assign]) -> None:
        """`candidates` are the assignments that may move here; those of outer blocks too, unless this is a loop."""
        previous: Statement | None = None
        for statement in block.statements:
            for expr in expressions(statement):
                self.take(statement, expr, candidates, previous)
            for inner in blocks(statement):
                self.visit(inner, {} if isinstance(statement, ForLoop | WhileLoop) else candidates)
            if isinstance(statement, Assign) and len(statement.targets) == 1 and statement.targets[0] is not None:
                key = _key(statement.targets[0])
                if self.reads[key] == 1 and self.writes[key] == 1:
                    candidates[key] = statement
            previous = statement

    def take(
        self, statement: Statement, expr: Expr, candidates: dict[object, Assign], previous: Statement | None
    ) -> None:
        """Inline into one expression what fits, the first operand first (the main line of the computation)."""
        for part in list(walk(expr)):
            if not isinstance(part, Ref | Local):
                continue
            definition = candidates.get(_key(part))
            if definition is not None and self.fits(statement, expr, part, definition, previous):
                self.inlined[_key(part)] = definition.expr
                statement.origin[:0] = definition.origin
                self.taken.add(id(definition))
                del candidates[_key(part)]

    def fits(
        self, statement: Statement, expr: Expr, part: Expr, definition: Assign, previous: Statement | None
    ) -> bool:
        key = _key(part)
        if self.changes(definition.expr) and definition is not previous:
            return False
        self.inlined[key] = definition.expr
        try:
            length = self.length(expr) + (7 if isinstance(statement, Return) else 6)
            nesting = self.nesting(expr)
        finally:
            del self.inlined[key]
        small = self.length(definition.expr) <= 14
        if self.deserves_name(key) and not small and self.nesting(definition.expr) >= 2:
            return False
        if isinstance(statement, Branch | WhileLoop | ForLoop):
            return length <= 60 and nesting <= 3
        if isinstance(statement, Return) and isinstance(expr, Display) and not small:
            return length <= 60 and nesting <= 2
        return length <= LENGTH and nesting <= NESTING

    def changes(self, expr: Expr) -> bool:
        """Whether `expr` reads a variable that is written more than once."""
        return any(self.writes[_key(p)] > 1 for p in self.parts(expr) if isinstance(p, Ref | Local))

    def parts(self, expr: Expr) -> list[Expr]:
        found = []
        for part in walk(expr):
            inner = self.inlined.get(_key(part)) if isinstance(part, Ref | Local) else None
            found.extend([part] if inner is None else self.parts(inner))
        return found

    def length(self, expr: Expr) -> int:
        """About how many characters `expr` takes."""
        match expr:
            case Wrapped():
                return self.length(expr._expr)
            case Ref() | Local():
                inner = self.inlined.get(_key(expr))
                return 5 if inner is None else self.length(inner)
            case Member():
                return 5 + sum(len(p) + 1 for p in self.module.name_of(expr._target))
            case Attribute():
                return self.length(expr._base) + 1 + len(expr._name)
            case Call():
                keywords = sum(len(k) + 3 + self.length(v) for k, v in expr._kwargs.items())
                return self.length(expr._function) + 2 + keywords + sum(self.length(a) + 2 for a in expr._args)
        inner_parts = children(expr)
        if inner_parts:
            return 2 + sum(self.length(p) + 3 for p in inner_parts)
        return len(expr._name) if isinstance(expr, Name) else len(repr(expr._value)) if isinstance(expr, Literal) else 8

    def nesting(self, expr: Expr) -> int:
        """How deep parentheses with something to read in them lie in one another."""
        match expr:
            case Ref() | Local():
                inner = self.inlined.get(_key(expr))
                return 0 if inner is None else self.nesting(inner)
            case Call():
                inside = max((self.nesting(a) for a in (*expr._args, *expr._kwargs.values())), default=-1)
                return max(self.nesting(expr._function), inside + 1)
            case Subscript():
                return max(self.nesting(p) for p in children(expr))
        return max((self.nesting(p) for p in children(expr)), default=0)


def _key(part: Expr) -> object:
    return part._key if isinstance(part, Ref) else part
