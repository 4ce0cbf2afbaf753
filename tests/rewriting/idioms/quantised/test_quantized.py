"""Weights in integers become layers, and roundings one call; each condition of these idioms has its case here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnxlift
from rewriting.idioms.recognising import Array, found, parse

RANDOM = np.random.default_rng(3)


def integers(*shape: int, dtype: type = np.int8) -> Array:
    low = 0 if dtype == np.uint8 else -60
    return RANDOM.integers(low, low + 120, shape).astype(dtype)


def steps(*shape: int) -> Array:
    return RANDOM.uniform(0.01, 0.1, shape).astype(np.float32)


def scale(value: float = 0.05) -> Array:
    return np.asarray(value, np.float32)


def zero(value: int = 3, dtype: type = np.uint8) -> Array:
    return np.asarray(value, dtype)


# Rounding

PAIR = "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s2, z2)"
PLAIN = {"s": scale(), "z": zero(), "s2": scale(), "z2": zero()}


def rounded(text: str, **constants: Any) -> list[str]:
    return found(parse(f"g (float[batch, 6] x) => (float[batch, 6] y) {{ {text} }}", opset=21, **constants), rtol=0)


def test_equal_constants_are_the_same_scale() -> None:
    assert rounded(PAIR, **PLAIN) == ["onnxlift.FakeQuantize"]


@pytest.mark.parametrize("changed", [{"s2": scale(0.06)}, {"z2": zero(4)}])
def test_another_scale_or_zero_point_on_the_way_back(changed: dict[str, Array]) -> None:
    assert rounded(PAIR, **PLAIN | changed) == ["onnxlift.Quantize", "onnxlift.Dequantize"]


def test_integers_that_are_read_elsewhere() -> None:
    text = "g (float[batch, 6] x) => (float[batch, 6] y, uint8[batch, 6] q) {" + PAIR + "}"
    assert found(parse(text, **PLAIN)) == ["onnxlift.Quantize", "onnxlift.Dequantize"]


def test_one_scale_for_each_column_along_the_same_axis() -> None:
    constants = {"s": steps(6), "z": integers(6, dtype=np.uint8)}
    text = "q = QuantizeLinear <axis = {}> (x, s, z) y = DequantizeLinear <axis = {}> (q, s, z)"
    assert rounded(text.format(1, 1), **constants) == ["onnxlift.FakeQuantize"]
    square = "g (float[6, 6] x) => (float[6, 6] y) {{ {} }}"
    assert len(found(parse(square.format(text.format(1, 0)), **constants))) == 2


TWICE = """q = QuantizeLinear(x, s, z) h = DequantizeLinear(q, s, z) m = {}
    p = QuantizeLinear(m, {s}, z) y = DequantizeLinear(p, {s}, z)"""


def test_rounding_again_after_a_move_changes_nothing() -> None:
    for move in ("Flatten(h)", "Relu(h)"):
        operators = rounded(TWICE.format(move, s="s"), s=scale(), z=zero())
        assert operators == ["onnxlift.FakeQuantize", *(["Relu"] if "Relu" in move else [])]


def test_rounding_again_to_other_steps_or_after_arithmetic() -> None:
    other = rounded(TWICE.format("Relu(h)", s="s2"), s=scale(), s2=scale(0.07), z=zero())
    computed = rounded(TWICE.format("Tanh(h)", s="s"), s=scale(), z=zero())
    assert other.count("onnxlift.FakeQuantize") == computed.count("onnxlift.FakeQuantize") == 2


# Layers

X = "float[batch, seq, 6] x"
LINEAR = {"w": integers(6, 4), "s": scale(), "z": zero(5, np.int8)}


def layer(text: str, result: str = "float[batch, seq, 4] y", inputs: str = X, **constants: Any) -> list[str]:
    return found(parse(f"g ({inputs}) => ({result}) {{ {text} }}", opset=21, **constants))


@pytest.mark.parametrize("bias", [{"b": (4,)}, {"b": (1, 4)}])
def test_linear_with_a_bias(bias: dict[str, Any]) -> None:
    text = "d = DequantizeLinear(w, s, z) h = MatMul(x, d) y = Add(h, b)"
    assert layer(text, **LINEAR, **bias) == ["onnxlift.QuantizedLinear"]


def test_linear_without_zero_point_in_bytes() -> None:
    text = "d = DequantizeLinear(w, s) y = MatMul(x, d)"
    assert layer(text, w=integers(6, 4, dtype=np.uint8), s=scale()) == ["onnxlift.QuantizedLinear"]


@pytest.mark.parametrize(("axis", "expected"), [(1, "onnxlift.QuantizedLinear"), (0, "MatMul")])
def test_linear_with_a_scale_for_each_output_only(axis: int, expected: str) -> None:
    text = f"d = DequantizeLinear <axis = {axis}> (w, s, z) y = MatMul(x, d)"
    operators = layer(text, "float[batch, seq, 6] y", w=integers(6, 6), s=steps(6), z=integers(6))
    assert operators[-1] == expected


def test_linear_with_blocks_of_scales() -> None:
    text = "d = DequantizeLinear <axis = 0, block_size = 3> (w, s) y = MatMul(x, d)"
    assert layer(text, w=integers(6, 4), s=steps(2, 4))[-1] == "com.microsoft.MatMulNBits"


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm_with_a_bias_of_integers(transposed: int) -> None:
    text = f"""d = DequantizeLinear <axis = {1 - transposed}> (w, s) c = DequantizeLinear(b, t)
        y = Gemm <transB = {transposed}> (x, d, c)"""
    constants = {"w": integers(4, 6) if transposed else integers(6, 4), "s": steps(4), "t": scale(0.003)}
    bias = RANDOM.integers(-900, 900, 4).astype(np.int32)
    sizes = {"inputs": "float[batch, 6] x", "result": "float[batch, 4] y"}
    assert layer(text, **sizes, **constants, b=bias) == ["onnxlift.QuantizedLinear"]


@pytest.mark.parametrize("attribute", ["alpha = 0.5", "beta = 0.5"])
def test_gemm_that_scales(attribute: str) -> None:
    text = f"d = DequantizeLinear(w, s, z) y = Gemm <{attribute}> (x, d, b)"
    assert "Gemm" in layer(text, "float[batch, 4] y", "float[batch, 6] x", **LINEAR, b=(4,))


IMAGE = {"inputs": "float[batch, 4, 7, 9] x", "result": "float[batch, c, h, v] y"}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("pads = [1, 0, 1, 0], strides = [2, 1]", "onnxlift.QuantizedConv"),
        ("group = 2, dilations = [1, 2]", "onnxlift.QuantizedConv"),
        ("pads = [1, 0, 0, 0]", "onnxlift.QuantizedConv"),
        ('auto_pad = "SAME_UPPER"', "Conv"),
    ],
)
def test_convolution(attributes: str, expected: str) -> None:
    text = f"d = DequantizeLinear <axis = 0> (w, s) c = DequantizeLinear(b, t) y = Conv <{attributes}> (x, d, c)"
    constants = {"w": integers(6, 2 if "group" in attributes else 4, 3, 2), "s": steps(6), "t": scale(0.01)}
    assert layer(text, **IMAGE, **constants, b=RANDOM.integers(-99, 99, 6).astype(np.int32))[-1] == expected


IDS = {"inputs": "int64[batch, seq] x", "result": "float[batch, seq, 4] y"}
TABLE = {"table.weight_quantized": integers(5, 4, dtype=np.uint8), "s": scale(), "z": zero(60)}


@pytest.mark.parametrize(
    "text",
    [
        'r = Gather("table.weight_quantized", x) y = DequantizeLinear(r, s, z)',
        'd = DequantizeLinear("table.weight_quantized", s, z) y = Gather(d, x)',
    ],
)
def test_embedding(text: str) -> None:
    assert layer(text, **IDS, **TABLE) == ["onnxlift.QuantizedEmbedding"]
    backwards = f"k = Neg(x) {text}".replace(", x)", ", k)")  # from the end, as ONNX counts
    assert layer(backwards, **IDS, **TABLE) == ["Neg", "onnxlift.QuantizedEmbedding"]


DYNAMIC = """q, a, az = DynamicQuantizeLinear(x)
    i = MatMulInteger(q, w, az, z) f = Cast <to = 1> (i) t = Mul(a, s) h = Mul(f, t) y = Add(h, b)"""


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_dynamic_linear(dtype: type) -> None:
    constants = {"w": integers(6, 4, dtype=dtype) // 2, "s": scale(), "z": zero(5, dtype), "b": (4,)}
    assert layer(DYNAMIC, **constants) == ["onnxlift.DynamicQuantizedLinear"]


def test_dynamic_linear_with_a_scale_and_a_zero_point_for_each_output() -> None:
    constants = {"w": integers(6, 4) // 2, "s": steps(4), "z": integers(4) // 4, "b": (4,)}
    assert layer(DYNAMIC, **constants) == ["onnxlift.DynamicQuantizedLinear"]


def test_product_of_integers_of_which_others_read_something() -> None:
    result = "float[batch, seq, 4] y, int32[batch, seq, 4] i"
    constants = {"w": integers(6, 4) // 2, "s": scale(), "z": zero(5, np.int8), "b": (4,)}
    assert "MatMulInteger" in layer(DYNAMIC, result, **constants)


def test_product_of_integers_with_the_scale_of_another_tensor() -> None:
    text = DYNAMIC.replace("t = Mul(a, s)", "p, c, d = DynamicQuantizeLinear(k) t = Mul(c, s)")
    constants = {"w": integers(6, 4) // 2, "s": scale(), "z": zero(5, np.int8), "b": (4,)}
    assert "MatMulInteger" in layer(text, inputs=f"{X}, float[5] k", **constants)


def test_the_layer_holds_integers_under_its_own_name() -> None:
    text = """g (float[batch, 6] x) => (float[batch, 4] y) {
        d = DequantizeLinear <axis = 0> ("fc.weight_quantized", "fc.weight_scale", "fc.weight_zero_point")
        c = DequantizeLinear("fc.bias_quantized", "fc.bias_scale")
        ["/fc/Gemm"] y = Gemm <transB = 1> (x, d, c)
    }"""
    weights = {"fc.weight_quantized": integers(4, 6), "fc.weight_scale": steps(4), "fc.weight_zero_point": integers(4)}
    bias = {"fc.bias_quantized": np.arange(4, dtype=np.int32), "fc.bias_scale": scale()}
    lifted = onnxlift.lift(parse(text, **weights, **bias))
    assert "self.fc = QuantizedLinear(6, 4, per_channel=True)" in lifted.source
    assert list(lifted.state_dict) == ["fc.weight", "fc.scale", "fc.zero_point", "fc.bias"]
    module = lifted.module()
    assert [name for name, _ in module.named_parameters()] == ["fc.bias"]
    np.testing.assert_array_equal(module.fc.weight, weights["fc.weight_quantized"])
