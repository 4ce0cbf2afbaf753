"""What is no GELU. What is one: `test_activations.py`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rewriting.idioms.recognising import found, parse, simplified

NUMBERS = {"root": math.sqrt(2), "one": 1.0, "half": 0.5}
GELU = "a = Div(x, root) e = Erf(a) f = Add(e, one) g = Mul(x, f) y = Mul(g, half)"


@pytest.mark.parametrize(
    ("old", "new"), [("Erf", "Sigmoid"), ("Erf", "Sin"), ("a = Div(x, root)", "b = Add(x, z) a = Div(b, root)")]
)
def test_other_functions(old: str, new: str) -> None:
    text = f"g (float[batch, seq] x, float[batch, seq] z) => (y) {{ {GELU.replace(old, new)} }}"
    assert "onnxlift.Gelu" not in found(parse(text, **NUMBERS))


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_other_types(dtype: type) -> None:
    name = {np.float64: "double", np.float16: "float16"}[dtype]
    known = {key: np.array(value, dtype) for key, value in NUMBERS.items()}
    text = f"g ({name}[batch, seq] x) => (y) {{ {GELU} }}"
    assert [node.op_type for node in simplified(parse(text, **known)).graph] == ["Gelu"]


def test_integers() -> None:
    """The fraction is the root of a half to 12 digits, but integers are rounded."""
    text = "a = Mul(x, p) b = Div(a, q) e = Erf(b) f = Add(e, one) g = Mul(x, f) y = Div(g, two)"
    numbers = {"p": 1136689, "q": 1607521, "one": 1, "two": 2}
    proto = parse(f"g (int64[batch, seq] x) => (y) {{ {text} }}", 12, **numbers)
    assert "Gelu" not in [node.op_type for node in simplified(proto).graph]
