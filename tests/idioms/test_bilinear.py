"""Two vectors on both sides of a matrix."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift

from .recognising import assert_same_numbers, parse

LAYER = """p = MatMul(x, m) c = Reshape(p, cut) u = Unsqueeze(z, last) r = MatMul(c, u) s = Squeeze(r, last)
    y = Add(s, "pair.bias")"""
TURNED = 't = Transpose <perm = [1, 0, 2]> ("pair.weight") m = Reshape(t, flat)'


def model(text: str = LAYER, outputs: str = "float[batch, seq, 3] y", **changed: object) -> onnx.ModelProto:
    """Vectors of 4 and 6 features, and 3 outputs."""
    shapes = {"cut": np.array([0, 0, 3, 6]), "flat": np.array([4, 18]), "last": np.array([-1])}
    given = shapes | {"m": (4, 18), "pair.weight": (3, 4, 6), "pair.bias": (3,), "e": 1.5, **changed}
    used = {name: value for name, value in given.items() if any(f"{q}{name}{q}" in text for q in ('"', ""))}
    if " m = " in text:
        del used["m"]
    return parse(f"g (float[batch, seq, 4] x, float[batch, seq, 6] z) => ({outputs}) {{ {text} }}", **used)


def written(proto: onnx.ModelProto) -> str:
    assert_same_numbers(proto)
    return onnxlift.lift(proto).source


@pytest.mark.parametrize(
    "text",
    [LAYER, f"{TURNED} {LAYER}", LAYER.replace("s, ", "").replace('"pair.bias")', '"pair.bias", s)')],
)
def test_the_layer(text: str) -> None:
    source = written(model(text))
    assert "nn.Bilinear(4, 6, 3)" in source and "return self.pair(x, z)" in source


def test_without_a_bias() -> None:
    text = LAYER.replace("s = ", "y = ").partition("y = Add")[0]
    assert "nn.Bilinear(4, 6, 3, bias=False)" in written(model(text))


def test_the_weight_is_the_originals() -> None:
    proto = model(f"{TURNED} {LAYER}")
    weight = next(tensor for tensor in proto.graph.initializer if tensor.name == "pair.weight")
    assert np.array_equal(onnxlift.lift(proto).state_dict["pair.weight"], onnx.numpy_helper.to_array(weight))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("MatMul(c, u)", "MatMul(c, n)"),  # another column
        ("MatMul(x, m)", "MatMul(x, k)"),  # a weight for each of a batch
        ('"pair.bias"', "e"),  # a number, and no bias
        ('"pair.bias"', "n"),
    ],
)
def test_what_is_none_or_has_another_bias(old: str, new: str) -> None:
    text = LAYER.replace(old, new).replace(" r =", " n = Exp(u) r =" if "c, n" in new else " r =")
    text = text.replace("y = Add", "n = Exp(s) y = Add") if new == "n" else text
    assert "nn.Bilinear(4, 6, 3)" not in written(model(text, k=(1, 4, 18)))


@pytest.mark.parametrize("value", ["p", "c", "r", "s"])
def test_a_value_that_is_read_elsewhere(value: str) -> None:
    shapes = {"p": "18", "c": "3, 6", "r": "3, 1", "s": "3"}
    text = f"{LAYER} o = Identity({value})"
    source = written(model(text, f"float[batch, seq, 3] y, float[batch, seq, {shapes[value]}] o"))
    assert "nn.Bilinear(4, 6, 3)" not in source


def test_another_order_of_axes() -> None:
    text = f"{TURNED.replace('[1, 0, 2]', '[1, 2, 0]')} {LAYER}"
    assert "nn.Bilinear" not in written(model(text))
