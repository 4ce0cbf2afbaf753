"""What is no activation in its parts. What is one: `test_spelled_functions.py`."""

from __future__ import annotations

import numpy as np
import pytest

from rewriting.idioms import unsimplified
from rewriting.idioms.recognising import found, parse

SIGN = "a = Abs(x) d = Add(a, one) y = Div(x, d)"
TANH = "a = Tanh(x) y = Sub(x, a)"
HARD = "a = Abs(x) c = LessOrEqual(a, l) y = Where(c, zero, x)"
SIDES = "a = Greater(x, l) d = Less(x, minus) c = Or(a, d) y = Where(c, x, zero)"
SOFT = "a = Abs(x) c = Greater(a, l) s = Sign(x) m = Mul(s, l) d = Sub(x, m) n = Mul(x, zero) y = Where(c, d, n)"
SOFT_SIDES = """a = Greater(x, l) d = Sub(x, l) p = Where(a, d, zero)
    c = Less(x, minus) e = Add(x, l) q = Where(c, e, zero) y = Add(p, q)"""
FORMS = [SIGN, TANH, HARD, SIDES, SOFT, SOFT_SIDES]
FOUND = {"Softsign", "onnxlift.Tanhshrink", "Shrink"}
NUMBERS = {"l": 0.3, "minus": -0.3, "zero": 0, "one": 1, "t": 0.7, "more": -0.7}
DTYPES = {"float": np.float32, "double": np.float64, "int32": np.int32}


def operators(text: str, outputs: str = "y", dtype: str = "float", wide: str = "") -> list[str]:
    """Those that are found; the constant that is named `wide` has more axes than x."""
    used = {name: n for name, n in NUMBERS.items() if f"{name})" in text or f"{name}," in text}
    known = {name: np.full((1, 1, 1) if name == wide else (), n, DTYPES[dtype]) for name, n in used.items()}
    inputs = f"{dtype}[batch, seq] x, {dtype}[batch, seq] z"
    tight = {"rtol": 1e-14, "atol": 1e-14} if dtype == "double" else {}
    return found(parse(f"g ({inputs}) => ({outputs}) {{ {text} }}", **known), **tight)


@pytest.mark.parametrize("text", FORMS)
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_activations(text: str, dtype: str) -> None:
    names = operators(text, dtype=dtype)
    assert len(names) == 1 and {*names} <= FOUND


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (SIGN, "Abs(x)", "Abs(z)"),
        (SIGN, "(a, one)", "(a, l)"),
        (SIGN, "Div(x, d)", "Mul(x, d)"),
        (TANH, "Sub(x, a)", "Add(x, a)"),
        (HARD, "Abs(x)", "Abs(z)"),
        (HARD, "(a, l)", "(a, minus)"),
        (HARD, "(c, zero, x)", "(c, one, x)"),
        (SIDES, "(x, minus)", "(x, more)"),
        (SIDES, "(c, x, zero)", "(c, z, zero)"),
        (SIDES, "(c, x, zero)", "(c, x, one)"),
        (SIDES, "Less(x, minus)", "Less(z, minus)"),
        (SIDES, "Less(x, minus)", "IsNaN(x)"),
        (SIDES, "Greater(x, l) d = Less(x, minus)", "Less(x, l) d = Greater(x, minus)"),
        (SIDES, "Greater(x, l) d = Less(x, minus)", "Greater(x, minus) d = Less(x, l)"),
        (SOFT, "Abs(x)", "Abs(z)"),
        (SOFT, "Sign(x)", "Sign(z)"),
        (SOFT, "(s, l)", "(s, t)"),
        (SOFT, "Sub(x, m)", "Sub(z, m)"),
        (SOFT, "l)", "minus)"),
        (SOFT, "Mul(x, zero)", "Mul(x, one)"),
        (SOFT, "Mul(x, zero)", "Mul(z, zero)"),
        (SOFT_SIDES, "Sub(x, l)", "Sub(z, l)"),
        (SOFT_SIDES, "Sub(x, l)", "Sub(x, t)"),
        (SOFT_SIDES, "Sub(x, l)", "Sub(l, x)"),
        (SOFT_SIDES, "Less(x, minus) e = Add(x, l)", "Less(z, minus) e = Add(z, l)"),
        (SOFT_SIDES, "Less(x, minus) e = Add(x, l)", "Less(x, more) e = Add(x, t)"),
        (SOFT_SIDES, "Less(x, minus) e = Add(x, l)", "Greater(x, minus) e = Add(x, l)"),
        (SOFT_SIDES, "(a, d, zero)", "(a, d, one)"),
        (SOFT_SIDES, "(a, d, zero)", "(a, d, z)"),
        (SOFT_SIDES, "Add(p, q)", "Mul(p, q)"),
    ],
)
def test_other_functions(text: str, old: str, new: str) -> None:
    assert old in text
    assert not FOUND & {*operators(text.replace(old, new))}


def test_both_sides_with_the_wrong_signs() -> None:
    text = """a = Greater(x, minus) d = Add(x, l) p = Where(a, d, zero)
        c = Less(x, l) e = Sub(x, l) q = Where(c, e, zero) y = Add(p, q)"""
    assert not FOUND & {*operators(text)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((SIGN, v) for v in "ad"),
        (TANH, "a"),
        *((HARD, v) for v in "ac"),
        *((SIDES, v) for v in "adc"),
        *((SOFT, v) for v in "acsmdn"),
        *((SOFT_SIDES, v) for v in "adpceq"),
    ],
)
def test_what_others_read(text: str, value: str) -> None:
    assert not FOUND & {*operators(text, f"y, {value}")}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (SIGN, "one"),
        *((HARD, name) for name in ("l", "zero")),
        *((SIDES, name) for name in ("l", "minus", "zero")),
        *((SOFT, name) for name in ("l", "zero")),
        *((SOFT_SIDES, name) for name in ("l", "minus", "zero")),
    ],
)
def test_a_number_that_adds_an_axis(text: str, name: str) -> None:
    assert not FOUND & {*operators(text, wide=name)}


@pytest.mark.parametrize("text", [SIGN, HARD, SIDES, SOFT, SOFT_SIDES])
def test_integers(text: str) -> None:
    assert not FOUND & {*operators(text, dtype="int32")}


@pytest.mark.parametrize(
    "text",
    [
        "a = Greater(x, zero) d = Greater(x, zero) c = Or(a, d) y = Where(c, x, zero)",
        """a = Greater(x, zero) d = Sub(x, zero) p = Where(a, d, zero)
        c = Greater(x, zero) e = Sub(x, zero) q = Where(c, e, zero) y = Add(p, q)""",
    ],
)
def test_one_side_twice(text: str) -> None:
    """A limit of 0 is its own opposite."""
    proto = parse(f"g (float[batch, seq] x) => (y) {{ {text} }}", zero=0.0)
    assert not FOUND & {*unsimplified.found(proto)}
