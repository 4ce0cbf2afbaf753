"""Biases of queries and values that an exporter has joined with zeros."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional as F

import onnxlift
from models.network import EXPORTERS
from onnxlift.ir.load import load
from onnxlift.rewriting.restoring import joined_biases
from rewriting.idioms.attention.multihead_layers import exported

X = torch.randn(2, 5, 8)


class Attention(nn.Module):
    """As in timm's BEiT and EVA (with a buffer), or in the second Swin Transformer (with zeros)."""

    def __init__(self, zeros: bool) -> None:
        super().__init__()
        self.zeros = zeros
        self.qkv = nn.Linear(8, 24, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(8))
        self.register_buffer("k_bias", torch.zeros(8), persistent=False)
        self.v_bias = nn.Parameter(torch.zeros(8))
        self.proj = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        middle = torch.zeros_like(self.v_bias) if self.zeros else self.k_bias
        y = F.linear(x, self.qkv.weight, torch.cat((self.q_bias, middle, self.v_bias)))
        q, k, v = y.reshape(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(x.shape))


class Net(nn.Module):
    def __init__(self, zeros: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Attention(zeros) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_parts_and_matrix_come_back(exporter: str, zeros: bool) -> None:
    network = Net(zeros).eval()
    lifted = onnxlift.convert(exported(network, (X,), exporter))
    ours = lifted.state_dict()
    assert ours.keys() == network.state_dict().keys()
    assert all(torch.equal(ours[name], tensor) for name, tensor in network.state_dict().items())
    torch.testing.assert_close(lifted(X), network(X), rtol=1e-4, atol=1e-5)


def test_what_the_newer_exporter_has_merged_is_each_modules_own() -> None:
    network = Net(False).eval()
    with torch.no_grad():
        for block in network.blocks:
            block.q_bias.fill_(0.5)
            block.v_bias.fill_(0.25)
    lifted = onnxlift.convert(exported(network, (X,), "dynamo", trained=False))
    assert lifted.state_dict().keys() == network.state_dict().keys()


RANDOM = np.random.default_rng(3)
OUTSIDE = np.concatenate([RANDOM.normal(size=4), np.zeros(4), RANDOM.normal(size=4)]).astype(np.float32)
TEXT = "p = MatMul(x, m) y = Add(p, b)"


def joined(
    bias: np.ndarray = OUTSIDE,
    text: str = TEXT,
    names: str = "/attn/MatMul /attn/Add",
    bias_name: str = "onnx::Add_9",
    matrix_name: str = "onnx::MatMul_8",
    **others: np.ndarray,
) -> list[str]:
    """The initialisers after the step, in a graph of the older exporter."""
    head = '<ir_version: 9, opset_import: ["" : 17]> g (float[2, 3] x) => (float[A, B] y)'
    model = onnx.parser.parse_model(f"{head} {{ {text} }}")
    model.producer_name = "pytorch"
    matrix = RANDOM.normal(size=(3, bias.size)).astype(np.float32)
    stored = {"b": (bias_name, bias), "m": (matrix_name, matrix)}
    for node, name in zip(model.graph.node, names.split(), strict=True):
        node.name = name
        node.input[:] = [stored[value][0] if value in stored else value for value in node.input]
    for name, array in (*stored.values(), *others.items()):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    found = load(model)
    count = joined_biases.run(found)
    names_of = sorted(found.graph.initializers)
    assert ("attn.q_bias" in names_of or "q_bias" in names_of) == (count > 0) or others
    return names_of if count else []


def test_the_names_are_those_of_all_these_models() -> None:
    assert {"attn.q_bias", "attn.k_bias", "attn.v_bias", "attn.qkv.weight"} <= {*joined()}
    assert {"attn.q_bias", "attn.qkv.weight"} <= {*joined(text="p = MatMul(x, m) y = Add(b, p)")}
    assert {"q_bias", "qkv.weight"} <= {*joined(names="/MatMul /Add")}


def test_the_call_of_a_layer_keeps_its_matrix() -> None:
    found = joined(names="/attn/qkv/MatMul /attn/Add")
    assert "attn.q_bias" in found and "attn.qkv.weight" not in found


@pytest.mark.parametrize(
    ("bias", "options"),
    [
        (np.roll(OUTSIDE, 4), {}),
        (np.where(np.arange(12) < 4, 0, OUTSIDE).astype(np.float32), {}),
        (np.zeros(12, np.float32), {}),
        (np.arange(1, 13, dtype=np.float32), {}),
        (OUTSIDE[1:], {}),
        (OUTSIDE[None], {}),
        (OUTSIDE, {"text": "p = MatMul(x, m) r = Relu(b) y = Add(p, r)", "names": "/a/A /a/B /a/C"}),
        (OUTSIDE[[0, 1, 4, 5, 8, 9]], {}),
        (OUTSIDE, {"bias_name": "attn.bias"}),
        (OUTSIDE, {"matrix_name": "attn.weight"}),
        (OUTSIDE, {"text": "p = Sub(x, x) q = MatMul(p, m) r = Relu(q) y = Add(r, b)", "names": "/A /B /C /D"}),
        (OUTSIDE, {"text": "p = MatMul(x, m) y = Sub(p, b)"}),
        (OUTSIDE, {"text": "p = MatMul(x, m) q = Add(p, b) y = Mul(q, b)", "names": "/a/A /a/B /a/C"}),
        (OUTSIDE, {"text": "p = MatMul(x, m) q = Add(p, b) y = MatMul(x, m)", "names": "/a/A /a/B /a/C"}),
        (OUTSIDE, {"names": "MatMul_1 Add_2"}),
        (OUTSIDE, {"attn.q_bias": OUTSIDE}),
        (OUTSIDE, {"attn.qkv.weight": OUTSIDE}),
    ],
    ids=[
        "zeros first", "no queries", "untrained",
        "no zeros", "no third",
        "two axes",
        "changed", "few", "name", "named matrix", "no product", "no sum",
        "read again", "matrix read again", "no scope", "taken", "taken matrix",
    ],
)  # fmt: skip
def test_other_biases_stay(bias: np.ndarray, options: dict[str, object]) -> None:
    assert joined(bias, **options) == []
