"""Convolutions of integers whose input is quantised to the range that it has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime.quantization
import pytest
import torch
from torch import nn

import onnxlift
from rewriting.idioms.recognising import assert_same_numbers, found, parse

PLAIN = """
    q, r, rz = DynamicQuantizeLinear(x)
    i = ConvInteger <pads = [1, 2, 1, 2], strides = [2, 1]> (q, w, rz, z)
    f = Cast <to = 1> (i) t = Mul(r, s) y = Mul(f, t)
"""
BIASED = PLAIN.replace("y = Mul(f, t)", "c = Mul(f, t) y = Add(c, b)")
# As ONNX Runtime's quantiser wrote it in its early years.
ROUNDED = """
    q, r, rz = DynamicQuantizeLinear(x) t = Mul(r, s)
    d = Div(row, t) l = Floor(d) k = Cast <to = 6> (l) e = Reshape(k, sizes)
    i = ConvInteger <pads = [1, 2, 1, 2], strides = [2, 1]> (q, w, rz, z)
    j = Add(i, e) f = Cast <to = 1> (j) y = Mul(f, t)
"""
LAYER = "onnxlift.DynamicQuantizedConv"
random = np.random.default_rng(3)
CONSTANTS = {
    "w": random.integers(-60, 60, (4, 3, 3, 5)).astype(np.int8),
    "z": np.array(3, np.int8),
    "s": np.array(0.02, np.float32),
    "b": (4, 1, 1),
    "row": (4,),
    "sizes": np.array([1, 4, 1, 1]),
}


def model(text: str, outputs: str = "float[n, 4, h, v] y", **others: object) -> onnx.ModelProto:
    used = {name: data for name, data in {**CONSTANTS, **others}.items() if f"{name})" in text or f"{name}," in text}
    return parse(f"g (float[batch, 3, 7, 8] x) => ({outputs}) {{ {text} }}", **used)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (PLAIN, "", ""),
        (PLAIN, "Mul(f, t)", "Mul(t, f)"),
        (PLAIN, "Mul(r, s)", "Mul(s, r)"),
        (PLAIN, "rz, z)", "rz)"),
        (PLAIN, "pads = [1, 2, 1, 2], strides = [2, 1]", "dilations = [2, 1]"),
        (BIASED, "", ""),
        (BIASED, "Add(c, b)", "Add(b, c)"),
        (ROUNDED, "", ""),
        (ROUNDED, "Add(i, e)", "Add(e, i)"),
    ],
)
def test_layers(text: str, old: str, new: str) -> None:
    proto = model(text.replace(old, new))
    assert found(proto) == [LAYER]
    assert ("RoundedBiasConv2d(" in onnxlift.lift(proto).source) == (text == ROUNDED)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        pytest.param(PLAIN, "(q, w, rz, z)", "(q, w, other, z)", id="another zero point"),
        pytest.param(PLAIN, "Mul(r, s)", "Mul(m, s) m = Mul(r, r)", id="another scale"),
        pytest.param(PLAIN, "Mul(r, s)", "Add(r, s)", id="a sum of scales"),
        pytest.param(PLAIN, "y = Mul(f, t)", "y = Div(f, t)", id="a quotient"),
        pytest.param(ROUNDED, "Floor(d)", "Ceil(d)", id="rounded upwards"),
        pytest.param(ROUNDED, "Div(row, t)", "Div(row, m) m = Mul(t, t)", id="in other steps"),
        pytest.param(ROUNDED, "Div(row, t)", "Mul(row, t)", id="multiplied"),
    ],
)
def test_other_convolutions_stay(text: str, old: str, new: str) -> None:
    assert LAYER not in found(model(text.replace(old, new), other=np.array(7, np.uint8)))


def test_a_bias_that_is_no_bias_stays_beside_the_layer() -> None:
    assert found(model(BIASED, b=(1, 1, 8))) == [LAYER, "Add"]
    assert found(model(BIASED, b=(4, 4, 8))) == [LAYER, "Add"]
    assert found(model(BIASED.replace("Add", "Sub"))) == [LAYER, "Sub"]


def test_a_rounded_bias_of_another_size_stays() -> None:
    assert LAYER not in found(model(ROUNDED, row=(1,), sizes=np.array([1, 1, 1, 1])))
    assert LAYER not in found(model(ROUNDED, row=(8,), sizes=np.array([1, 1, 1, 8])))
    assert LAYER not in found(model(ROUNDED, sizes=np.array([1, 1, 4, 1])))
    computed = ROUNDED.replace("Div(row, t)", "Div(m, t) m = ReduceMax <keepdims = 0> (x, axes)")
    proto = model(computed, axes=np.array([0, 1, 2]), sizes=np.array([1, 1, 1, 8]))
    assert LAYER not in found(proto)


def test_a_second_bias_stays_beside_the_layer() -> None:
    text = BIASED.replace("y = Add(c, b)", "o = Add(c, b) y = Add(o, b)")
    assert found(model(text)) == [LAYER, "Add"]


@pytest.mark.parametrize(
    ("text", "value"),
    [*((PLAIN, value) for value in "ift"), *((ROUNDED, value) for value in "iftjekld")],
)
def test_what_somebody_else_reads_stays(text: str, value: str) -> None:
    sizes = {"t": "", "d": "[4]", "l": "[4]", "k": "[4]"}.get(value, "[n, p, h, v]")
    outputs = f"float[n, 4, h, v] y, double{sizes} u"
    assert LAYER not in found(model(f"{text} u = Cast <to = 11> ({value})", outputs))


def test_a_layer_that_somebody_else_reads_keeps_its_bias_beside_it() -> None:
    operators = found(model(f"{BIASED} u = Exp(c)", "float[n, 4, h, v] y, float[n, p, h, v] u"))
    assert operators[0] == LAYER and "Add" in operators


def test_a_bias_in_other_steps_beside_a_step_that_is_read_elsewhere_stays() -> None:
    text = ROUNDED.replace("Div(row, t)", "Div(row, s)") + "u = Exp(t)"
    assert LAYER not in found(model(text, "float[n, 4, h, v] y, float u"))


def test_what_the_quantiser_writes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2, groups=4))
    plain, quantised = tmp_path / "plain.onnx", tmp_path / "quantised.onnx"
    torch.onnx.export(network.eval(), (torch.randn(2, 3, 9, 8),), plain, dynamo=False)
    onnxruntime.quantization.quantize_dynamic(plain, quantised)
    proto = onnx.load(quantised)
    assert_same_numbers(proto)
    assert onnxlift.lift(proto).source.count("DynamicQuantizedConv2d(") == 1 + 2


def test_pads_on_one_side_are_put_around_the_input() -> None:
    assert found(model(PLAIN.replace("[1, 2, 1, 2]", "[1, 2, 0, 1]"), other=np.array(7, np.uint8))) == [
        f"onnxlift.{LAYER.rpartition('.')[2]}"
    ]
