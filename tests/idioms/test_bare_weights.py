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
