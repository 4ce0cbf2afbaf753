"""What is no activation of the form `x * gate(x)`. What is one: `test_activations.py`."""

from __future__ import annotations

import numpy as np
import pytest

from rewriting.idioms.recognising import found, parse

NUMBERS = {"zero": 0, "one": 1, "two": 2, "three": 3, "six": 6, "half": 0.5}
SWISH = "s = Add(x, three) c = Clip(s, zero, six) p = Mul(x, c) y = Div(p, six)"
MISH = "p = Softplus(x) t = Tanh(p) y = Mul(x, t)"
HARD = "s = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, s)"
SILU = "s = Sigmoid(x) y = Mul(x, s)"


def gated(text: str, outputs: str = "y", dtype: str = "float", opset: int = 18) -> list[str]:
    given = {"float": np.float32, "double": np.float64, "int32": np.int32, "int64": np.int64}[dtype]
    used = {name: np.array(n, given) for name, n in NUMBERS.items() if f"{name})" in text or f"{name}," in text}
    inputs = f"{dtype}[batch, seq] x, {dtype}[batch, seq] z"
    return found(parse(f"g ({inputs}) => ({outputs}) {{ {text} }}", opset, **used))


@pytest.mark.parametrize(("text", "name"), [(SWISH, "HardSwish"), (MISH, "Mish"), (HARD, "HardSwish"), (SILU, "SiLU")])
def test_gates(text: str, name: str) -> None:
    assert gated(text) == [f"onnxlift.{name}"]
    assert gated(text, dtype="double") == [f"onnxlift.{name}"]


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (SWISH, "(s, zero, six)", "(s, one, six)"),
        (SWISH, "(s, zero, six)", "(s, zero, three)"),
        (SWISH, "(s, zero, six)", "(s, zero)"),
        (SWISH, "Clip(s, zero, six)", "Sum(s, zero, six)"),
        (SWISH, "Add(x, three)", "Add(x, two)"),
        (SWISH, "Add(x, three)", "Sub(x, three)"),
        (SWISH, "Add(x, three)", "Add(x, z)"),
        (SWISH, "Mul(x, c)", "Mul(z, c)"),
        (SWISH, "Div(p, six)", "Div(p, three)"),
        (SWISH, "Mul(x, c)", "Add(x, c)"),
        (MISH, "Softplus(x)", "Softplus(z)"),
        (MISH, "Softplus", "Elu"),
        (MISH, "Tanh", "Sin"),
        (HARD, "beta = 0.5", "beta = 0.4"),
        (HARD, "0.16666667", "0.2"),
        (SILU, "Sigmoid(x)", "Sigmoid(z)"),
        (SILU, "Sigmoid(x)", "Erf(x)"),
        (SILU, "Mul(x, s)", "Div(x, s)"),
    ],
)
def test_other_gates(text: str, old: str, new: str) -> None:
    assert not {*gated(text.replace(old, new))} & {f"onnxlift.{name}" for name in ("HardSwish", "Mish", "SiLU")}


@pytest.mark.parametrize(
    ("text", "value"), [*((SWISH, v) for v in "scp"), (MISH, "p"), (MISH, "t"), (HARD, "s"), (SILU, "s")]
)
def test_what_others_read(text: str, value: str) -> None:
    assert not {*gated(text, f"y, {value}")} & {f"onnxlift.{name}" for name in ("HardSwish", "Mish", "SiLU")}


def test_what_reads_an_activation_more_than_once() -> None:
    assert gated(f"{SILU} a = Exp(y) b = Sin(y)", "a, b") == ["onnxlift.SiLU", "Exp", "Sin"]


def test_integers() -> None:
    assert "onnxlift.HardSwish" not in gated(SWISH, dtype="int32")
    assert gated("y = Clip(x, zero, six)", dtype="int64") == ["Clip"]


@pytest.mark.parametrize(
    "text",
    [
        "y = Sum(x, zero, six)",
        "y = Max(x, zero, six)",
        "y = Clip(x, one, six)",
        "y = Clip(x, zero, three)",
        "y = Clip(x, zero)",
        "y = Clip(x, z_low, six)",
    ],
)
def test_other_bounds(text: str) -> None:
    text = text.replace("y = Clip(x, z_low", "z_low = ReduceMin <keepdims = 0> (z) y = Clip(x, z_low")
    assert "onnxlift.ReLU6" not in gated(text)


def test_bounds_that_are_attributes() -> None:
    assert gated("y = Clip <min = 0.0, max = 6.0> (x)", opset=10) == ["onnxlift.ReLU6"]
    assert gated("y = Clip <min = 0.5, max = 6.0> (x)", opset=10) == ["Clip"]
    assert gated("y = Clip <max = 6.0> (x)", opset=10) == ["Clip"]
