"""Parameters of layers that the code of a module reads itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import onnxlift

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)


def source(body: str, names: list[str], **weights: Array) -> str:
    """The source of a model from PyTorch with these nodes, their names, and weights, `__` for each dot."""
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[n, 4] x) => (float[n, 4] y) {{ {body} }}'
    )
    model.producer_name = "pytorch"
    for node, node_name in zip(model.graph.node, names, strict=True):
        node.input[:] = [name.replace("__", ".") for name in node.input]
        node.name = node_name
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name.replace("__", ".")))
    return onnxlift.lift(model, name="model").source


def vector() -> Array:
    return RANDOM.random(4, np.float32)


NORM = "h = LayerNormalization(x, norm__weight, norm__bias) y = Mul(h, norm__weight)"
NORM_NAMES = ["/norm/LayerNormalization", "/Mul"]


def test_a_parameter_of_a_norm() -> None:
    text = source(NORM, NORM_NAMES, norm__weight=vector(), norm__bias=vector())
    assert "return self.norm(x) * self.norm.weight" in text
    assert "nn.Parameter" not in text


def test_equal_numbers_may_be_two_parameters() -> None:
    """Exporters store equal tensors once: the ones of a norm that nobody has trained, and of a scale."""
    ones = np.ones(4, np.float32)
    text = source(NORM, NORM_NAMES, norm__weight=ones, norm__bias=vector())
    assert "self.norm.weight" not in text


FC = "h = Gemm<transB=1>(x, fc__weight, fc__bias) t = Tanh(h) y = Gemm<transB=1>(t, fc__weight{bias})"


@pytest.mark.parametrize(
    ("scope", "bias", "expected"),
    [
        ("/Gemm", "", "F.linear(self.fc(x).tanh(), self.fc.weight)"),
        ("/Gemm", ", bias", "F.linear(self.fc(x).tanh(), self.fc.weight, self.bias)"),
        ("/Gemm", ", fc__bias", "self.fc(self.fc(x).tanh())"),
    ],
)
def test_a_function_with_the_matrix_of_a_layer(scope: str, bias: str, expected: str) -> None:
    weights = {"fc__weight": RANDOM.random((4, 4), np.float32), "fc__bias": vector()}
    names = ["/fc/Gemm", "/Tanh", scope]
    text = source(FC.format(bias=bias), names, **weights, **({"bias": vector()} if bias == ", bias" else {}))
    assert f"return {expected}" in text


def test_a_layer_that_shares_a_matrix_stays_one() -> None:
    weights = {"fc__weight": RANDOM.random((4, 4), np.float32), "fc__bias": vector()}
    assert "F.linear" not in source(FC.format(bias=""), ["/fc/Gemm", "/Tanh", "/head/Gemm"], **weights)


def test_a_layer_that_is_never_called_by_its_own_name_stays_one() -> None:
    """`F.linear(x, self.out_proj.weight)`, as in an attention: the layer is all that holds the matrix."""
    body = "y = Gemm<transB=1>(x, fc__weight)"
    assert "return self.fc(x)" in source(body, ["/Gemm"], fc__weight=RANDOM.random((4, 4), np.float32))
