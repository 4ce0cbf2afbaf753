"""Parameters keep their keys, also those of layers that are never called, but read by others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

import onnxlift
from models.network import BATCH, EXPORTERS, Exporter, Network, floats
from small_graphs import Graph


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.randn(5))
        self.beta = nn.Parameter(torch.randn(5))


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Embedding(3, 5)
        self.scales = nn.ModuleList([Scale(), Scale()])
        self.fc = nn.Linear(5, 5)
        self.mixed = nn.ModuleDict({"norm": nn.LayerNorm(5), "table": nn.Embedding(3, 5)})

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.scales
        x = self.fc(x + self.positions.weight).sin()
        x = ((x * first.gamma + second.beta) * first.beta + x * second.gamma).cos()
        return self.mixed["norm"](x) * self.mixed["table"].weight


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_parameters_that_are_read_by_others_than_their_owner(exporter: Exporter) -> None:
    network = Network("reader", Reader, floats(3, 5), {"x": BATCH}, "y", trained=False)
    original, lifted = network.module(), onnxlift.lift(network.export(exporter))
    assert "self.positions = nn.Embedding(3, 5)" in lifted.source and "x + self.positions.weight" in lifted.source
    assert "nn.ParameterDict" in lifted.source
    module, x = lifted.module(), torch.randn(4, 3, 5)
    torch.testing.assert_close(module(x), original(x))
    module.load_state_dict(original.state_dict(), strict=True)
    original.load_state_dict(module.state_dict(), strict=True)


def test_a_name_that_a_parameter_has_is_no_constants() -> None:
    """The constant is used first, and would be called a bias."""
    g = Graph()
    x = g.input("x", "n", 3)
    h = g.node("Add", x, g.weight("onnx::Add_9", 2, 1, 3), name="/block/Add")
    h = g.node("Sin", g.node("Add", h, g.weight("block.bias", 3), name="/block/Add_1"), name="/block/Sin")
    lifted = g.lift(h)
    np.testing.assert_array_equal(lifted.state_dict["block.bias"], numpy_helper.to_array(g.weights[1]))


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 5)
        self.layer = nn.ParameterList([nn.Parameter(torch.randn(5)) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x).sin() * self.layer[0] + self.layer[1]


class Weighed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 6)
        self.loss = nn.NLLLoss(weight=torch.rand(6))

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x)
        return self.loss(y.log_softmax(-1), y.argmax(-1))


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("build", [Listed, Weighed])
def test_lists_of_parameters_and_weights_of_classes(exporter: Exporter, build: type[nn.Module]) -> None:
    """PyTorch trains the former, and refuses to train the latter."""
    network = Network("listed", build, floats(5), {"x": BATCH}, "y", trained=False)
    original, module = network.module(), onnxlift.lift(network.export(exporter)).module()
    module.load_state_dict(original.state_dict(), strict=True)
    assert [*dict(module.named_parameters())] == [*dict(original.named_parameters())]
    x = torch.randn(4, 5)
    torch.testing.assert_close(module(x), original(x))
