"""Layers that take and give integers: a case for each condition."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.quantised import integer_layers
from rewriting.idioms.recognising import Array, assert_same_numbers, parse
from rewriting.running_stages import normalise

RANDOM = np.random.default_rng(11)
CONV = "y = QLinearConv(x, sx, zx, w, sw, zw, sy, zy, b)"
PLAIN = "y = QLinearConv(x, sx, zx, w, sw, zw, sy, zy)"
LINEAR = "y = QLinearMatMul(x, sx, zx, w, sw, zw, sy, zy)"
IMAGES = "uint8[batch, 4, 7, 9] x"
ROWS = "uint8[batch, seq, 6] x"


def integers(*shape: int, dtype: type = np.int8) -> Array:
    low = 0 if dtype == np.uint8 else -60
    return RANDOM.integers(low, low + 120, shape).astype(dtype)


def steps(*shape: int) -> Array:
    return RANDOM.uniform(0.01, 0.1, shape).astype(np.float32)


def one(number: float, dtype: type = np.float32) -> Array:
    return np.array(number, dtype)


ENDS = {"sx": one(0.031), "zx": one(120, np.uint8), "sy": one(0.9), "zy": one(100, np.uint8)}
KERNEL = {"w": integers(6, 4, 3, 3), "sw": steps(), "zw": one(0, np.int8), "b": integers(6).astype(np.int32), **ENDS}
MATRIX = {"w": integers(6, 5), "sw": steps(), "zw": one(0, np.int8), **ENDS}


def model_of(text: str, inputs: str, result: str = "uint8", axes: int = 4, **given: Any) -> onnx.ModelProto:
    used = {name: data for name, data in given.items() if f" {name}," in text or f" {name})" in text}
    outputs = f"{result}[{', '.join(f'd{axis}' for axis in range(axes))}] y"
    return parse(f"g ({inputs}) => ({outputs}) {{ {text} }}", 21, **used)


def recognised(model: onnx.ModelProto) -> list[str]:
    """The operators after this idiom alone."""
    graph = load(model)
    normalise(graph)
    integer_layers.run(graph)
    return [node.op_type for node in graph.graph]


def assert_exact(text: str, inputs: str, axes: int = 4, **given: Any) -> None:
    """Hold that every integer is the one that ONNX Runtime computes, for inputs over the whole range."""
    result = given["zy"].dtype.name
    quantised = f"q = QuantizeLinear(x, sx, zx) {text.replace('(x,', '(q,')}"
    floats = inputs.replace("uint8[", "float[").replace("int8[", "float[")
    assert_same_numbers(model_of(quantised, floats, result, axes, **given), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (CONV, {}),
        (PLAIN, {}),
        (CONV, {"sw": steps(6)}),
        (CONV, {"sw": steps(6), "zw": np.zeros(6, np.int8)}),
        (CONV, {"w": integers(6, 4, 3, 3, dtype=np.uint8), "zw": one(70, np.uint8)}),
        (CONV, {"sx": steps(1), "zx": np.array([9], np.uint8)}),
        (CONV.replace("Conv(", "Conv <pads = [1, 2, 1, 2], strides = [2, 1], dilations = [1, 2]> ("), {}),
        (CONV.replace("Conv(", "Conv <group = 2> ("), {"w": integers(6, 2, 3, 3)}),
        (CONV.replace("Conv(", "Conv <pads = [0, 1, 2, 0]> ("), {}),
    ],
    ids=["plain", "no bias", "scales", "zero points", "bytes", "one in an axis", "windows", "groups", "uneven pads"],
)
def test_convolutions(text: str, changed: dict[str, Array]) -> None:
    model = model_of(text, IMAGES, **KERNEL | changed)
    assert recognised(model) == ["IntegerConv"]
    assert_exact(text, IMAGES, **KERNEL | changed)
    source = onnxlift.lift(model).source
    assert "return self.conv(" in source and "QLinearConv2d(4, 6, 3" in source


def test_signed_ends() -> None:
    signed = {"zx": one(-3, np.int8), "zy": one(5, np.int8)}
    model = model_of(CONV, IMAGES.replace("uint8", "int8"), "int8", **KERNEL | signed)
    assert recognised(model) == ["IntegerConv"]
    assert_exact(CONV, IMAGES, **KERNEL | signed)
    assert "signed_input=True, signed_output=True" in onnxlift.lift(model).source


@pytest.mark.parametrize("changed", [{}, {"sw": steps(5), "zw": np.zeros(5, np.int8)}], ids=["one", "columns"])
def test_products(changed: dict[str, Array]) -> None:
    model = model_of(LINEAR, ROWS, axes=3, **MATRIX | changed)
    assert recognised(model) == ["IntegerLinear"]
    assert_exact(LINEAR, ROWS, axes=3, **MATRIX | changed)
    assert "QLinear(6, 5" in onnxlift.lift(model).source


def test_layers_in_a_row_share_no_steps() -> None:
    """What one layer gives and the next one takes is one constant in the file, but each layer can be loaded alone."""
    text = "h = QLinearConv(x, sx, zx, w, sw, zw, sy, zy, b) y = QLinearConv(h, sy, zy, v, sw, zw, sx, zx)"
    lifted = onnxlift.lift(model_of(text, IMAGES, **KERNEL, v=integers(3, 6, 1, 1)))
    assert lifted.source.count(".output_scale = ") == lifted.source.count(".input_scale = ") == 0  # nothing is tied
    assert {key for key in lifted.state_dict if key.endswith(("input_scale", "output_scale"))} == {
        f"{layer}.{end}_scale" for layer in ("conv", "conv_1") for end in ("input", "output")
    }


def test_the_original_name_is_kept_and_weights_go_back() -> None:
    text = (
        "q = QuantizeLinear(x, sx, zx) r = QLinearConv(q, sx, zx, w, sw, zw, sy, zy, b) y = DequantizeLinear(r, sy, zy)"
    )
    model = model_of(text, "float[batch, 4, 7, 9] x", "float", **KERNEL)
    model.graph.node[1].name = "/features/proj/Conv_quant"
    lifted = onnxlift.lift(model)
    assert {key.rpartition(".")[0] for key in lifted.state_dict} == {"features", "quant", "dequant"}
    assert lifted.update(lifted.state_dict).to_bytes() == model.SerializeToString()


@pytest.mark.parametrize(
    ("text", "inputs", "changed"),
    [
        (CONV, f"{IMAGES}, float sx", {}),
        (CONV, f"{IMAGES}, uint8 zy", {}),
        (CONV, f"{IMAGES}, int8[6, 4, 3, 3] w", {}),
        (CONV, f"{IMAGES}, int32[6] b", {}),
        (CONV.replace("Conv(", 'Conv <auto_pad = "SAME_UPPER"> ('), IMAGES, {}),
    ],
    ids=["scale", "zero point", "weight", "bias", "automatic pads"],
)
def test_other_convolutions(text: str, inputs: str, changed: dict[str, Array]) -> None:
    given = {name: data for name, data in (KERNEL | changed).items() if f" {name}" not in inputs}
    model = model_of(text, inputs, axes=4 if "7, 9" in inputs else 3, **given)
    assert recognised(model) == ["QLinearConv"]


@pytest.mark.parametrize(
    ("inputs", "changed"),
    [
        (f"{ROWS}, int8[6, 5] w", {}),
        (ROWS, {"sy": steps(5), "zy": np.zeros(5, np.uint8)}),
        (ROWS, {"w": integers(2, 6, 5)}),
        (ROWS, {"sx": steps(3, 1)}),
    ],
    ids=["weight", "steps of columns", "many matrices", "steps of rows"],
)
def test_other_products(inputs: str, changed: dict[str, Array]) -> None:
    given = {name: data for name, data in (MATRIX | changed).items() if f" {name}" not in inputs}
    assert recognised(model_of(LINEAR, inputs, axes=3, **given)) == ["QLinearMatMul"]


def test_products_that_give_small_floats() -> None:
    small = {"zy": np.array(0, ml_dtypes.float8_e4m3fn)}
    model = model_of(LINEAR, ROWS, "float8e4m3fn", axes=3, **MATRIX | small)
    assert recognised(model) == ["QLinearMatMul"]


def test_a_product_with_a_vector() -> None:
    model = model_of(LINEAR, "uint8[6] x", axes=1, **MATRIX)
    assert recognised(model) == ["IntegerLinear"]
    assert_exact(LINEAR, "uint8[6] x", axes=1, **MATRIX)
