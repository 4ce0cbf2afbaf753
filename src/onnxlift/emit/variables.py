"""Names of the variables in one `forward`.

A value gets, in this order: its name in the graph, if that means something to a reader; the name of the variable that
it replaces, if that one is read here for the last time (`x = self.layer1(x)`); the word for what it is (`query`,
`mask`, `scores`); a plain letter. Two values share a name only if the first is dead when the second is born.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import onnx_ir as ir

from ..code.expr import Attribute, Binary, Call, Expr, Local, Member, Name, Ref, Subscript, Wrapped, walk
from ..code.statements import Assign, Block, ForLoop, Statement, WhileLoop, blocks, expressions
from ..ir.types import INTEGERS
from ..ops.operand import Dims, Scalar
from ..tree.names import identifier, unique
from .inline import Inlined
from .module import Module

LETTERS = ("x", "y", "z", "h", "u", "v", "w", "t", "s", "r")
WORDS = {
    "scaled_dot_product_attention": "attn",
    "softmax": "weights",
    "@": "scores",
    "arange": "positions",
    "sigmoid": "gate",
    "cos": "cos",
    "sin": "sin",
    "rsqrt": "scale",
    "==": "mask",
    ">": "mask",
    "<": "mask",
    ">=": "mask",
    "<=": "mask",
    "&": "mask",
    "|": "mask",
    "tril": "mask",
    "triu": "mask",
}


@dataclass
class _Life:
    """From the statement that first writes a variable to the last one that may read it."""

    birth: int
    death: int
    statement: Statement | None = None


class Variables:
    """Names for all variables of a module's forward. `meaning` gives the name that a value's own name suggests."""

    def __init__(self, module: Module, inlined: Inlined, meaning: Callable[[ir.Value], str | None]) -> None:
        self.module = module
        self.inlined = inlined
        self.meaning = meaning
        self.names: dict[object, str] = {}
        self.lives: dict[object, _Life] = {}
        self.clock = 0
        self._measure_lives()
        self._assign_names()

    @property
    def parameters(self) -> list[str]:
        """The names of forward's parameters, in order."""
        return [self.names[value] for value in self.module.inputs]

    def _measure_lives(self) -> None:
        for value in self.module.inputs:
            self.lives[value] = _Life(0, 0)
        self._visit(self.module.body)

    def _visit(self, block: Block) -> None:
        for statement in block.statements:
            self.clock += 1
            now = self.clock
            for expr in expressions(statement):
                for key in self.read_keys(expr):
                    if key in self.lives:
                        self.lives[key].death = max(self.lives[key].death, now)
            if isinstance(statement, Assign | ForLoop):
                for target in statement.targets:
                    if target is not None:
                        self.lives.setdefault(_key(target), _Life(now, now, statement))
            for inner in blocks(statement):
                self._visit(inner)
            if isinstance(statement, ForLoop | WhileLoop):
                self._prolong(statement, now)

    def _prolong(self, loop: ForLoop | WhileLoop, start: int) -> None:
        """The next iteration reads again what this one read: outer variables live until the loop ends."""
        for key, life in self.lives.items():
            if life.birth <= start and life.death >= start:
                life.death = max(life.death, self.clock)
        for key in _written_in(loop.body):
            life = self.lives[key]
            if life.birth < start:
                life.death = max(life.death, self.clock)

    def read_keys(self, expr: Expr) -> Iterable[object]:
        for part in walk(expr):
            if isinstance(part, Ref | Local):
                inner = self.inlined.get(_key(part))
                if inner is None:
                    yield _key(part)
                else:
                    yield from self.read_keys(inner)

    def _assign_names(self) -> None:
        holder: dict[str, object] = {}

        def taken_at(birth: int) -> set[str]:
            return {name for name, key in holder.items() if self.lives[key].death > birth}

        for key, life in sorted(self.lives.items(), key=lambda item: item[1].birth):
            if key in self.module.constants:
                continue
            taken = taken_at(life.birth) if life.birth else set(holder)
            if life.birth and isinstance(life.statement, Assign | ForLoop):
                # The other targets of the same statement are written at the same moment.
                taken |= {self.names[_key(t)] for t in life.statement.targets if t is not None and _key(t) in self.names}
            name = self._choose(key, life, taken, holder)
            self.names[key] = name
            holder[name] = key

    def _choose(self, key: object, life: _Life, taken: set[str], holder: dict[str, object]) -> str:
        if isinstance(key, Local):
            return unique(identifier(key._hint), taken)
        assert isinstance(key, ir.Value)
        meaning = self.meaning(key)
        if life.birth == 0:
            return unique(meaning or self._parameter_word(key), taken)
        if meaning is not None and meaning not in taken:
            return meaning
        statement = life.statement
        if isinstance(statement, ForLoop):
            return unique(meaning or self._letter(), taken)
        assert isinstance(statement, Assign)
        if len(statement.targets) == 1 and not self._is_number(key):
            for other in self.read_keys(statement.expr):
                name = self.names.get(other)
                if name is None or self.lives[other].death > life.birth or self._is_number(other):
                    continue
                if holder.get(name) is other and isinstance(other, ir.Value):
                    if name not in taken and (other.dtype == key.dtype):
                        return name
        if meaning is not None:
            return unique(meaning, taken)
        return self._invent(statement, key, taken)

    def _is_number(self, key: object) -> bool:
        return isinstance(self.module.inputs.get(key), Scalar | Dims) if isinstance(key, ir.Value) else False

    def _parameter_word(self, value: ir.Value) -> str:
        operand = self.module.inputs[value]
        if isinstance(operand, Scalar):
            return "length"
        if isinstance(operand, Dims):
            return "size"
        return "mask" if value.dtype == ir.DataType.BOOL else "index" if value.dtype in INTEGERS else self._letter()

    def _letter(self) -> str:
        used = set(self.names.values())
        return next((letter for letter in LETTERS if letter not in used), "x")

    def _invent(self, statement: Assign, key: ir.Value, taken: set[str]) -> str:
        word = _word(statement.expr, self.module)
        if word is not None and word not in taken:
            return word
        if key.dtype == ir.DataType.BOOL:
            return unique("mask", taken)
        for letter in LETTERS:
            if letter not in taken:
                return letter
        return unique(word or "x", taken)


def _word(expr: Expr, module: Module) -> str | None:
    """What an expression gives, judged by its outermost operation."""
    while isinstance(expr, Wrapped):
        expr = expr._expr
    match expr:
        case Call() if isinstance(expr._function, Member):
            parts = [p for p in module.name_of(expr._function._target) if not p.isdigit()]
            return _spoken(parts[-1]) if parts else None
        case Call() if isinstance(expr._function, Attribute):
            word = WORDS.get(expr._function._name)
            return word or _word(expr._function._base, module)
        case Binary():
            return WORDS.get(expr._op)
        case Subscript():
            return _word(expr._base, module)
        case Name():
            return None
    return None


def _spoken(attribute: str) -> str:
    """`q_proj` -> q: the value, not the layer."""
    for suffix in ("_proj", "_linear", "_layer", "_fc"):
        if attribute.endswith(suffix) and len(attribute) > len(suffix):
            attribute = attribute[: -len(suffix)]
    return identifier(attribute.lower() if len(attribute) > 1 else attribute)


def _key(target: Ref | Local) -> object:
    return target._key if isinstance(target, Ref) else target


def _written_in(block: Block) -> Iterable[object]:
    for statement in block.statements:
        if isinstance(statement, Assign):
            yield from (_key(t) for t in statement.targets if t is not None)
        for inner in blocks(statement):
            yield from _written_in(inner)
