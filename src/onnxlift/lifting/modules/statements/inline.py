"""Inline a value where it is used, if a person would write it so.

    a = self.conv1(x); b = self.bn1(a); c = F.relu(b)   ->   c = F.relu(self.bn1(self.conv1(x)))

    x = self.features(x); return x.softmax(-1)          ->   return self.features(x).softmax(-1)

A value is inlined if it is read once, its line stays readable (length, nesting), and it does not deserve a name. The
result of a module of our own is a step of the model. A step is inlined into sums. It is inlined if the expression only
passes it to further steps, unless these are numbered alike: `self.layer2(self.layer1(x))` reads better as several
lines. It is also inlined if its own line would need a new name, since its input is read later.

Sound because no statement has an effect on what another one computes. Only the variables of loops change: a value from
outside is never moved into a loop, unless it is a parameter or a buffer, nor into the element of a comprehension. And
no value is moved past a line that changes a variable which it reads.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from onnxlift.ir.graph.types import NUMBERS
from onnxlift.lifting.code.expr import (
    Attribute,
    Binary,
    Call,
    Comprehension,
    Display,
    Expr,
    Literal,
    Local,
    Member,
    Name,
    Ref,
    Subscript,
    Unary,
    Wrapped,
    bare,
    children,
    variable,
    walk,
)
from onnxlift.lifting.code.reads import variables_behind, variables_read
from onnxlift.lifting.code.roots import root_text
from onnxlift.lifting.code.statements import (
    Assign,
    Block,
    Branch,
    Evaluate,
    ForLoop,
    Return,
    Statement,
    WhileLoop,
    With,
    blocks,
    expressions,
    walk_statements,
)
from onnxlift.lifting.modules.meaning import meaning, says_more
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.modules.signatures.prune import called_module

from .slices import is_piece, length_of_piece

LENGTH = 82
WIDTH = 92  # characters of a line of `forward`; a longer one would be broken into several
SHORT_LENGTH = 66  # characters of a line with a step of the model and other calls than steps and layers
NESTING = 4
VARIABLE = 5  # characters that we assume for the name of a variable
MOST_PIECES = 8  # slices that are joined in one line
ELEMENT_LENGTH = 58  # characters of a comprehension's element
STATEMENT = 7  # characters of `return ` or `x = ` in front
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


Inlined = dict[object, Expr]
"""The expression that is written in the place of each inlined variable."""


def inline(module: Module, texts: Mapping[object, str] | None = None) -> tuple[Inlined, dict[Statement, int]]:
    """Decide what is inlined in the module's forward, and remove the assignments that are no longer needed.

    Return the inlined expressions, and for each statement the place of the first statement that is part of it now.
    `texts` are the texts of numbers that differ between instances: `self.size`.
    """
    inliner = _Inliner(module, texts or {})
    inliner.visit(module.body, {})
    _remove(module.body, inliner.taken)
    _return_results(module.body, inliner)
    return inliner.inlined, inliner.begin


def is_readable(module: Module, expr: Expr, texts: Mapping[object, str]) -> bool:
    """Tell whether the expression for each entry of a list is short enough to stand in the line that makes the list."""
    inliner = _Inliner(module, texts)
    return inliner.length(expr) <= ELEMENT_LENGTH and inliner.nesting(expr) <= NESTING


def main_line(expr: Expr, inlined: Inlined) -> Iterator[object]:
    """Yield the variables that `expr` transforms, but not those that it only looks at: `x.reshape(y.shape)` -> x.
    Variables of inlined parts count, too."""
    expr = bare(expr)
    if not isinstance(expr, Ref | Local):
        for part in _transformed(expr):
            yield from main_line(part, inlined)
    elif (inner := inlined.get(variable(expr))) is not None:
        yield from main_line(inner, inlined)
    else:
        yield variable(expr)


def _transformed(expr: Expr) -> tuple[Expr, ...]:
    """Return the parts of an expression that it transforms: both sides of a sum, the object of a method, the first
    argument of a function. A comparison or a size looks at its parts, and transforms none of them."""
    match expr:
        case Binary() if expr._op not in _COMPARISONS:
            return (expr._left, expr._right)
        case Unary():
            return (expr._operand,)
        case Subscript(_base=Attribute(_name="shape")):
            return ()
        case Subscript() | Attribute(_name="mT" | "T"):
            return (expr._base,)
        case Call(_function=Attribute(_base=base)) if not isinstance(base, Name):
            return (base,)
        case Call():
            return expr._args[:1]
        case Display():
            return expr._items
    return ()


def _remove(block: Block, taken: set[Statement]) -> None:
    block.statements = [s for s in block.statements if s not in taken]
    for statement in block.statements:
        for inner in blocks(statement):
            _remove(inner, taken)


def _return_results(block: Block, inliner: _Inliner) -> None:
    """Return all results of a module at once, if nothing else is done with them: `x, y = self.stft(x); return x, y`
    -> `return self.stft(x)`."""
    match block.statements[-2:]:
        case [Assign(form=None) as given, Return(expr=Display(_brackets="()") as returned) as last]:
            results = [variable(target) for target in given.targets if target is not None]
            is_all = len(results) > 1 and results == [variable(item) for item in returned._items]
            is_call = isinstance(given.expr, Call) and called_module(given.expr) is not None
            if is_all and is_call and all(inliner.reads[result] == 1 for result in results):
                last.expr = given.expr
                last.origin[:0] = given.origin
                inliner.begin[last] = min(inliner.begin[last], inliner.begin[given])
                block.statements.remove(given)


class _Inliner:
    def __init__(self, module: Module, texts: Mapping[object, str]) -> None:
        self.module = module
        self.texts = texts
        self.inlined: Inlined = {}
        self.taken: set[Statement] = set()
        self.place = {statement: place for place, statement in enumerate(walk_statements(module.body))}
        self.begin = dict(self.place)
        self.written: Counter[object] = Counter()  # how often each variable has been written so far
        self.seen: dict[object, dict[object, int]] = {}  # candidate -> `written` of its variables when it was computed
        self.pieces: dict[object, int] = {}  # variable -> the length of the slice that is written in its place
        self.step_names: dict[object, str] = {}  # variable -> the name of the step that gives it
        self.reads: Counter[object] = Counter()
        self.writes: Counter[object] = Counter(module.inputs)
        self.last_read: dict[object, int] = {}  # variable -> the place of the last statement that reads it
        for place, statement in enumerate(walk_statements(module.body)):
            for expr in expressions(statement):
                read = list(variables_read(expr))
                self.reads.update(read)
                self.last_read.update(dict.fromkeys(read, place))
            if isinstance(statement, Assign):
                self.writes.update(variable(t) for t in statement.targets if t is not None)

    def visit(self, block: Block, candidates: dict[object, Assign]) -> None:
        """Inline into the statements of a block. `candidates` are the assignments that may move here. Those of outer
        blocks may, too. Into a loop or a `with` only parameters move, which are the same in each iteration."""
        for statement in block.statements:
            for expr in expressions(statement):
                self.take(statement, expr, candidates)
            is_closed = isinstance(statement, ForLoop | WhileLoop | With)
            for inner in blocks(statement):
                self.visit(inner, self.constants_for(inner, candidates) if is_closed else candidates)
            if isinstance(statement, Assign):
                self.written.update(variable(t) for t in statement.targets if t is not None)
            if isinstance(statement, Assign) and len(statement.targets) == 1 and statement.targets[0] is not None:
                key = variable(statement.targets[0])
                if isinstance(statement.expr, Call) and called_module(statement.expr) is not None:
                    self.step_names[key] = self.step_name(statement.expr)
                if self.reads[key] == 1 and self.writes[key] == 1:
                    candidates[key] = statement
                    self.seen[key] = {k: self.written[k] for k in variables_behind(statement.expr, self.inlined)}

    def constants_for(self, block: Block, candidates: Mapping[object, Assign]) -> dict[object, Assign]:
        """Return the candidates that a block reads, and that are parameters or buffers: `weight = self.proj.weight`."""
        read = (key for each in walk_statements(block) for expr in expressions(each) for key in variables_read(expr))
        found = {key: candidates[key] for key in read if key in candidates}
        return {key: each for key, each in found.items() if self.is_constant(each.expr)}

    def is_constant(self, expr: Expr) -> bool:
        is_stored = isinstance(bare(expr), Ref) and self.module.stored_name(variable(expr)) is not None
        return is_stored or _is_attribute(expr)

    def take(self, statement: Statement, expr: Expr, candidates: dict[object, Assign]) -> None:
        """Inline all that fits into one expression. Attributes such as `self.embedding.weight` come first, then
        operands from the first on, since that is the main line of the computation. Slices of one variable that are
        joined are inlined all or none."""
        for part, length in self.joined_pieces(expr, candidates):
            self.move(statement, part, candidates)
            self.pieces[variable(part)] = length
        inside = {part for each in walk(expr) if isinstance(each, Comprehension) for part in walk(each._element)}
        parts = [part for part in walk(expr) if isinstance(part, Ref | Local) and variable(part) in candidates]
        parts = [part for part in parts if part not in inside] if inside else parts
        length = self.length(expr) + STATEMENT if parts else 0
        for part in sorted(parts, key=lambda part: not _is_attribute(candidates[variable(part)].expr)):
            definition = candidates[variable(part)]
            longer = length - VARIABLE + self.length(definition.expr)
            if self.fits(statement, expr, part, definition, longer):
                length = longer
                self.move(statement, part, candidates)

    def move(self, statement: Statement, part: Expr, candidates: dict[object, Assign]) -> None:
        """Write a candidate in the place of `part` of the statement."""
        definition = candidates.pop(variable(part))
        self.inlined[variable(part)] = definition.expr
        statement.origin[:0] = definition.origin
        self.taken.add(definition)
        self.begin[statement] = min(self.begin[statement], self.begin[definition])

    def joined_pieces(self, expr: Expr, candidates: Mapping[object, Assign]) -> list[tuple[Expr, int]]:
        """Return the items of a joined list in `expr`, with their lengths, if all are slices of one variable and fit
        into the line: `torch.cat((x[:, ::2], x[:, 1::2]), -1)`."""
        joined = bare(expr._args[0]) if isinstance(expr, Call) and expr._args else None
        if not isinstance(joined, Display) or not 1 < len(joined._items) <= MOST_PIECES:
            return []
        definitions = [candidates.get(variable(item)) for item in joined._items if variable(item) is not None]
        pieces = [d.expr for d in definitions if d is not None and is_piece(d.expr)]
        sources = {(key, self.written[key]) for piece in pieces for key in variables_behind(piece, self.inlined)}
        seen = {pair for item in joined._items for pair in self.seen.get(variable(item), {}).items()}
        if len(pieces) != len(joined._items) or len(sources) != 1 or seen != sources:
            return []
        lengths = [length_of_piece(piece) for piece in pieces]
        width = STATEMENT + self.length(expr) + sum(lengths) - VARIABLE * len(lengths)
        return list(zip(joined._items, lengths, strict=True)) if width <= WIDTH else []

    def fits(self, statement: Statement, expr: Expr, part: Expr, definition: Assign, length: int) -> bool:
        """Tell whether the definition may stand in the place of `part`. The line would then have this length. A line
        that is too long is refused at once: closer looks would cost too much in a line that joins thousands of
        values."""
        key = variable(part)
        if any(self.written[k] != count for k, count in self.seen[key].items()):
            return False  # a variable that it reads has another value by now
        if _is_attribute(definition.expr):
            return True
        longest = WIDTH if isinstance(statement, Return) and expr is part else LENGTH
        if length > longest or length + self.excess(expr) + self.excess(definition.expr) > WIDTH:
            return False
        small = self.length(definition.expr) <= 14
        if not small and not isinstance(statement, Return) and self.deserves_name(key, definition.expr):
            return False
        is_end = isinstance(statement, Return | Evaluate) or isinstance(definition.expr, Comprehension)
        steps = [] if is_end or _adds(expr, part) else self.steps(definition.expr)
        if steps and not self.goes_on(expr, steps) and not self.needs_new_name(expr, definition):
            return False
        self.inlined[key] = definition.expr
        nesting = self.nesting(expr)
        is_chain = all(isinstance(call._function, Member) for call in self.calls(expr))
        del self.inlined[key]
        if isinstance(statement, Branch | WhileLoop | ForLoop):
            return length <= 60 and nesting <= 3
        if steps and not is_chain:
            return length <= SHORT_LENGTH and nesting < NESTING
        return nesting <= NESTING + bool(steps)

    def calls(self, expr: Expr) -> Iterator[Call]:
        """Yield the calls in `expr`, also those in inlined parts."""
        for part in walk(expr):
            if isinstance(part, Call):
                yield part
            elif isinstance(part, Ref | Local) and variable(part) in self.inlined:
                yield from self.calls(self.inlined[variable(part)])

    def steps(self, expr: Expr) -> list[Call]:
        """Return the calls in `expr` of modules of our own: steps of the model. There are none in a sum."""
        if isinstance(bare(expr), Binary):
            return []
        return [call for call in self.calls(expr) if called_module(call) is not None]

    def goes_on(self, expr: Expr, steps: list[Call]) -> bool:
        """Tell whether `expr` only passes on the result of these steps, each of which takes that of the one before:
        `self.head(self.stages(self.stem(x)))`. Steps of one name with different numbers each get their own line."""
        names = [self.step_name(call) for call in (*self.steps(expr), *steps)]
        names += [self.step_names[key] for key in main_line(steps[-1], self.inlined) if key in self.step_names]
        return (
            len(list(variables_read(expr))) == 1
            and len(set(names)) == len(names)
            and all(len(c._args) + len(c._kwargs) == 1 for c in steps)
        )

    def step_name(self, call: Call) -> str:
        """Return the name of the module that is called, without its number: `layer1`, `layer2b` -> layer."""
        return re.sub(r"\d+[a-z]?$", "", self.module.name_of(called_module(call))[-1])

    def needs_new_name(self, expr: Expr, step: Assign) -> bool:
        """Tell whether `expr` is a further step, and this step's own line could not be `x = self.step(x)`, since `x` is
        read later: `self.output(self.dense(x), x)`."""
        source = next(iter(main_line(step.expr, self.inlined)), None)
        if called_module(expr) is None or not isinstance(source, ir.Value) or source.dtype not in NUMBERS:
            return False
        return self.last_read[source] > self.place[step]

    def deserves_name(self, key: object, expr: Expr) -> bool:
        """Tell whether a value has a good name in the graph, and its expression is long enough for a line of its
        own."""
        return self.nesting(expr) >= 2 and isinstance(key, ir.Value) and says_more(meaning(self.module, key))

    def length(self, expr: Expr) -> int:
        """Estimate the number of characters of `expr`."""
        match expr:
            case Wrapped():
                return self.length(expr._expr)
            case Ref() | Local():
                inner = self.inlined.get(variable(expr))
                return VARIABLE if inner is None else self.pieces.get(variable(expr)) or self.length(inner)
            case Member():
                return 4 + sum(len(p) + 1 for p in self.module.name_of(expr._target))
            case Attribute():
                return VARIABLE if _is_attribute(expr) else self.length(expr._base) + 1 + len(expr._name)
            case Call():
                arguments = [self.length(a) for a in expr._args]
                arguments += [len(k) + 1 + self.length(v) for k, v in expr._kwargs.items()]
                return self.length(expr._function) + 2 + sum(arguments) + 2 * max(len(arguments) - 1, 0)
            case Binary():
                return self.length(expr._left) + len(expr._op) + 2 + self.length(expr._right)
            case Name():
                return len(expr._name)
            case Literal():
                root = root_text(expr._value) if isinstance(expr._value, float) else None
                return len(self.texts.get(expr, root or repr(expr._value)))
        parts = children(expr)
        return 2 + sum(self.length(p) + 2 for p in parts) if parts else 8

    def excess(self, expr: Expr) -> int:
        """Estimate how much longer the names in `expr` are than `VARIABLE`. Those of parameters and of the model's
        inputs (`self.position_embeddings`, `pixel_values`) are known. Most others are single letters."""
        excess = 0
        for part in walk(expr):
            key = variable(part) if isinstance(part, Ref | Local) else None
            inner = self.inlined.get(key) if key is not None else None
            if isinstance(part, Attribute) and _is_attribute(part):
                excess += self.length(part._base) + 1 + len(part._name) - VARIABLE
            elif inner is not None:
                excess += self.excess(inner)
            elif (stored := self.module.stored_name(key)) is not None:
                excess += len(".".join(("self", *stored))) - VARIABLE
            elif not self.module.path and isinstance(key, ir.Value) and key in self.module.inputs:
                excess += len(meaning(self.module, key) or "x") - VARIABLE
            elif key is not None:
                excess += 2 - VARIABLE
        return excess

    def nesting(self, expr: Expr) -> int:
        """Count how deep parentheses lie in one another. Empty ones do not count."""
        match expr:
            case Ref() | Local():
                inner = self.inlined.get(variable(expr))
                return 0 if inner is None else self.nesting(inner)
            case Call():
                inside = max((self.nesting(a) for a in (*expr._args, *expr._kwargs.values())), default=-1)
                return max(self.nesting(expr._function), inside + 1)
            case Subscript():
                return max(self.nesting(p) for p in children(expr))
        return max((self.nesting(p) for p in children(expr)), default=0)


def _is_attribute(expr: Expr) -> bool:
    """Tell whether this is an attribute such as `self.embedding.weight`, which is as good a name as a variable would
    be."""
    expr = bare(expr)
    return isinstance(expr, Attribute) and isinstance(bare(expr._base), Member)


def _adds(expr: Expr, part: Expr) -> bool:
    """Tell whether `part` is a term of a sum: `x + self.attn(self.norm(x))`."""
    expr = bare(expr)
    if not isinstance(expr, Binary) or expr._op != "+":
        return False
    return variable(part) in (variable(expr._left), variable(expr._right))
