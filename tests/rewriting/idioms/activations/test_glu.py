"""What is no gated linear unit. What is one: `test_small_idioms.py`."""

from __future__ import annotations

import pytest

from rewriting.idioms.recognising import found, parse

GLU = "a, b = Split <axis = 1, num_outputs = 2> (x) s = Sigmoid(b) y = Mul(a, s)"


def gated(text: str = GLU, outputs: str = "y", size: str = "6") -> list[str]:
    return found(parse(f"g (float[batch, {size}, 3] x) => ({outputs}) {{ {text} }}"))


def test_gated_linear_unit() -> None:
    assert gated() == ["onnxlift.GLU"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Mul(a, s)", "Add(a, s)"),
        ("Mul(a, s)", "Div(a, s)"),
        ("a, b = Split <axis = 1, num_outputs = 2>", "a, b, c = Split <axis = 1, num_outputs = 3>"),
        ("Sigmoid(b)", "Sigmoid(a)"),
        ("Mul(a, s)", "Mul(b, s)"),
        ("s = Sigmoid(b)", "c = Neg(b) s = Sigmoid(c)"),
    ],
)
def test_other_gates(old: str, new: str) -> None:
    assert "onnxlift.GLU" not in gated(GLU.replace(old, new))


@pytest.mark.parametrize("value", ["a", "b", "s"])
def test_parts_that_others_read(value: str) -> None:
    assert "onnxlift.GLU" not in gated(outputs=f"y, {value}")
    assert "onnxlift.GLU" not in gated(f"{GLU} z = Exp({value})", "y, z")


def test_parts_of_which_one_is_broadcast() -> None:
    """Of an axis of 3 elements the second part is the shorter one."""
    assert "onnxlift.GLU" not in gated(size="3")
