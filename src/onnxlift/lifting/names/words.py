"""Find the word for the result of an expression by its operations: `softmax` gives weights, `self.q_proj(x)` gives q.

The outermost operation that says something decides. Each kind of expression has a list of rules. The first rule that
applies decides. It may also decide that there is no word (`_SILENT`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from keyword import iskeyword
from typing import Any

from onnxlift.ir.origin.names import is_counted_operation
from onnxlift.lifting.code.expr import (
    Attribute,
    Binary,
    Call,
    Expr,
    Literal,
    Local,
    Member,
    Ref,
    Subscript,
    Unary,
    bare,
    variable,
)
from onnxlift.lifting.code.identifiers import identifier
from onnxlift.lifting.code.naming import Candidate
from onnxlift.lifting.code.statements import Assign
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.modules.signatures.prune import called_module
from onnxlift.lifting.modules.statements.inline import Inlined, main_line
from onnxlift.lifting.ops.layers import Layer

from .attention_roles import AttentionRoles

MASK = "mask"
# Positions, positions as the rows of a matrix, differences of positions, and their absolute values.
POSITIONS, ROWS, OFFSETS, DISTANCE = "positions", "rows", "offsets", "distance"
WORDS = {
    "scaled_dot_product_attention": "attn",
    "softmax": "weights",
    "@": "scores",
    "arange": POSITIONS,
    "sigmoid": "gate",
    "cos": "cos",
    "sin": "sin",
    "rsqrt": "scale",
    **dict.fromkeys(("==", "!=", ">", "<", ">=", "<=", "&", "|", "tril", "triu"), MASK),
}
# Values that are computed side by side from one value. Each keeps its own word, even where the name of that one value
# is free.
BRANCHES = frozenset({"q", "k", "v", "query", "key", "value", "gate", "up", "queries", "keys", "values", "Q", "K", "V"})
NUMBER = re.compile(r"_\d+$")  # tells apart variables of the same name
_ATTENTION = re.compile(r"(?i)(attention|attn)$")
# Norms and embeddings. Their names say nothing about the values that go through them.
_ON_THE_LINE = re.compile(r"(?i)norm|^ln(_?\d*|_\w+)$|^embed|embeddings?$")
_HIDDEN = -1e4  # a score this low or lower does not count
_SILENT = Candidate("", "nothing is said by this")


class Words:
    """The words for the expressions of one forward. `names` are the names that its variables have so far."""

    def __init__(
        self, module: Module, inlined: Inlined, attention: AttentionRoles, names: Mapping[object, str]
    ) -> None:
        self.module = module
        self.inlined = inlined
        self.attention = attention
        self.names = names

    def of(self, expr: Expr) -> Candidate | None:
        """Return the word for the result of an expression, if its operations say something."""
        expr = bare(expr)
        for rule in _RULES.get(type(expr), ()):
            word = rule(self, expr)
            if word is not None:
                return word if word.name else None
        return None

    def text_of(self, expr: Expr) -> str | None:
        """Return the same word without its reason."""
        word = self.of(expr)
        return None if word is None else word.name

    def of_pieces(self, statement: Assign) -> list[str]:
        """Return the words for pieces that are named together: `self.gate_up_proj(x).chunk(2, -1)` -> gate, up. There
        are none unless each piece gets a word, and all words are in `BRANCHES`."""
        match bare(statement.expr):
            case Call(_function=Attribute(_name="chunk" | "split" | "unbind", _base=base)):
                words = (self.text_of(base) or "").split("_")
                return words if 1 < len(words) == len(statement.targets) and {*words} <= BRANCHES else []
        return []

    def are_all(self, expr: Expr, *words: str) -> bool:
        """Tell whether the word for an expression is one of `words`, or all variables that it is made of are called
        so."""
        names = {NUMBER.sub("", self.names.get(key, "")) for key in main_line(expr, self.inlined)}
        return self.text_of(expr) in words or (bool(names) and names.issubset(words))

    def is_weights(self, expr: Expr) -> bool:
        """Tell whether an expression gives the weights of an attention, whatever their shape."""
        names = {self.text_of(expr), *(self.names.get(key) for key in main_line(expr, self.inlined))}
        return WORDS["softmax"] in names


# Calls


def _of_several_calls(words: Words, call: Call) -> Candidate | None:
    """Give no word to the result of a module that is called several times: several values would get the same name."""
    return _SILENT if is_called_again(call) else None


def _of_member(words: Words, call: Call) -> Candidate | None:
    """Call the result of a layer or module by its name. A number, a counted operation, a norm, an embedding or a
    rounding gives no word."""
    if not isinstance(call._function, Member):
        return None
    target = call._function._target
    name = words.module.name_of(target)[-1]
    if isinstance(target, Layer) and target.kind.family == "rounding":
        return _SILENT
    if name.isdigit() or is_counted_operation(name) or _ON_THE_LINE.search(name):
        return _SILENT
    return Candidate(spoken(name), "the result of `self.{}`", (name,))


def _of_two_numbers(words: Words, call: Call) -> Candidate | None:
    """Call a choice between two numbers a mask: `torch.where(mask, 0.0, -inf)`."""
    return Candidate(MASK, "one of two numbers, by a condition") if _is_choice_of_numbers(call) else None


def _of_distances(words: Words, call: Call) -> Candidate | None:
    """Call the absolute value of offsets a distance."""
    match call:
        case Call(_function=Attribute(_name="abs", _base=base)) if words.are_all(base, OFFSETS):
            return Candidate(DISTANCE, "how far positions are from each other")
    return None


def _of_rows(words: Words, call: Call) -> Candidate | None:
    """Call positions `rows` where they become the rows of a matrix: `positions.unsqueeze(1)`."""
    match call:
        case Call(_function=Attribute(_name="unsqueeze", _base=base), _args=[Literal(_value=1)]):
            return Candidate(ROWS, "positions as the rows of a matrix") if words.are_all(base, POSITIONS) else None
    return None


def _of_function(words: Words, call: Call) -> Candidate | None:
    """Call the result of a function by the word for the function, or else by the word for the value that it is called
    on."""
    if not isinstance(call._function, Attribute):
        return None
    word = WORDS.get(call._function._name)
    if word is not None:
        return Candidate(word, "what `{}` gives", (call._function._name,))
    return words.of(call._function._base)


# Operators


def _of_weighted_values(words: Words, product: Binary) -> Candidate | None:
    """Call the product of attention weights and something else the result of an attention."""
    if product._op != "@" or not (words.is_weights(product._left) or words.attention.is_weights(product._right)):
        return None
    return Candidate(WORDS["scaled_dot_product_attention"], "the values of an attention, weighted")


def _of_scores(words: Words, product: Binary) -> Candidate | None:
    """Call a product scores if a softmax is taken of it. Any other product has no word."""
    if product._op != "@":
        return None
    return Candidate(WORDS["@"], "a softmax is taken of it") if words.attention.is_scores(product) else _SILENT


def _of_offsets(words: Words, difference: Binary) -> Candidate | None:
    """Call the difference of two positions offsets."""
    sides = (difference._left, difference._right)
    if difference._op == "-" and all(words.are_all(side, POSITIONS, ROWS) for side in sides):
        return Candidate(OFFSETS, "a difference of positions")
    return None


def _of_hiding(words: Words, product: Binary) -> Candidate | None:
    """Call a product with a huge negative number a mask."""
    if product._op == "*" and is_hiding(product._right):
        return Candidate(MASK, "scores that it is added to do not count")
    return None


def _of_arithmetic(words: Words, sum_: Binary) -> Candidate | None:
    """Return the word of the left operand, if that is scores or the right operand is a number. Other sums and products
    have no word."""
    if sum_._op not in ("+", "-", "*", "/"):
        return None
    word = words.of(sum_._left)
    if word is not None and (word.name == WORDS["@"] or isinstance(bare(sum_._right), Literal)):
        return word
    return _SILENT


def _of_operator(words: Words, operation: Binary) -> Candidate | None:
    """Call the result of an operator by the word for the operator: comparisons give masks."""
    word = WORDS.get(operation._op)
    return None if word is None else Candidate(word, "what `{}` gives", (operation._op,))


def _of_inlined(words: Words, ref: Ref | Local) -> Candidate | None:
    """Call a value that has no variable by the expression that stands in its place."""
    inner = words.inlined.get(variable(ref))
    return None if inner is None else words.of(inner)


def _of_operand(words: Words, unary: Unary) -> Candidate | None:
    """Give a negated or inverted value the word that it had before."""
    return words.of(unary._operand)


def _of_base(words: Words, subscript: Subscript) -> Candidate | None:
    """Call a part of a value like the whole value."""
    return words.of(subscript._base)


# The rules for each kind of expression, in this order: rules that forbid a word, rules that look at where an operation
# stands, rules that look at the operation alone.
_RULES: Mapping[type[Expr], Sequence[Callable[[Words, Any], Candidate | None]]] = {
    Ref: (_of_inlined,),
    Local: (_of_inlined,),
    Call: (_of_several_calls, _of_member, _of_two_numbers, _of_distances, _of_rows, _of_function),
    Binary: (_of_weighted_values, _of_scores, _of_offsets, _of_hiding, _of_arithmetic, _of_operator),
    Unary: (_of_operand,),
    Subscript: (_of_base,),
}


def _is_choice_of_numbers(call: Call) -> bool:
    """Tell whether a condition chooses between two numbers: `torch.where(mask, 0.0, -inf)`."""
    match call:
        case Call(_function=Attribute(_name="where"), _args=[_, then, otherwise]):
            return isinstance(bare(then), Literal) and isinstance(bare(otherwise), Literal)
    return False


def is_hiding(expr: Expr) -> bool:
    """Tell whether this is a number so low that a score does not count any more when it is added."""
    number = bare(expr)
    return isinstance(number, Literal) and isinstance(number._value, float) and number._value <= _HIDDEN


def is_called_again(expr: Expr) -> bool:
    """Tell whether the expression calls a module that is called several times, outside of a loop."""
    child = called_module(expr)
    return child is not None and child.calls > 1


def spoken(attribute: str) -> str:
    """Return the word for the result of a layer with this name: `q_proj` -> q, `SelfAttention` -> attn."""
    if _ATTENTION.search(attribute):
        return WORDS["scaled_dot_product_attention"]
    for suffix in ("_proj", "_linear", "_layer", "_fc"):
        if attribute.endswith(suffix) and not iskeyword(attribute.removesuffix(suffix) or "in"):
            attribute = attribute.removesuffix(suffix)
    return identifier(attribute.lower() if len(attribute) > 1 else attribute)
