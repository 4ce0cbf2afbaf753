"""What is no softplus with a factor or a guard. What is one: `test_spelled_functions.py`."""

from __future__ import annotations

import numpy as np
import pytest

from rewriting.idioms import unsimplified
from rewriting.idioms.recognising import found, parse

PLAIN = "c = Greater(x, t) d = Softplus(x) y = Where(c, x, d)"
GUARDED = "s = Mul(x, b) p = Softplus(s) d = Div(p, b) c = Greater(s, t) y = Where(c, x, d)"
SCALED = "s = Mul(x, b) p = Softplus(s) y = Div(p, b)"
INPUTS = "float[batch, seq] x, float[batch, seq] z"


def softplus(text: str, outputs: str = "y", inputs: str = INPUTS, b: float = 2.0, t: object = 0.5) -> list[str]:
    given = np.float64 if "double" in inputs else np.float32
    known = {"b": np.array(b, given), "t": np.asarray(t, given)}
    used = {name: data for name, data in known.items() if f", {name})" in text}
    return found(parse(f"g ({inputs}) => ({outputs}) {{ {text} }}", **used), rtol=1e-5)


@pytest.mark.parametrize("text", [PLAIN, GUARDED, SCALED])
@pytest.mark.parametrize("b", [2.0, 1.5, 1e-3])
def test_softplus(text: str, b: float) -> None:
    assert softplus(text, b=b) == ["onnxlift.Softplus"]


def test_the_guard_of_pytorch_alone_is_plain() -> None:
    assert softplus(PLAIN, t=20.0) == ["Softplus"]
    assert softplus(GUARDED, t=20.0) == ["onnxlift.Softplus"]
    guarded_without_factor = parse(f"g ({INPUTS}) => (y) {{ {GUARDED} }}", b=1.0, t=20.0)
    assert unsimplified.found(guarded_without_factor) == ["Softplus"]


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (PLAIN, "Softplus(x)", "Softplus(z)"),
        (PLAIN, "Greater(x, t)", "Greater(z, t)"),
        (PLAIN, "(c, x, d)", "(c, z, d)"),
        (PLAIN, "(c, x, d)", "(c, d, x)"),
        (PLAIN, "Greater(", "Less("),
        (GUARDED, "(c, x, d)", "(c, z, d)"),
        (GUARDED, "Div(p, b)", "Div(p, t)"),
        (GUARDED, "Div(p, b)", "Mul(p, b)"),
        (SCALED, "Div(p, b)", "Mul(p, b)"),
        (SCALED, "Div(p, b)", "Sub(p, b)"),
        (SCALED, "Div(p, b)", "Div(p, t)"),
        (SCALED, "Div(p, b)", "Div(b, p)"),
        (SCALED, "Mul(x, b)", "Mul(x, z)"),
    ],
)
def test_other_functions(text: str, old: str, new: str) -> None:
    assert "onnxlift.Softplus" not in softplus(text.replace(old, new))


@pytest.mark.parametrize("text", [GUARDED, SCALED])
def test_a_negative_factor(text: str) -> None:
    assert "onnxlift.Softplus" not in softplus(text, b=-2.0)


@pytest.mark.parametrize(
    ("text", "value"), [(PLAIN, "c"), (PLAIN, "d"), *((GUARDED, v) for v in "spdc"), (SCALED, "s"), (SCALED, "p")]
)
def test_what_others_read(text: str, value: str) -> None:
    assert "onnxlift.Softplus" not in softplus(text, f"y, {value}")


def test_in_double_precision_there_are_digits_left_above_the_guard() -> None:
    assert "onnxlift.Softplus" not in softplus(SCALED, inputs="double[batch, seq] x")
    assert softplus(GUARDED, inputs="double[batch, seq] x") == ["onnxlift.Softplus"]


@pytest.mark.parametrize("text", [PLAIN, GUARDED])
def test_a_threshold_that_adds_an_axis(text: str) -> None:
    assert "onnxlift.Softplus" not in softplus(text, t=np.full((1, 1, 1), 0.5))
    assert softplus(text, t=np.full((1, 1), 0.5)) == ["onnxlift.Softplus"]


def test_a_guard_of_something_else_beside_a_product_that_is_read_twice() -> None:
    text = f"{GUARDED.replace('Greater(s, t)', 'Greater(z, t)')} o = Exp(s)"
    assert "onnxlift.Softplus" not in softplus(text, "y, o")
