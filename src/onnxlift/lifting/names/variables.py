"""Names of the variables in one `forward`.

A value gets, in this order: its name in the graph, if that means something to a reader; the name of the variable that
it replaces, if that one is read here for the last time (`x = self.layer1(x)`); the word for what it is (`query`,
`mask`, `scores`); a plain letter. `x` is what is being worked on: a value that waits to be joined to what becomes of
it, as in a U-Net, is called by its own word. Two values share a name only if the first is dead when the second is born.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from onnxlift.ir.graph.marks import USUAL_NAME
from onnxlift.ir.graph.types import FLOATS, INTEGERS, type_of
from onnxlift.lifting.code.expr import (
    Attribute,
    Binary,
    Call,
    Display,
    Expr,
    Literal,
    Local,
    Member,
    Ref,
    Subscript,
    Unary,
    Wrapped,
    bare,
    variable,
    walk,
)
from onnxlift.lifting.code.identifiers import identifier, unique
from onnxlift.lifting.code.reads import variables_behind
from onnxlift.lifting.code.statements import (
    Assign,
    Block,
    ForLoop,
    Statement,
    Target,
    WhileLoop,
    blocks,
    expressions,
    walk_statements,
)
from onnxlift.lifting.modules.inline import Inlined, main_line
from onnxlift.lifting.modules.meaning import is_counted, meaning, says_more, thing
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.ops.operand import Dims, Scalar, Tensor

from .attention_roles import AttentionRoles
from .variable_roles import (
    MASK,
    POSITIONS,
    WORDS,
    Hints,
    Roles,
    counted_in,
    is_called_again,
    is_hiding,
    is_mask,
    spoken,
    written_by,
)

LETTERS = ("x", "y", "z", "h", "u", "v", "w", "t", "s", "r")
# What is computed side by side from one value keeps its own name, even where it could take that value's.
BRANCHES = frozenset({"q", "k", "v", "query", "key", "value", "gate", "up", "queries", "keys", "values", "Q", "K", "V"})
# Layers at the start of a line of computation, or on it, whose names say nothing about what the line is.
_ON_THE_LINE = re.compile(r"(?i)norm|^ln(_?\d*|_\w+)$|^embed|embeddings?$")
NUMBER = re.compile(r"_\d+$")  # sets apart what has one name
INDEX = "index"
# Positions as the rows of a matrix; how far positions are from each other, and that without a sign.
ROWS, OFFSETS, DISTANCE = "rows", "offsets", "distance"


@dataclass
class _Life:
    """From the statement that first writes a variable to the last one that may read it."""

    birth: int
    death: int
    statement: Statement | None = None
    first_read: int = 0
    joined: int = 0  # when it was last appended to something else


class Variables:
    """Names for all variables of a module's forward, as `names` (by value) and `parameters`."""

    def __init__(self, module: Module, inlined: Inlined, hints: Hints) -> None:
        self.module = module
        self.inlined = inlined
        self.names: dict[object, str] = {}
        self.attention = AttentionRoles(module, inlined)
        roles = Roles(module, inlined, hints, self.attention)
        self.hints, self.factors, self.indices = roles.found, roles.factors, roles.indices
        self.member_names = {path[0] for path in module.members}
        self.main = next(iter(module.inputs), None)  # the parameter that a forward is about
        self.lives: dict[object, _Life] = {}
        self.used: set[str] = set()
        # The tensor that says where tensors belong (`x.device`). Only another tensor may take over its name.
        self.anchor = next((v for v, o in module.inputs.items() if isinstance(o, Tensor) and self._is_tensor(v)), None)
        self.clock = 0
        self._measure_lives()
        self._assign_names()

    @property
    def parameters(self) -> list[str]:
        """The names of forward's parameters, in order."""
        return [self.names[value] for value in self.module.inputs]

    @cached_property
    def _of_inputs(self) -> set[str]:
        return {*self.parameters}

    def _measure_lives(self) -> None:
        for value in self.module.inputs:
            self.lives[value] = _Life(0, 0)
        self._visit(self.module.body)

    def _visit(self, block: Block) -> None:
        for statement in block.statements:
            counted = [target for expr in expressions(statement) for target in counted_in(expr, self.inlined)]
            self.clock += 2 if counted else 1
            now = self.clock
            # They are alive as long as anything that the statement reads or writes.
            self.lives.update((target, _Life(now - 1, now + 1)) for target in counted)
            for expr in expressions(statement):
                for key in variables_behind(expr, self.inlined):
                    if key in self.lives:
                        self.lives[key].death = max(self.lives[key].death, now)
                        self.lives[key].first_read = self.lives[key].first_read or now
                for key in self._appended(expr):
                    if key in self.lives:
                        self.lives[key].joined = now
            for key in written_by(statement):
                self.lives.setdefault(key, _Life(now, now, statement))
            for inner in blocks(statement):
                self._visit(inner)
            if isinstance(statement, ForLoop | WhileLoop):
                self._prolong(statement, now)

    def _prolong(self, loop: ForLoop | WhileLoop, start: int) -> None:
        """The next iteration reads again what this one read or wrote: outer variables live until the loop ends."""
        for statement in (loop, *walk_statements(loop.body)):
            reads = (key for expr in expressions(statement) for key in variables_behind(expr, self.inlined))
            for key in (*reads, *written_by(statement)):
                if key in self.lives and self.lives[key].birth <= start:
                    self.lives[key].death = self.clock

    def _assign_names(self) -> None:
        holder: dict[str, object] = {}  # name -> the variable that had it last
        alive: set[str] = set()  # names whose value is still needed after this statement
        ends: list[tuple[int, str]] = []
        for key, life in sorted(self.lives.items(), key=lambda item: item[1].birth):
            if key in self.module.constants:
                continue
            while life.birth and ends and ends[0][0] <= life.birth:
                _, name = heapq.heappop(ends)
                if self.lives[holder[name]].death <= life.birth:
                    alive.discard(name)
            taken = alive
            together = written_by(life.statement)
            if len(together) > 1:  # at the same moment
                taken = alive | {self.names[other] for other in together if other in self.names}
            if self.anchor in self.names and not self._is_tensor(key):
                taken = taken | {self.names[self.anchor]}
            name = self._choose(key, life, taken, holder)
            self.names[key] = name
            self.used.add(name)
            holder[name] = key
            alive.add(name)
            heapq.heappush(ends, (life.death, name))

    def _is_tensor(self, key: object) -> bool:
        """Whether a variable has a device: not so numbers, sizes, lists and strings."""
        if not isinstance(key, ir.Value) or self._is_number(key):
            return False
        return type_of(key).kind == "tensor" and key.dtype != ir.DataType.STRING

    def _choose(self, key: object, life: _Life, taken: set[str], holder: dict[str, object]) -> str:
        if isinstance(key, Local):
            return unique(identifier(key._hint), taken)
        assert isinstance(key, ir.Value)
        wanted = meaning(self.module, key)
        if life.birth == 0:
            return unique(self._parameter_name(key, wanted), taken)
        statement = life.statement
        if isinstance(statement, ForLoop):
            return unique(wanted or self._letter(), taken)
        assert isinstance(statement, Assign)
        if isinstance(bare(statement.expr), Ref):
            # The start of a loop: `x` itself, if nothing else needs it.
            replaced = self._replaced(key, statement, life, taken, holder)
            if replaced in LETTERS:
                return str(replaced)
        if wanted is not None and says_more(wanted) and wanted not in taken and wanted not in self.member_names:
            return wanted
        if is_sizes(statement.expr) or key in self.module.sizes:
            return unique(_size_word(key), taken)
        usual = key.meta.get(USUAL_NAME)
        if usual is not None and usual not in taken:
            return str(usual)
        together = dict(zip(map(_key, statement.targets), self._words(statement), strict=False))
        if together.get(key, "") not in {*taken, ""}:
            return together[key]
        word = self._word(statement.expr) if written_by(statement)[0] is key else None  # the main result
        if word == WORDS["sigmoid"] and key not in self.factors:
            word = None  # a probability
        hint = self.hints.get(key) if word != MASK else None
        if word in BRANCHES and word not in taken and hint != f"{word}_rot":
            return str(word)
        if hint is not None and wanted is None:
            plain = identifier(NUMBER.sub("", hint))
            if hint not in taken:
                return hint
            if len(statement.targets) > 1 or plain == MASK:
                return unique(plain, taken)  # a mask, or one of several results, is set apart by a number, not a letter
        replaced = self._replaced(key, statement, life, taken, holder) if len(statement.targets) == 1 else None
        waits = life.first_read < life.joined == life.death
        if waits and word is not None and word not in taken:
            return word
        if replaced is not None and (replaced in LETTERS or replaced == self.names.get(self.main)):
            return replaced
        named = thing(wanted) if wanted is not None else None
        if named is not None:
            return unique(identifier(named), taken)
        if "x" not in taken and key.dtype in FLOATS and (word is None or word not in WORDS.values()):
            return "x"
        if word is not None and (word not in taken or word == MASK):
            return unique(word, taken)
        return replaced or (unique(INDEX, taken) if key in self.indices else self._invent(key, taken))

    def _replaced(
        self, key: ir.Value, statement: Assign, life: _Life, taken: set[str], holder: dict[str, object]
    ) -> str | None:
        """The name of a variable that is read here for the last time, and lives on in the result."""
        for other in main_line(statement.expr, self.inlined):
            name = self.names.get(other)
            if name is None or name in taken or not isinstance(other, ir.Value) or holder.get(name) is not other:
                continue
            if not self.module.path and name not in LETTERS and name in self._of_inputs:
                continue  # the model's inputs are what they are called: no other value is `pixel_values`
            if isinstance(bare(statement.expr), Subscript) and name not in LETTERS:
                continue  # nor is a part of `state` the state
            if self.lives[other].death <= life.birth and other.dtype == key.dtype and not self._is_number(other):
                return name
        return None

    def _appended(self, expr: Expr) -> Iterable[object]:
        """`torch.cat((a, b, c))` -> b, c."""
        for part in walk(expr):
            match part:
                case Ref() | Local():
                    inner = self.inlined.get(variable(part))
                    if inner is not None:
                        yield from self._appended(inner)
                case Call(_function=Attribute(_name="cat"), _args=[Display(_items=[_, *others]), *_]):
                    for other in others:
                        yield from main_line(other, self.inlined)

    def _parameter_name(self, value: ir.Value, wanted: str | None) -> str:
        """The model's own inputs keep their names; a module's are called by what they are, not by who made them."""
        if not self.module.path and wanted is not None:
            return wanted
        is_main = value is self.main and value.dtype in FLOATS and not self._is_number(value)
        hint = self.hints.get(value)
        if hint is not None and not is_main and not (value.is_graph_input() and says_more(wanted)):
            return hint
        if is_main or wanted is None or not says_more(wanted):
            return self._parameter_word(value)
        return wanted

    def _is_number(self, key: object) -> bool:
        """Whether a variable holds a Python number, not a tensor."""
        if isinstance(key, ir.Value) and isinstance(self.module.inputs.get(key), Scalar | Dims):
            return True
        if key in self.module.sizes:
            return True
        life = self.lives.get(key)
        return life is not None and isinstance(life.statement, Assign) and is_sizes(life.statement.expr)

    def _parameter_word(self, value: ir.Value) -> str:
        operand = self.module.inputs[value]
        if isinstance(operand, Scalar):
            return "length"
        if isinstance(operand, Dims):
            return "size"
        producer = value.producer()
        if producer is not None and producer.op_type == "Range":
            return WORDS["arange"]
        return MASK if value.dtype == ir.DataType.BOOL else INDEX if value.dtype in INTEGERS else self._letter()

    def _letter(self) -> str:
        return next((letter for letter in LETTERS if letter not in self.used), "x")

    def word(self, expr: Expr) -> str | None:
        """What an expression is called: the variable that it is, or what its outermost operation gives."""
        key = variable(expr)
        if key is not None and key not in self.inlined:
            return self.names.get(key)
        return self._word(expr)

    def _word(self, expr: Expr) -> str | None:
        """What an expression gives, judged by its outermost operation that says something."""
        match expr:
            case Wrapped():
                return self._word(expr._expr)
            case Ref() | Local():
                inner = self.inlined.get(variable(expr))
                return None if inner is None else self._word(inner)
            case Call() if is_called_again(expr):
                return None  # several things would have the name of the module
            case Call() if isinstance(expr._function, Member):
                name = self.module.name_of(expr._function._target)[-1]
                return None if name.isdigit() or is_counted(name) or _ON_THE_LINE.search(name) else spoken(name)
            case Call() if is_mask(expr):
                return MASK
            case Call(_function=Attribute(_name="abs", _base=base)) if self._are_all(base, OFFSETS):
                return DISTANCE
            case Call(_function=Attribute(_name="unsqueeze", _base=base), _args=[Literal(_value=1)]) if self._are_all(
                base, POSITIONS
            ):
                return ROWS
            case Call() if isinstance(expr._function, Attribute):
                return WORDS.get(expr._function._name) or self._word(expr._function._base)
            case Binary(_op="@") if self._is_weights(expr._left) or self.attention.is_weights(expr._right):
                return WORDS["scaled_dot_product_attention"]
            case Binary(_op="@") if not self.attention.is_scores(expr):
                return None
            case Binary(_op="-", _left=left, _right=right) if all(
                self._are_all(side, POSITIONS, ROWS) for side in (left, right)
            ):
                return OFFSETS
            case Binary(_op="*", _right=right) if is_hiding(right):
                return MASK
            case Binary(_op="+" | "-" | "*" | "/"):
                word = self._word(expr._left)
                return word if word == WORDS["@"] or isinstance(bare(expr._right), Literal) else None
            case Binary():
                return WORDS.get(expr._op)
            case Unary():
                return self._word(expr._operand)
            case Subscript():
                return self._word(expr._base)
        return None

    def _is_weights(self, expr: Expr) -> bool:
        """Whether an expression gives the weights of an attention, in whatever shape."""
        names = {self._word(expr), *(self.names.get(key) for key in main_line(expr, self.inlined))}
        return WORDS["softmax"] in names

    def _words(self, statement: Assign) -> list[str]:
        """`self.gate_up_proj(x).chunk(2, -1)` -> gate, up: what pieces are called together."""
        match bare(statement.expr):
            case Call(_function=Attribute(_name="chunk" | "split" | "unbind", _base=base)):
                words = (self._word(base) or "").split("_")
                return words if 1 < len(words) == len(statement.targets) and {*words} <= BRANCHES else []
        return []

    def _are_all(self, expr: Expr, *words: str) -> bool:
        """Whether all that an expression is made of has one of these names, or would have."""
        names = {NUMBER.sub("", self.names.get(key, "")) for key in main_line(expr, self.inlined)}
        return self._word(expr) in words or (bool(names) and names.issubset(words))

    def _invent(self, key: ir.Value, taken: set[str]) -> str:
        if key.dtype == ir.DataType.BOOL:
            return unique(MASK, taken)
        if key.dtype in INTEGERS and self.main in self.names:
            taken = taken | {self.names[self.main]}  # what is worked on does not become a count
        for letter in LETTERS:
            if letter not in taken:
                return letter
        return unique("x", taken)


def _key(target: Target) -> object:
    return None if target is None else variable(target)


def is_sizes(expr: Expr) -> bool:
    """Whether an expression gives a Python number, or a tuple of them."""
    return isinstance(expr, Scalar) or (isinstance(expr, Display) and expr._brackets == "()")


def _size_word(value: ir.Value) -> str:
    """The name of a size: the model's own, if it is one that the model names."""
    known = value.meta.get("dims")
    return identifier(known) if isinstance(known, str) and known.isidentifier() and len(known) > 1 else "size"
