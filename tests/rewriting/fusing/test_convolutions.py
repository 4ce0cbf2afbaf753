"""Batch norms, products, sums and paddings around a convolution become a part of it, where that is exact."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import onnxlift
from workbench.running import assert_same, model_of, operators

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((2, 4, 6, 5)).astype(np.float32)
X2 = RANDOM.standard_normal((3, 4, 7, 8)).astype(np.float32)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(shape).astype(np.float32)


NORM = {"s": normal(6), "o": normal(6), "m": normal(6), "v": np.abs(normal(6)) + 0.1}
WEIGHTS = {
    **NORM,
    "w": normal(6, 4, 3, 3),
    "w5": normal(6, 5, 3, 3),
    "b": normal(6),
    "grouped": normal(6, 2, 3, 3),
    "t": normal(4, 6, 2, 2),
    "tg": normal(4, 3, 2, 2),
    "k": normal(6, 1, 1),
    "k4": normal(1, 6, 1, 1),
    "one": np.array(2.5, np.float32),
    "wide": normal(6, 1, 5),
    "vector": normal(5),
    "tall": normal(1, 1, 6, 1, 1),
    "batch": normal(2, 6, 1, 1),
    "zero": np.zeros((6, 1, 1), np.float32),
    "huge": np.full((6, 1, 1), 3e38, np.float32),
    "pads": np.array([0, 0, 1, 2, 0, 0, 3, 0]),
    "cut": np.array([0, 0, 1, 2, 0, 0, -1, 0]),
    "deep": np.array([0, 1, 1, 2, 0, 0, 0, 0]),
    "some": np.array([1, 2]),
    "axes": np.array([-1]),
    "seven": np.array(7, np.float32),
    "nothing": np.array(0, np.float32),
}


def simplified(nodes: str, opset: int = 18, output: str = "y") -> tuple[Any, Any]:
    read = {name: WEIGHTS[name] for name in sorted({*re.findall(r"\w+", nodes)} & WEIGHTS.keys())}
    rank = "n, c, h, w" if "tall" not in nodes else "k, n, c, h, w"
    model = model_of(f"(float[n, 4, h, w] x) => (float[{rank}] {output}) {{ {nodes} }}", read, opset)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model, onnxlift.simplify(model, verify=False).proto()


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Conv(x, w) y = BatchNormalization(a, s, o, m, v)",
        "a = Conv(x, w, b) y = BatchNormalization <epsilon = 0.01> (a, s, o, m, v)",
        "a = Conv <group = 2> (x, grouped, b) y = BatchNormalization(a, s, o, m, v)",
        "a = ConvTranspose <strides = [2, 2]> (x, t, b) y = BatchNormalization(a, s, o, m, v)",
        "a = ConvTranspose <group = 2> (x, tg) y = BatchNormalization(a, s, o, m, v)",
        "a = Conv(x, w, b) y = Mul(a, k)",
        "a = Conv(x, w) y = Mul(k4, a)",
        "a = Conv(x, w, b) y = Div(a, k)",
        "a = Conv(x, w, b) y = Add(a, one)",
        "a = Conv(x, w) y = Sub(a, k)",
        "a = Conv(x, w, b) y = Sub(k, a)",
        "a = ConvTranspose <group = 2> (x, tg) y = Mul(a, k)",
        "a = Conv(x, w, b) c = Mul(a, k) d = Add(c, k4) e = BatchNormalization(d, s, o, m, v) y = Add(e, one)",
        "a = Pad(x, pads) y = Conv <pads = [1, 0, 0, 1]> (a, w, b)",
        'a = Pad(x, pads, nothing) y = Conv <auto_pad = "VALID", strides = [2, 1]> (a, w, b)',
        "a = Pad(x, some, , axes) y = Conv(a, w)",
    ],
)
def test_a_convolution_takes_in_what_is_around_it(nodes: str) -> None:
    model, result = simplified(nodes)
    assert operators(result) in (["Conv"], ["ConvTranspose"])
    assert_same(model, result, {"x": X}, {"x": X2})


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Conv(x, w, b) y = Mul(a, wide)",
        "a = Conv(x, w, b) y = Add(a, vector)",
        "a = Conv(x, w, b) y = Add(a, tall)",
        "a = Conv(x, w, b) y = Add(a, batch)",
        "a = Conv(x, w, b) y = Div(k, a)",
        "a = Conv(x, w, b) y = Div(a, zero)",
        "a = Conv(x, w, b) y = Mul(a, huge)",
        "a = Conv(x, w, b) c = Mul(a, k) y = Add(c, a)",
        "a = Pad(x, cut) y = Conv(a, w)",
        "a = Pad(x, deep) y = Conv(a, w5)",
        "a = Pad(x, pads, seven) y = Conv(a, w)",
        'a = Pad <mode = "reflect"> (x, pads) y = Conv(a, w)',
        'a = Pad(x, pads) y = Conv <auto_pad = "SAME_UPPER"> (a, w)',
        "a = Pad(x, pads) c = Conv(a, w) d = ReduceMax <keepdims = 1> (a) y = Add(c, d)",
    ],
)
def test_what_is_not_one_number_a_channel_stays(nodes: str) -> None:
    model, result = simplified(nodes)
    feeds = {"x": RANDOM.standard_normal((2, 4, 8, 7)).astype(np.float32)}
    assert operators(result) == operators(model)
    assert_same(model, result, feeds)


def test_a_norm_in_training_mode_stays() -> None:
    body = "a = Conv(x, w) y, p, q = BatchNormalization <training_mode = 1> (a, s, o, m, v)"
    _, result = simplified(body)
    assert operators(result) == ["Conv", "BatchNormalization"]


def test_a_convolution_that_is_an_output_stays() -> None:
    weights = {name: WEIGHTS[name] for name in ("w", "k")}
    model = model_of(
        "(float[n, 4, h, q] x) => (float[n, 6, d, e] a, float[n, 6, d, e] y) { a = Conv(x, w) y = Mul(a, k) }", weights
    )
    result = onnxlift.simplify(model, verify=False).proto()
    assert operators(result) == ["Conv", "Mul"]
    assert_same(model, result, {"x": X})


def test_weights_that_are_inputs_stay() -> None:
    model = model_of(
        "(float[n, 4, h, q] x, float[6, 4, 3, 3] w) => (float[n, 6, d, e] y) { a = Conv(x, w) y = Mul(a, k) }",
        {"k": WEIGHTS["k"], "w": WEIGHTS["w"]},
    )
    result = onnxlift.simplify(model, verify=False).proto()
    assert operators(result) == ["Conv", "Mul"] and [value.name for value in result.graph.input] == ["x", "w"]
    assert_same(model, result, {"x": X}, {"x": X, "w": 2 * WEIGHTS["w"]})
