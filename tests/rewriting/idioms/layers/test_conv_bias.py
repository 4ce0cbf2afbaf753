"""What is added to a convolution, and is its bias or is not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.layers import conv_bias
from rewriting.idioms.recognising import Data, assert_same_numbers, found, parse
from rewriting.running_stages import normalise

SUM = "h = Conv(x, W) y = Add(h, B)"
SQUEEZED = "h = Conv(x, W) s = Squeeze(h, k) y = Add(s, B)"
IMAGE = "float[batch, 3, 6, 7] x"


def model(
    text: str = SUM, inputs: str = IMAGE, outputs: str = "float[batch, 4, 4, 5] y", **known: Data
) -> onnx.ModelProto:
    given: dict[str, Data] = {"W": (4, 3, 3, 3), "B": (4, 1, 1), **known}
    parts = {name: data for name, data in given.items() if f" {name})" in text or f"({name}," in text}
    return parse(f"g ({inputs}) => ({outputs}) {{ {text} }}", **parts)


@pytest.mark.parametrize(
    ("text", "known", "operators"),
    [
        (SUM, {}, ["Conv"]),
        (SUM, {"W": (1, 3, 3, 3), "B": 1.5}, ["Conv"]),
        (SUM, {"B": (1, 4, 1, 1)}, ["Conv"]),
        (SUM, {"B": (4, 4, 1)}, ["Conv", "Add"]),
        (SUM, {"B": (1, 4, 1, 5)}, ["Conv", "Add"]),
        (SUM, {"B": (4, 1)}, ["Conv", "Add"]),
        (SUM, {"B": (1, 1, 4, 1, 1)}, ["Conv", "Add"]),
        ("h = Conv(x, W) y = Sub(h, B)", {}, ["Conv", "Sub"]),
        ("h = Conv(x, W) a = Add(h, B) y = Add(a, B)", {}, ["Conv", "Add"]),
        ("h = Conv(x, W) u = Unsqueeze(B, k) y = Add(h, u)", {"B": (4,), "k": np.array([1, 2])}, ["Conv"]),
        (SQUEEZED, {"W": (4, 3, 6, 3), "B": (4, 1), "k": np.array([2])}, ["Conv", "Squeeze"]),
        (SQUEEZED, {"W": (4, 3, 6, 7), "B": (1, 4), "k": np.array([-2, -1])}, ["Conv", "Squeeze"]),
        (SQUEEZED, {"W": (1, 3, 6, 3), "B": (1, 1), "k": np.array([1])}, ["Conv", "Squeeze", "Add"]),
        (SQUEEZED, {"W": (4, 3, 6, 3), "B": (4, 5), "k": np.array([2])}, ["Conv", "Squeeze", "Add"]),
        (
            "h = Conv(x, W) s = Squeeze(h, k) a = Add(s, B) y = Mul(s, a)",
            {"W": (4, 3, 6, 3), "B": (4, 1), "k": np.array([2])},
            ["Conv", "Squeeze", "Add", "Mul"],
        ),
        (
            "h = Conv(x, W) s = Squeeze(h, k) a = Add(s, B) r = ReduceMax <keepdims = 0> (h, k) y = Mul(r, a)",
            {"W": (4, 3, 6, 3), "B": (4, 1), "k": np.array([2])},
            ["Conv", "Squeeze", "Add", "ReduceMax", "Mul"],
        ),
    ],
    ids=str,
)
def test_what_is_a_bias(text: str, known: dict[str, Data], operators: list[str]) -> None:
    proto = model(text, **known)
    proto.graph.output[0].type.tensor_type.shape.Clear()
    axes = 5 if known.get("B") == (1, 1, 4, 1, 1) else 4 - ("Squeeze" in text) * len(np.atleast_1d(known.get("k", 0)))
    for axis in range(axes):
        proto.graph.output[0].type.tensor_type.shape.dim.add(dim_param=f"o{axis}")
    assert found(proto) == operators


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        (SUM, f"{IMAGE}, float[4, 3, 3, 3] W"),
        (SUM, f"{IMAGE}, float[4, 1, 1] B"),
        ("u = Unsqueeze(r, k) h = Conv(x, W) y = Add(h, u)", f"{IMAGE}, float[4] r"),
    ],
    ids=["a weight from outside", "a number from outside", "reshaped"],
)
def test_what_is_no_constant(text: str, inputs: str) -> None:
    proto = model(text, inputs, k=np.array([1, 2]))
    names = {value.name for value in proto.graph.input}
    kept = [tensor for tensor in proto.graph.initializer if tensor.name not in names]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    assert "Add" in found(proto)


def test_a_convolution_that_is_read_without_its_bias() -> None:
    proto = model(f"{SUM} z = Neg(h)", outputs="float[batch, 4, 4, 5] y, float[batch, 4, 4, 5] z")
    assert sorted(found(proto)) == ["Add", "Conv", "Neg"]


def test_the_shape_of_what_is_reshaped_must_be_known() -> None:
    """A number for each channel and row, of which there are as many as another input has."""
    text = """s = Shape(z) t = Concat <axis = 0> (four, s, one) b = Reshape(B, t) h = Conv(x, W) y = Add(h, b)"""
    inputs, known = f"{IMAGE}, float[rows] z", {"B": (16,), "four": np.array([4]), "one": np.array([1])}
    proto = parse(f"g ({inputs}) => (float[batch, 4, 4, 5] y) {{ {text} }}", W=(4, 3, 3, 3), **known)
    graph = load(proto)
    normalise(graph)
    assert conv_bias.run(graph) == 0


def test_before_opset_7_a_sum_says_which_axis_it_is_along() -> None:
    text = "g (float[4, 3, 6] x) => (float[4, 4, 4] y) { h = Conv(x, W) y = Add <broadcast = 1, axis = 0> (h, B) }"
    proto = parse(text, 6, W=(4, 3, 3), B=(4, 1))
    weight, bias = (torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy()) for tensor in proto.graph.initializer)
    x = torch.randn(4, 3, 6)
    with torch.no_grad():
        result = onnxlift.lift(proto).module()(x)
    torch.testing.assert_close(result, torch.nn.functional.conv1d(x, weight) + bias[..., None])


def test_what_has_more_axes_than_the_result_is_no_bias() -> None:
    text = "g (float[4, 3, 6] x) => (float[1, 4, 4, 4] y) { h = Conv(x, W) y = Add(h, B) }"
    proto = parse(text, W=(4, 3, 3), B=(1, 4, 1, 1))
    assert_same_numbers(proto)
    graph = load(proto)
    normalise(graph)
    assert conv_bias.run(graph) == 0
