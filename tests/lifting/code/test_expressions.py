"""Expressions as text: whatever is built, Python reads back as the same tree."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxlift.lifting.code.expr import (
    Attribute,
    Binary,
    Call,
    Comprehension,
    Display,
    Expr,
    Literal,
    Local,
    Name,
    SliceExpr,
    Star,
    Subscript,
    Ternary,
    Unary,
    Wrapped,
    both,
    builtin,
    either,
    equal,
    negate,
    to_expr,
    unequal,
)
from onnxlift.lifting.code.expr import torch as torch_
from onnxlift.lifting.code.render import Renderer, float_text
from onnxlift.lifting.code.roots import root_of_single

VARIABLES: dict[str, Any] = {"a": 7, "b": -3, "c": 2, "flag": True, "items": [5, -6, 7, 8]}
NAMES = {"torch": torch, **VARIABLES}
OPERATORS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "is": operator.is_, "is not": operator.is_not, "|": operator.or_, "^": operator.xor, "&": operator.and_,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "/": operator.truediv, "<<": operator.lshift, ">>": operator.rshift, "**": operator.pow,
}  # fmt: skip


def text(expr: Any) -> str:
    return Renderer(lambda leaf: leaf._hint if isinstance(leaf, Local) else repr(leaf)).text(to_expr(expr))


def value(expr: Expr) -> Any:
    """What `expr` means, computed from the tree: no text, no precedence."""
    match expr:
        case Literal():
            return expr._value
        case Name():
            return VARIABLES[expr._name]
        case Unary():
            operand = value(expr._operand)
            return {"-": operator.neg, "~": operator.invert, "not ": operator.not_}[expr._op](operand)
        case Binary() if expr._op == "and":
            return value(expr._left) and value(expr._right)
        case Binary() if expr._op == "or":
            return value(expr._left) or value(expr._right)
        case Binary():
            return OPERATORS[expr._op](value(expr._left), value(expr._right))
        case Ternary():
            return value(expr._then) if value(expr._condition) else value(expr._otherwise)
        case Display():
            parts: list[Any] = []
            for item in expr._items:
                parts.extend(value(item._items) if isinstance(item, Star) else [value(item)])
            return tuple(parts) if expr._brackets == "()" else parts
        case Subscript():
            return value(expr._base)[value(expr._index[0])]
        case SliceExpr():
            return slice(*(None if part is None else value(part) for part in (expr._start, expr._stop, expr._step)))
        case Call() if isinstance(expr._function, Attribute):
            return getattr(value(expr._function._base), expr._function._name)(*map(value, expr._args))
        case Comprehension():
            return [value(expr._element) for _ in value(expr._iterable)]
    raise TypeError(type(expr).__name__)


def outcome(compute: Any) -> Any:
    """The result, or the kind of error: both sides must fail alike."""
    try:
        result = compute()
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, IndexError, AttributeError) as error:
        return type(error).__name__
    return (type(result), repr(result))


leaves = st.one_of(
    st.integers(-5, 9).map(Literal),
    st.sampled_from([Name(name) for name in VARIABLES]),
    st.sampled_from([0.5, -1.5, 1e-5, -1e20, math.sqrt(8), 8**-0.5, -(32**-0.5), True, False, None]).map(Literal),
)


def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    exponents = st.integers(0, 3).map(Literal)
    return st.one_of(
        st.builds(
            Binary,
            st.sampled_from([*(o for o in OPERATORS if o not in ("**", "<<", "is", "is not")), "and", "or"]),
            inner,
            inner,
        ),
        st.builds(lambda left, right: Binary("**", left, right), inner, exponents),
        st.builds(lambda op, left: Binary(op, left, Literal(None)), st.sampled_from(["is", "is not"]), inner),
        st.builds(Unary, st.sampled_from(["-", "~", "not "]), inner),
        st.builds(Ternary, inner, inner, inner),
        st.builds(
            lambda items, brackets: Display(items, brackets), st.lists(inner, max_size=3), st.sampled_from(["()", "[]"])
        ),
        st.builds(lambda items, rest: Display([*items, Star(rest)], "[]"), st.lists(inner, max_size=2), inner),
        st.builds(lambda base, index: Subscript(base, (index,)), inner, inner),
        st.builds(
            lambda base, parts: Subscript(base, (SliceExpr(*parts),)), inner, st.tuples(*[st.none() | inner] * 3)
        ),
        st.builds(lambda base: Call(Attribute(base, "bit_length"), [], {}), inner),
        st.builds(lambda element, items: Comprehension(element, [Local("_")], items), inner, inner),
    )


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@settings(max_examples=400, deadline=None)
@given(st.recursive(leaves, grow, max_leaves=12))
def test_text_means_what_the_tree_means(expr: Expr) -> None:
    source = text(expr)
    assert outcome(lambda: eval(source, {**NAMES, "math": math})) == outcome(lambda: value(expr)), source


@given(st.one_of(st.floats(), st.floats(width=32), st.integers(), st.booleans(), st.none(), st.text(), st.binary()))
def test_literals_are_exact(number: Any) -> None:
    for expr in (number, (number,), [number, number]):
        source = text(expr)
        assert source.isascii() and source.isprintable()
        assert repr(eval(source, {"torch": torch, "math": math})) == repr(expr)


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (1e-5, "1e-5"),
        (1e9, "1e9"),
        (1e6, "1e6"),
        (123456.0, "123456.0"),
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (1.5e-7, "1.5e-7"),
        (math.sqrt(8), "math.sqrt(8)"),
        (-(48**-0.5), "-48**-0.5"),
        (math.log(16), "math.log(16)"),
        (2.828427, "2.828427"),
        (0.125, "0.125"),
    ],
)
def test_floats_as_people_write_them(number: float, written: str) -> None:
    assert float_text(number) == written


@given(st.floats(width=32, allow_nan=False, allow_infinity=False) | st.integers(2, 9000).map(lambda n: n**0.5))
def test_a_root_rounds_to_the_number_that_it_stands_for(number: float) -> None:
    short = float(str(np.float32(number)))
    assert np.float32(root_of_single(short)) == np.float32(number)


def test_numbers_with_few_digits_are_no_roots() -> None:
    assert [root_of_single(number) for number in (2.828427, 0.35355338, 1.414, 11.0)] == [8**0.5, 8**-0.5, 1.414, 11.0]


def test_floats_without_a_literal() -> None:
    assert math.isnan(eval(float_text(math.nan))) and eval(float_text(-math.inf)) == -math.inf
    assert float_text(torch.finfo(torch.float32).min) == "torch.finfo(torch.float32).min"


def test_adding_a_negative_number_is_subtracting() -> None:
    x, y = Name("x"), Name("y")
    assert text(x + -0.5) == "x - 0.5" and text(x + -(y**2)) == "x - y ** 2" and text(x * -2) == "x * -2"
    assert text(x + (-y) // 2) == "x + -y // 2"  # rounds downwards, so the sign cannot be moved


def test_the_first_sizes_are_a_slice() -> None:
    x, y = Name("x"), Name("y")
    assert text(y.view((x.shape[0], x.shape[1]))) == "y.view(x.shape[:2])"
    for sizes in ((x.shape[0],), (x.shape[1], x.shape[2]), (x.shape[0], y.shape[1]), (x.shape[0], x.shape[1], 3)):
        assert "shape[:" not in text(y.view(sizes))


def test_python_syntax_builds_the_same_syntax() -> None:
    x, y = Name("x"), Name("y")
    assert text(x.flatten(1).softmax(-1)) == "x.flatten(1).softmax(-1)"
    assert text((x + y) * 2 - x / (y - 1)) == "(x + y) * 2 - x / (y - 1)"
    assert text(2 ** (x @ y)) == "2 ** (x @ y)" and text((2**x) ** y) == "(2 ** x) ** y"
    assert text(-(x**2)) == "-x ** 2" and text((-x) ** 2) == "(-x) ** 2"
    assert text(x[:, 1:-1, ..., None, ::2]) == "x[:, 1:-1, ..., None, ::2]"
    assert text(torch_.tensor([1.0, y], dtype=torch_.float32)) == "torch.tensor([1.0, y], dtype=torch.float32)"
    assert text(x.view(*[2, y], (3,))) == "x.view(2, y, (3,))"
    assert text(either(equal(x, 1), both(x, y), unequal(y, 2))) == "x and y if x == 1 else y != 2"
    assert text(negate(negate(x) & y)) == "not (not x) & y"
    assert text((negate(equal(x, 2)), negate(unequal(x, y)), negate(x < y))) == "(x != 2, x == y, not x < y)"
    assert text((x < y) | ~(x >= y)) == "(x < y) | ~(x >= y)"
    assert text(Wrapped(to_expr(1)).real) == "(1).real"
    assert text(builtin("int")(x).bit_length()) == "int(x).bit_length()"
    assert text((to_expr(1).real, to_expr(-1).real, to_expr("a").upper())) == '((1).real, (-1).real, "a".upper())'


def test_expressions_have_no_value_while_they_are_written() -> None:
    with pytest.raises(TypeError, match="has no value"):
        bool(Name("x") > 1)
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(Name("x"))
    with pytest.raises(TypeError, match="cannot be written"):
        to_expr(object())
    with pytest.raises(AttributeError):
        Name("x").__wrapped__  # noqa: B018
