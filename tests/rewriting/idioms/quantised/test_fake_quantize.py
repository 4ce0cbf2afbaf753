"""What is quantised and dequantised at once: a case for each condition."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.quantised import fake_quantize
from rewriting.idioms.recognising import Array, Data, assert_same_numbers, parse
from rewriting.running_stages import normalise

PAIR = "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)"
X = "float[batch, 6] x"
Y = "float[batch, 6] y"
RANDOM = np.random.default_rng(11)
ROUNDED = ["FakeQuantize"]
BOTH = ["QuantizeLinear", "DequantizeLinear"]


def scale(value: float = 0.05, dtype: type = np.float32) -> Array:
    return np.asarray(value, dtype)


def zero(value: int = 3, dtype: type = np.uint8) -> Array:
    return np.asarray(value, dtype)


PLAIN = {"s": scale(), "z": zero()}


def applied(text: str, inputs: str = X, outputs: str = Y, opset: int = 21, **given: Data) -> onnx.ModelProto:
    used = {name: array for name, array in given.items() if name in text}
    return parse(f"g ({inputs}) => ({outputs}) {{ {text} }}", opset, **used)


def recognised(model: onnx.ModelProto) -> list[str]:
    """The operators after this idiom alone."""
    graph = load(model)
    normalise(graph)
    fake_quantize.run(graph)
    return [node.op_type for node in graph.graph]


def operators(text: str, inputs: str = X, outputs: str = Y, opset: int = 21, **given: Data) -> list[str]:
    """The operators after this idiom alone, in a model that the lifted module agrees with."""
    model = applied(text, inputs, outputs, opset, **given)
    assert_same_numbers(model, rtol=0)
    return recognised(model)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_integers(dtype: type) -> None:
    assert operators(PAIR, s=scale(), z=zero(dtype=dtype)) == ROUNDED


def test_a_scale_that_is_computed() -> None:
    text = f"e = Exp(k) s = Squeeze(e) {PAIR}"
    assert operators(text, f"{X}, float[1] k", z=zero()) == ["Exp", "Squeeze", *ROUNDED]
    other = f"e = Exp(k) s = Squeeze(e) h = Neg(e) r = Squeeze(h) {PAIR.replace('(q, s', '(q, r')}"
    assert operators(other, f"{X}, float[1] k", z=zero())[-2:] == BOTH


def test_what_else_reads_integers() -> None:
    text = PAIR.replace("DequantizeLinear(q, s, z)", "Cast <to = 1> (q)")
    assert operators(text, **PLAIN) == ["QuantizeLinear", "Cast"]


def test_integers_of_another_type_than_without_a_zero_point() -> None:
    text = "q = QuantizeLinear{} (x, s) y = DequantizeLinear(q, s)"
    assert operators(text.format(""), **PLAIN) == ROUNDED
    assert operators(text.format(" <output_dtype = 3>"), **PLAIN) == BOTH


def test_a_result_of_another_type() -> None:
    """ONNX Runtime has no such operator yet, so nothing is compared."""
    text = PAIR.replace("y = DequantizeLinear", "y = DequantizeLinear <output_dtype = 10>")
    assert recognised(applied(text, outputs="float16[batch, 6] y", opset=23, **PLAIN)) == BOTH
    assert recognised(applied(PAIR, opset=23, **PLAIN)) == ROUNDED


def test_a_scale_of_another_type() -> None:
    """As above, of an operator that ONNX Runtime does not have yet."""
    given = {"s": scale(0.5, np.float16), "z": zero()}
    text = PAIR.replace("y =", "h =") + " y = Cast <to = 1> (h)"
    assert recognised(applied(text, opset=23, **given)) == [*BOTH, "Cast"]


def test_another_type_of_the_scale_on_the_way_back() -> None:
    text = "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, half, z)"
    given = {"s": scale(0.5), "half": scale(0.5, np.float16), "z": zero()}
    assert operators(text, outputs="float16[batch, 6] y", **given) == BOTH


def test_integers_of_four_bits() -> None:
    model = applied(PAIR, s=scale(0.5), z=np.asarray(3, ml_dtypes.int4))
    assert recognised(model) == BOTH


def test_integers_that_are_quantised() -> None:
    """ONNX Runtime does not have it, so nothing is compared."""
    assert recognised(applied(PAIR, "int32[batch, 6] x", opset=13, s=scale(1.5), z=zero())) == BOTH


def test_numbers_of_half_precision() -> None:
    given = {"s": scale(0.5, np.float16), "z": zero()}
    assert operators(PAIR, "float16[batch, 6] x", "float16[batch, 6] y", **given) == BOTH


@pytest.mark.parametrize(
    "changed", [{"t": scale(0.06)}, {"w": zero(4)}, {"t": np.full(6, 0.05, np.float32), "w": np.full(6, 3, np.uint8)}]
)
def test_other_steps_on_the_way_back(changed: dict[str, Array]) -> None:
    text = "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, t, w)"
    same = {**PLAIN, "t": scale(), "w": zero()}
    assert operators(text, **same) == ROUNDED
    assert operators(text, **same | changed) == BOTH


def test_many_scales(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, t, z)"
    steps = RANDOM.uniform(0.01, 0.1, 6).astype(np.float32)
    given = {"s": steps, "t": steps.copy(), "z": RANDOM.integers(0, 90, 6).astype(np.uint8)}
    monkeypatch.setattr(fake_quantize, "_LARGEST", 6)
    assert operators(text, **given) == ROUNDED
    monkeypatch.setattr(fake_quantize, "_LARGEST", 5)
    assert operators(text, **given) == BOTH


def test_scales_along_another_axis() -> None:
    text = "q = QuantizeLinear <axis = 1> (x, s, z) y = DequantizeLinear <axis = 0> (q, s, z)"
    steps = RANDOM.uniform(0.01, 0.1, 6).astype(np.float32)
    given = {"s": steps, "z": RANDOM.integers(0, 90, 6).astype(np.uint8)}
    assert operators(text, "float[6, 6] x", "float[6, 6] y", **given) == BOTH
    assert operators(text.replace("axis = 0", "axis = 1"), "float[6, 6] x", "float[6, 6] y", **given) == ROUNDED


def test_integers_that_somebody_else_reads() -> None:
    outputs = f"{Y}, float[batch, 6] v"
    assert operators(f"{PAIR} v = Cast <to = 1> (q)", outputs=outputs, **PLAIN) == [*BOTH, "Cast"]


TWICE = """q = QuantizeLinear(x, s, z) h = DequantizeLinear(q, s, z) m = Transpose <perm = [1, 0]> (h)
    p = QuantizeLinear(m, s, z) y = DequantizeLinear(p, s, z)"""
MOVED = "float[6, batch] y"


def test_rounding_again_after_a_move() -> None:
    assert operators(TWICE, outputs=MOVED, **PLAIN) == [*ROUNDED, "Transpose"]
    assert operators(TWICE.replace("Transpose <perm = [1, 0]> (h)", "Identity(h)"), **PLAIN) == ROUNDED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("(m, s, z) y = DequantizeLinear(p, s, z)", "(m, t, z) y = DequantizeLinear(p, t, z)", id="scale"),
        pytest.param("(m, s, z) y = DequantizeLinear(p, s, z)", "(m, s, w) y = DequantizeLinear(p, s, w)", id="zero"),
        pytest.param(
            "m = Transpose <perm = [1, 0]> (h)", "k = Tanh(h) m = Transpose <perm = [1, 0]> (k)", id="computed"
        ),
    ],
)
def test_rounding_again_to_other_steps(old: str, new: str) -> None:
    assert old in TWICE
    found = operators(TWICE.replace(old, new), outputs=MOVED, **PLAIN, t=scale(0.07), w=zero(200))
    assert found.count("FakeQuantize") == 2


def test_rounding_again_along_another_axis() -> None:
    steps = RANDOM.uniform(0.01, 0.1, 6).astype(np.float32)
    given = {"s": steps, "z": RANDOM.integers(0, 90, 6).astype(np.uint8)}
    found = operators(TWICE, "float[6, 6] x", "float[6, 6] y", **given)
    assert found == ["FakeQuantize", "Transpose", "FakeQuantize"]


def test_rounding_again_to_no_finite_steps() -> None:
    """Nobody says which integer stands for what is no number, so nothing is compared."""
    model = applied(TWICE, outputs=MOVED, s=scale(np.inf), z=zero())
    assert recognised(model) == ["FakeQuantize", "Transpose", "FakeQuantize"]


def test_rounding_again_where_both_are_results() -> None:
    found = operators(TWICE, outputs=f"{MOVED}, float[6, batch] m", **PLAIN)
    assert found == ["FakeQuantize", "Transpose", "FakeQuantize"]
