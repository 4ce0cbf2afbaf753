"""Rank the rules for names of variables: `PARAMETERS` of a forward, `LOOP_VARIABLES`, `RESULTS` of statements.

Each rule looks at a `Birth`: a variable at the statement that first writes it, with the names that it can't have.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxlift.ir.graph.marks import USUAL_NAME
from onnxlift.ir.graph.types import INTEGERS, NUMBERS
from onnxlift.lifting.code.expr import Display, Expr, Local, Ref, Subscript, bare, variable
from onnxlift.lifting.code.identifiers import identifier, unique
from onnxlift.lifting.code.naming import Candidate, Rules
from onnxlift.lifting.code.statements import Assign, Statement
from onnxlift.lifting.modules.meaning import meaning, says_more, thing
from onnxlift.lifting.modules.statements.inline import main_line
from onnxlift.lifting.ops.operand import Dims, Scalar

from .role_signs import written_by
from .words import BRANCHES, MASK, NUMBER, POSITIONS, WORDS

if TYPE_CHECKING:
    from .variables import Variables

LETTERS = ("x", "y", "z", "h", "u", "v", "w", "t", "s", "r")
INDEX = "index"
_QUANTISED = ({ir.DataType.FLOAT, ir.DataType.UINT8}, {ir.DataType.FLOAT, ir.DataType.INT8})
_IN_THE_GRAPH = "the ONNX value is called `{}`"
_GOES_ON = "it is what becomes of `{}`, which is not needed any more"


class Birth:
    """A variable that is about to get its name. Its properties are what the rules ask about it."""

    def __init__(self, variables: Variables, key: object, statement: Statement | None, taken: set[str]) -> None:
        self.variables = variables
        self.module = variables.module
        self.key = key
        self.statement = statement
        self.taken = taken

    @property
    def value(self) -> ir.Value:
        """The ONNX value that the variable holds."""
        assert isinstance(self.key, ir.Value)
        return self.key

    @property
    def assign(self) -> Assign:
        """The statement that gives the variable its value."""
        assert isinstance(self.statement, Assign)
        return self.statement

    @cached_property
    def in_graph(self) -> str | None:
        """The name that the value has in the graph, if a reader can make something of it."""
        return meaning(self.module, self.value)

    @cached_property
    def role(self) -> Candidate | None:
        """The name that the variable has elsewhere, or its use; None for a mask, because the expression tells that
        better."""
        is_mask = self.word is not None and self.word.name == MASK
        return None if is_mask else self.variables.roles.found.get(self.key)

    @cached_property
    def word(self) -> Candidate | None:
        """The word for the expression, if this variable is its main result. A sigmoid is a gate only if something is
        multiplied with it; otherwise it is a probability, and has no word."""
        word = self.variables.words.of(self.assign.expr) if written_by(self.statement)[0] is self.key else None
        is_probability = word is not None and word.name == WORDS["sigmoid"] and self.key not in self.factors
        return None if is_probability else word

    @property
    def factors(self) -> set[object]:
        """The variables that something is multiplied with."""
        return self.variables.roles.factors

    @cached_property
    def replaced(self) -> str | None:
        """The name of a variable that is read here for the last time, and goes on as the result."""
        lives, names = self.variables.lives, self.variables.names
        for other in main_line(self.assign.expr, self.variables.inlined):
            name = names.get(other)
            if name is None or name in self.taken or not isinstance(other, ir.Value):
                continue
            if not self.variables.is_last_holder(other, name) or not self._may_be_called(name):
                continue
            is_last_read = lives[other].death <= lives[self.key].birth
            if is_last_read and _are_alike(other, self.value) and not self.variables.is_number(other):
                return name
        return None

    def _may_be_called(self, name: str) -> bool:
        """Tell whether the result can go on under a name. The name of a model's input stays with that input: no other
        value is `pixel_values`. And a part of `state` is not the state."""
        if name in LETTERS:
            return True
        is_input = not self.module.path and name in self.variables.of_inputs
        return not is_input and not isinstance(bare(self.assign.expr), Subscript)

    @property
    def waits(self) -> bool:
        """True if the last thing that is done with it is to append it to something else, after another statement has
        read it."""
        life = self.variables.lives[self.key]
        return life.first_read < life.joined == life.death

    @property
    def letter(self) -> str:
        """The first letter that no variable of the forward has."""
        return next((letter for letter in LETTERS if letter not in self.variables.used), "x")


def _are_alike(value: ir.Value, other: ir.Value) -> bool:
    """Tell whether two values have one element type. Numbers may also become the bytes that stand for them."""
    return value.dtype == other.dtype or {value.dtype, other.dtype} in _QUANTISED


# Variables that stand for no value of the graph


def _hint_of_the_code(birth: Birth) -> Iterator[Candidate]:
    """Call a variable that stands for no value of the graph, such as a loop's counter, as the code that makes it
    wants."""
    assert isinstance(birth.key, Local)
    yield Candidate(identifier(birth.key._hint), "a variable of the code, for no value of the model", numbered=True)


# Parameters of a forward


def _name_of_input(birth: Birth) -> Iterator[Candidate]:
    """Call the model's own inputs by their names."""
    if not birth.module.path and birth.in_graph is not None:
        yield Candidate(birth.in_graph, "the model's input is called `{}`", (birth.value.name,), numbered=True)


def _role_of_parameter(birth: Birth) -> Iterator[Candidate]:
    """Call a parameter by its role. The main input has none, and an input of the model keeps a name that says more."""
    role = birth.variables.roles.found.get(birth.key)
    is_named = birth.value.is_graph_input() and says_more(birth.in_graph)
    if role is not None and not _is_main(birth) and not is_named:
        yield role._replace(numbered=True)


def _name_in_graph_of_parameter(birth: Birth) -> Iterator[Candidate]:
    """Call a parameter by its name in the graph, unless it is the main input."""
    if birth.in_graph is not None and says_more(birth.in_graph) and not _is_main(birth):
        yield Candidate(birth.in_graph, _IN_THE_GRAPH, (birth.value.name,), numbered=True)


def _kind_of_parameter(birth: Birth) -> Iterator[Candidate]:
    """Call numbers, positions, masks and indices by what they are."""
    operand, producer = birth.module.inputs[birth.value], birth.value.producer()
    if isinstance(operand, Scalar):
        yield Candidate("length", "it is a number", numbered=True)
    elif isinstance(operand, Dims):
        yield Candidate("size", "it is a tuple of numbers", numbered=True)
    elif producer is not None and producer.op_type == "Range":
        yield Candidate(POSITIONS, "a Range gives it", numbered=True)
    elif birth.value.dtype == ir.DataType.BOOL:
        yield Candidate(MASK, "it is of booleans", numbered=True)
    elif birth.value.dtype in INTEGERS - NUMBERS:
        yield Candidate(INDEX, "it is of integers", numbered=True)


def _next_letter(birth: Birth) -> Iterator[Candidate]:
    """Take the first letter that the forward has not used: `x` for the main input."""
    is_main = birth.key in birth.module.inputs and _is_main(birth)
    reason = "what the module is about: a letter" if is_main else "nothing says what it is: the next free letter"
    yield Candidate(birth.letter, reason, numbered=True)


def _is_main(birth: Birth) -> bool:
    """Tell whether this is the main input, a tensor of floats, which is called `x`."""
    value = birth.value
    return value is birth.variables.main and value.dtype in NUMBERS and not birth.variables.is_number(value)


# Variables of loops


def _name_in_graph_of_counter(birth: Birth) -> Iterator[Candidate]:
    """Call the variable of a loop by its name in the graph."""
    if birth.in_graph:
        yield Candidate(birth.in_graph, _IN_THE_GRAPH, (birth.value.name,), numbered=True)


# Results of statements


def _start_of_loop(birth: Birth) -> Iterator[Candidate]:
    """Call the value that a loop starts with `x`, like the variable that it is copied from, if that is not needed any
    more."""
    if isinstance(bare(birth.assign.expr), Ref) and birth.replaced in LETTERS:
        yield Candidate(str(birth.replaced), "a loop starts with `{}`, which is not needed any more", (birth.replaced,))


def _name_in_graph(birth: Birth) -> Iterator[Candidate]:
    """Call a value by its name in the graph, if that says more than the expression, and no member has this name."""
    name = birth.in_graph
    if name is not None and says_more(name) and name not in birth.variables.member_names:
        yield Candidate(name, _IN_THE_GRAPH, (birth.value.name,))


def _name_of_size(birth: Birth) -> Iterator[Candidate]:
    """Call a size by the model's own name for it, or else `size`."""
    if is_sizes(birth.assign.expr) or birth.key in birth.module.sizes:
        known = birth.value.meta.get("dims")
        if isinstance(known, str) and known.isidentifier() and len(known) > 1:
            yield Candidate(identifier(known), "the model calls this size `{}`", (known,), numbered=True)
        else:
            yield Candidate("size", "it is a size", numbered=True)


def _usual_name(birth: Birth) -> Iterator[Candidate]:
    """Call the results of some operators as everybody does, such as the states of an LSTM."""
    usual = birth.value.meta.get(USUAL_NAME)
    if usual is not None:
        yield Candidate(str(usual), "what this result is usually called")


def _name_among_pieces(birth: Birth) -> Iterator[Candidate]:
    """Call pieces by the layer that they come from: `self.gate_up_proj(x).chunk(2, -1)` -> gate, up."""
    words = birth.variables.words.of_pieces(birth.assign)
    for target, word in zip(birth.assign.targets, words, strict=False):
        if target is not None and variable(target) is birth.key and word:
            yield Candidate(word, "a piece of `{}`", ("_".join(words),))


def _branch(birth: Birth) -> Iterator[Candidate]:
    """Let queries, keys, values and gates keep their own words, unless the role says that this is only the rotated part
    of one."""
    word, role = birth.word, birth.role
    if word is not None and word.name in BRANCHES and (role is None or role.name != f"{word.name}_rot"):
        yield word


def _role(birth: Birth) -> Iterator[Candidate]:
    """Call a value by its role, if the graph has no name for it. If the name is taken, a mask or one of several results
    gets a number; others leave it to the next rule."""
    role = birth.role
    if role is not None and birth.in_graph is None:
        yield role
        plain = identifier(NUMBER.sub("", role.name))
        if len(birth.assign.targets) > 1 or plain == MASK:
            yield role._replace(name=plain, numbered=True)


def _word_of_what_waits(birth: Birth) -> Iterator[Candidate]:
    """Call a value by its own word, if it waits to be joined to what is computed from it."""
    if birth.word is not None and birth.waits:
        yield birth.word


def _main_line(birth: Birth) -> Iterator[Candidate]:
    """Let the result go on as `x`, or as the forward's first parameter: `x = self.layer1(x)`."""
    main = birth.variables.names.get(birth.variables.main)
    if len(birth.assign.targets) == 1 and birth.replaced is not None and birth.replaced in (*LETTERS, main):
        yield Candidate(birth.replaced, _GOES_ON, (birth.replaced,))


def _thing_in_graph(birth: Birth) -> Iterator[Candidate]:
    """Call a value by its name in the graph without the operation in it: `context_h` -> context."""
    named = thing(birth.in_graph) if birth.in_graph is not None else None
    if named is not None:
        yield Candidate(identifier(named), _IN_THE_GRAPH, (birth.value.name,), numbered=True)


def _new_line(birth: Birth) -> Iterator[Candidate]:
    """Begin a new line of computation as `x`, if that is free and the expression has no word of its own."""
    if birth.value.dtype in NUMBERS and (birth.word is None or birth.word.name not in WORDS.values()):
        yield Candidate("x", "nothing says what it is, and `x` is free")


def _word(birth: Birth) -> Iterator[Candidate]:
    """Call a value by the word for the expression."""
    if birth.word is not None:
        yield birth.word._replace(numbered=birth.word.name == MASK)


def _replaced(birth: Birth) -> Iterator[Candidate]:
    """Let the result go on under the name of any variable that it replaces."""
    if len(birth.assign.targets) == 1 and birth.replaced is not None:
        yield Candidate(birth.replaced, _GOES_ON, (birth.replaced,))


def _looked_up(birth: Birth) -> Iterator[Candidate]:
    """Call a value that is looked up in an embedding an index."""
    if birth.key in birth.variables.roles.indices:
        yield Candidate(INDEX, "it is looked up in an embedding", numbered=True)


def _booleans(birth: Birth) -> Iterator[Candidate]:
    """Call booleans a mask."""
    if birth.value.dtype == ir.DataType.BOOL:
        yield Candidate(MASK, "it is of booleans", numbered=True)


def _free_letter(birth: Birth) -> Iterator[Candidate]:
    """Take a letter that is free. Integers do not take over the name of the main input."""
    main = birth.variables.names.get(birth.variables.main)
    taken = birth.taken | {main} if main is not None and birth.value.dtype in INTEGERS else birth.taken
    letter = next((letter for letter in LETTERS if letter not in taken), None)
    yield Candidate(letter or unique("x", taken), "nothing says what it is: a letter that is free")


LOCALS = Rules((_hint_of_the_code,))
PARAMETERS = Rules(
    (
        _name_of_input,  # callers of the model know its inputs by their names
        _role_of_parameter,  # a module says what it uses a value for, not who made it
        _name_in_graph_of_parameter,
        _kind_of_parameter,
        _next_letter,
    )
)
LOOP_VARIABLES = Rules((_name_in_graph_of_counter, _next_letter))
RESULTS = Rules(
    (
        _start_of_loop,  # `x = x` before a loop is not written at all
        _name_in_graph,  # a person has chosen it
        _name_of_size,  # before the rules that name tensors: a size is a number
        _usual_name,
        _name_among_pieces,  # pieces are named together, or not at all
        _branch,  # before roles: `key` is named by its layer, not by the callee's word for it
        _role,  # only if the graph has no name for it; the use says more than the operation
        _word_of_what_waits,  # if it took `x`, the values computed from it could not be `x`
        _main_line,  # a straight line of computation stays `x`, whatever its operations are
        _thing_in_graph,
        _new_line,
        _word,
        _replaced,
        _looked_up,
        _booleans,
        _free_letter,
    )
)


def is_sizes(expr: Expr) -> bool:
    """Tell whether an expression gives a Python number, or a tuple of them."""
    return isinstance(expr, Scalar) or is_tuple(expr)


def is_tuple(expr: Expr) -> bool:
    """Tell whether an expression gives a tuple."""
    return isinstance(expr, Display) and expr._brackets == "()"
