"""Products with matrices that are no linear layers'."""

from __future__ import annotations

import onnx
import pytest

import onnxlift

from .recognising import assert_same_numbers, parse


def product(weight: str, shape: tuple[int, int] = (4, 6), bias: str = "", producer: str = "pytorch") -> onnx.ModelProto:
    transposed = int(shape == (4, 6))
    added = f', "{bias}"' if bias else ""
    text = f'y = Gemm <transB = {transposed}> (x, "{weight}"{added})'
    constants = {weight: shape} | ({bias: (4,)} if bias else {})
    model = parse(f"g (float[batch, 6] x) => (float[batch, 4] y) {{ {text} }}", **constants)
    model.producer_name = producer
    assert_same_numbers(model)
    return model


@pytest.mark.parametrize(
    ("weight", "bias", "written"),
    [
        ("inner.kernel", "", "F.linear(x, self.kernel)"),
        ("inner.kernel", "inner.bias", "F.linear(x, self.kernel, self.bias)"),
    ],
)
def test_a_parameter_with_a_name_of_its_own_keeps_it(weight: str, bias: str, written: str) -> None:
    lifted = onnxlift.lift(product(weight, bias=bias))
    assert written.replace("self.", "self.inner.") in lifted.source
    assert sorted(lifted.state_dict) == sorted(name for name in (weight, bias) if name)


@pytest.mark.parametrize(
    ("weight", "shape", "bias"),
    [("weight", (4, 6), ""), ("weight", (4, 6), "bias"), ("onnx::MatMul_7", (6, 4), "bias")],
)
def test_a_layer_that_was_exported_by_itself_has_its_keys(weight: str, shape: tuple[int, int], bias: str) -> None:
    lifted = onnxlift.lift(product(weight, shape, bias))
    assert "(nn.Linear):" in lifted.source
    assert sorted(lifted.state_dict) == sorted(name for name in ("weight", bias) if name)
    assert "= nn.Linear" in onnxlift.lift(product(weight, shape, bias, producer="other")).source


@pytest.mark.parametrize(("weight", "producer"), [("inner.weight", "pytorch"), ("inner.kernel", "other")])
def test_layers_stay(weight: str, producer: str) -> None:
    assert "nn.Linear(6, 4, bias=False)" in onnxlift.lift(product(weight, producer=producer)).source


def test_a_packed_projection_has_the_name_of_its_class() -> None:
    lifted = onnxlift.lift(product("onnx::MatMul_12", (6, 4), "attn.in_proj_bias"))
    assert {key: array.shape for key, array in lifted.state_dict.items()} == {
        "attn.in_proj_weight": (4, 6),
        "attn.in_proj_bias": (4,),
    }


@pytest.mark.parametrize(
    ("weight", "shape", "bias"),
    [("onnx::MatMul_12", (6, 4), "attn.bias"), ("onnx::MatMul_12", (4, 6), "attn.in_proj_bias")],
)
def test_other_nameless_weights_are_layers(weight: str, shape: tuple[int, int], bias: str) -> None:
    assert "nn.Linear(6, 4)" in onnxlift.lift(product(weight, shape, bias)).source


CONV = 'y = Conv(x, "inner.kernel", "inner.shift")'
NORM = 'y = LayerNormalization <axis = -1> (x, "inner.gamma", "inner.beta")'
SHAPES = {
    "kernel": (4, 4, 3),
    "shift": (4,),
    "weight": (4, 4, 3),
    "bias": (4,),
    "weight_bias": (4,),
    "gamma": (9,),
    "beta": (9,),
}


def layer(text: str, producer: str = "pytorch") -> onnx.ModelProto:
    """A convolution or norm of 4 channels, with weights called as in the text."""
    names = [name.partition('"')[0] for name in text.split(' "')[1:]]
    shapes = {name: SHAPES.get(name.rpartition(".")[2], (4, 4, 3)) for name in names}
    width = 7 if "Conv" in text else 9
    model = parse(f"g (float[batch, 4, 9] x) => (float[batch, 4, {width}] y) {{ {text} }}", **shapes)
    model.producer_name = producer
    assert_same_numbers(model)
    return model


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (CONV, "F.conv1d(x, self.inner.kernel, self.inner.shift)"),
        (CONV.replace("kernel", "weight"), "F.conv1d(x, self.inner.weight, self.inner.shift)"),
        (CONV.replace(', "inner.shift"', ""), "F.conv1d(x, self.inner.kernel)"),
        (NORM, "F.layer_norm(x, (9,), self.inner.gamma, self.inner.beta)"),
    ],
)
def test_convolutions_and_norms_by_other_names(text: str, written: str) -> None:
    lifted = onnxlift.lift(layer(text))
    assert written in lifted.source
    assert sorted(lifted.state_dict) == sorted(name.partition('"')[0] for name in text.split(' "')[1:])


@pytest.mark.parametrize(
    ("text", "producer"),
    [
        (CONV, "other"),
        (CONV.replace("kernel", "weight").replace("shift", "bias"), "pytorch"),
        (CONV.replace("kernel", "weight").replace("shift", "weight_bias"), "pytorch"),  # of a folded BatchNorm
        (CONV.replace("inner.kernel", "onnx::Conv_12"), "pytorch"),
        (CONV.replace("inner.kernel", "mul_7").replace("shift", "bias"), "pytorch"),
    ],
)
def test_layers_by_their_names(text: str, producer: str) -> None:
    assert "nn.Conv1d(4, 4, 3)" in onnxlift.lift(layer(text, producer)).source
