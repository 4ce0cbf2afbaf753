"""What rounds values to integers, and back, is a layer with its steps; a case for each condition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnxlift
from rewriting.idioms.recognising import Array, found, parse

SCALE, ZERO = np.array(0.05, np.float32), np.array(3, np.uint8)
PAIR = "q = QuantizeLinear(x, s, z) r = Neg(x) t = QuantizeLinear(r, s, z) m = Max(q, t) y = DequantizeLinear(m, s, z)"
LAYERS = ["onnxlift.Quantize", "Neg", "onnxlift.Quantize", "Max", "onnxlift.Dequantize"]


def operators(text: str = PAIR, inputs: str = "float[batch, 6] x", **constants: Any) -> list[str]:
    return found(parse(f"g ({inputs}) => (float[batch, 6] y) {{ {text} }}", opset=21, **constants), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_roundings_are_layers(dtype: type) -> None:
    assert operators(s=SCALE, z=ZERO.astype(dtype)) == LAYERS


def test_a_zero_point_may_be_missing() -> None:
    assert operators(PAIR.replace(", z)", ")"), s=SCALE) == LAYERS


@pytest.mark.parametrize("bits", [np.uint16, np.int16])
def test_wide_integers_are_no_bytes(bits: type) -> None:
    text = "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Tanh(d)"
    model = parse(f"g (float[batch, 6] x) => (float[batch, 6] y) {{ {text} }}", 21, s=SCALE, z=ZERO.astype(bits))
    signed = "signed=True, " if bits == np.int16 else ""
    assert f" = FakeQuantize({signed}bits=16)" in onnxlift.lift(model).source
    assert found(model, rtol=0, atol=1e-6) == ["onnxlift.FakeQuantize", "Tanh"]


@pytest.mark.parametrize(
    ("text", "inputs", "constants"),
    [
        (PAIR, "float[batch, 6] x, float s", {"z": ZERO}),
        (
            PAIR.replace("(x, s, z)", "(x, v, w)"),
            "float[batch, 6] x",
            {"s": SCALE, "z": ZERO, "v": np.full(6, 0.05), "w": np.full(6, 3)},
        ),
    ],
    ids=["a scale that is given", "a scale for each column"],
)
def test_other_steps_stay(text: str, inputs: str, constants: dict[str, Array]) -> None:
    typed = {name: array.astype(np.float32 if name in "sv" else np.uint8) for name, array in constants.items()}
    assert "QuantizeLinear" in operators(text, inputs, **typed)


def test_a_constant_that_is_dequantised_is_no_layer() -> None:
    matrix = np.arange(36, dtype=np.uint8).reshape(6, 6)
    text = "d = DequantizeLinear(w, s, z) t = Transpose(d) h = Add(d, t) y = Mul(x, h)"
    assert "onnxlift.Dequantize" not in operators(text, "float[6, 6] x", w=matrix, s=SCALE, z=ZERO)


def test_the_steps_are_in_the_state_dict() -> None:
    model = parse(f"g (float[batch, 6] x) => (float[batch, 6] y) {{ {PAIR} }}", 21, s=SCALE, z=ZERO)
    state = onnxlift.lift(model).state_dict
    assert {key.rpartition(".")[2] for key in state} == {"scale", "zero_point"}
    assert all(array == (SCALE if key.endswith("scale") else ZERO) for key, array in state.items())
