"""Biases by distance that a model has looked up before it was exported."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import onnxlift
from models.network import EXPORTERS
from rewriting.graphs import normal_form, with_tensors
from rewriting.idioms.attention.multihead_layers import exported
from rewriting.running_stages import recognise, simplify


def index(height: int, width: int, stride: int = 1) -> np.ndarray:
    """As LeViT numbers distances: in the order in which it meets them."""
    queries = [*product(range(0, height, stride), range(0, width, stride))]
    keys = [*product(range(height), range(width))]
    known: dict[tuple[int, int], int] = {}
    rows = [[known.setdefault((abs(a - c), abs(b - d)), len(known)) for c, d in keys] for a, b in queries]
    return np.array(rows)


class Attention(nn.Module):
    """LeViT's, which looks its biases up when it is put in evaluation mode."""

    def __init__(self, side: int, stride: int) -> None:
        super().__init__()
        self.side, self.stride = side, stride
        self.qkv = nn.Linear(8, 24)
        self.attention_biases = nn.Parameter(torch.zeros(2, side * side))
        self.register_buffer("attention_bias_idxs", torch.from_numpy(index(side, side, stride)))

    @torch.no_grad()
    def train(self, mode: bool = True) -> nn.Module:
        super().train(mode)
        if not mode:
            self.ab = self.attention_biases[:, self.attention_bias_idxs]
        return self

    def biases(self) -> Tensor:
        return self.ab

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], 2, 12).permute(0, 2, 1, 3).chunk(3, -1)
        q = q.unflatten(2, (self.side, self.side))[:, :, :: self.stride, :: self.stride].flatten(2, 3)
        scores = q @ k.transpose(-2, -1) * 0.5 + self.biases()
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_table_comes_back(exporter: str, stride: int) -> None:
    network = nn.Sequential(nn.Linear(8, 8), Attention(4, stride))
    x = torch.randn(2, 16, 8)
    lifted = onnxlift.convert(exported(network, (x,), exporter))
    ours = dict(lifted.named_parameters())
    assert ours.keys() == dict(network.named_parameters()).keys()
    assert torch.equal(ours["1.attention_biases"], network[1].attention_biases)
    torch.testing.assert_close(lifted(x), network(x), rtol=1e-4, atol=1e-5)


class LookedUp(Attention):
    """What the newer exporter looks up itself."""

    def biases(self) -> Tensor:
        return self.attention_biases[:, self.attention_bias_idxs]


class Doubled(Attention):
    def biases(self) -> Tensor:
        return (2 * self.attention_biases)[:, self.attention_bias_idxs]


class TwoTables(Attention):
    """It does not say which of two parameters that the file does not hold was looked up."""

    def __init__(self, side: int, stride: int) -> None:
        super().__init__(side, stride)
        self.other = nn.Parameter(torch.zeros(2, side * side))


class Trained(TwoTables):
    """The bias is itself a parameter, beside another that nobody reads."""

    def train(self, mode: bool = True) -> nn.Module:
        self.attention_biases = None
        self.ab = nn.Parameter(torch.randn(2, 16)[:, self.attention_bias_idxs])
        return nn.Module.train(self, mode)


class Scaled(Attention):
    """It has another parameter, which the file holds."""

    def __init__(self, side: int, stride: int) -> None:
        super().__init__(side, stride)
        self.gain = nn.Parameter(torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x * self.gain)


@pytest.mark.parametrize(
    ("module", "expected"), [(LookedUp, True), (Doubled, False), (TwoTables, False), (Scaled, True)]
)
def test_the_newer_exporter_tells_the_name(module: type[Attention], expected: bool) -> None:
    network = nn.Sequential(nn.Linear(8, 8), module(4, 1))
    x = torch.randn(2, 16, 8)
    lifted = onnxlift.convert(exported(network, (x,), "dynamo"))
    assert ("1.attention_biases" in dict(lifted.named_parameters())) == expected
    torch.testing.assert_close(lifted(x), network(x), rtol=1e-4, atol=1e-5)


def test_a_bias_that_is_a_parameter_stays_one() -> None:
    network = nn.Sequential(nn.Linear(8, 8), Trained(4, 1))
    x = torch.randn(2, 16, 8)
    lifted = onnxlift.convert(exported(network, (x,), "dynamo"))
    assert dict(network.named_parameters()).keys() - dict(lifted.named_parameters()).keys() == {"1.other"}
    torch.testing.assert_close(lifted(x), network(x), rtol=1e-4, atol=1e-5)


RANDOM = np.random.default_rng(3)
TABLE = RANDOM.normal(size=(2, 12)).astype(np.float32)
BODY = "t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(q, t) b = Add(s, c) p = Softmax(b) y = MatMul(p, v)"


def found(bias: np.ndarray, body: str = BODY, name: str = "/attn/Constant_output_0") -> int:
    """How many tables are found in an attention with this bias."""
    queries, keys = bias.shape[-2:]
    heads = f"float[3, 2, {queries}, 4] q, float[3, 2, {keys}, 4] k, float[3, 2, {keys}, 4] v"
    model = with_tensors(f"g ({heads}) => (float[A, B, C, D] y) {{ {body} }}", c=bias)
    for node in model.graph.node:
        node.input[:] = [name if value == "c" else value for value in node.input]
    for tensor in model.graph.initializer:
        tensor.name = name if tensor.name == "c" else tensor.name
    onnx.checker.check_model(model)
    model.producer_name = "pytorch"
    graph = normal_form(model)
    simplify(graph)
    return recognise(graph).get("distance-biases", 0)


@pytest.mark.parametrize(("height", "width", "stride"), [(3, 4, 1), (4, 3, 1), (2, 6, 1), (3, 4, 2), (6, 2, 3)])
def test_windows_of_any_form(height: int, width: int, stride: int) -> None:
    bias = TABLE[:, index(height, width, stride)]
    assert found(bias) == 1
    assert found(bias[None]) == 1


def test_other_biases_stay() -> None:
    bias = TABLE[:, index(3, 4)]
    changed = bias.copy()
    changed[1, -1, 0] += 1
    assert found(changed) == 0
    assert found(np.zeros_like(bias)) == 0
    assert found(bias, name="attn.bias") == 0
    distance = np.abs(np.arange(12)[:, None] - np.arange(12))
    assert found(TABLE[:, distance]) == 0
    assert found(np.stack([bias] * 3)) == 0
    assert found(bias, BODY.replace("b = Add(s, c)", "a = Add(s, c) b = Add(a, c)")) == 0
    assert found(bias, BODY.replace("s = MatMul(q, t)", "r = MatMul(q, t) s = Sigmoid(r)")) == 0


def test_scores_of_two_axes_stay() -> None:
    bias = TABLE[0][index(3, 4)]
    body = BODY.replace("perm = [0, 1, 3, 2]", "perm = [1, 0]")
    model = with_tensors(f"g (float[12, 4] q, float[12, 4] k, float[12, 4] v) => (float[A, B] y) {{ {body} }}", c=bias)
    model.producer_name = "pytorch"
    for tensor in model.graph.initializer:
        tensor.name = "onnx::Add_3"
    model.graph.node[2].input[1] = "onnx::Add_3"
    assert recognise(normal_form(model))["distance-biases"] == 0
