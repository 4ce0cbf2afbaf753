"""A model that nobody has trained lifts to the source that it will have when somebody has.

Before training many parameters are equal: norms are ones, biases zeros, and layers that were copied are copies. The
exporters store these once, drop biases of zeros, and the newer one computes equal things once."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import onnxlift
from rewriting.idioms.attention.multihead_layers import exported


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.query, self.key, self.value, self.out = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        key, value = self.key(memory), self.value(memory)
        weights = (self.query(self.norm(x)) @ key.transpose(1, 2) * 0.3).softmax(-1)
        return x + self.out(weights @ value)


class Layers(nn.Module):
    """Copies of a layer, which all read one memory."""

    def __init__(self) -> None:
        super().__init__()
        layer = Layer()
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, memory)
        return x


class Experts(nn.Module):
    """Copies of a module whose results are all of the same numbers."""

    def __init__(self) -> None:
        super().__init__()
        expert = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))
        self.experts = nn.ModuleList(copy.deepcopy(expert) for _ in range(3))
        self.gate = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        gates = self.gate(x).softmax(-1)
        outputs = [expert(x) * gates[..., i : i + 1] for i, expert in enumerate(self.experts)]
        return outputs[0] + outputs[1] + outputs[2]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.conv = nn.Conv1d(8, 8, 3, padding=1)
        self.scale = nn.Parameter(torch.ones(8))
        self.head = nn.Linear(8, 8)
        for layer in (self.conv, self.head):
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.conv(self.norm1(x).transpose(1, 2)).transpose(1, 2) * self.scale
        return self.head(self.norm2(x).mean(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.LSTM(8, 8, batch_first=True)
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)[0]
        return x


class Around(nn.Module):
    """The older exporter can't have these layers as the model itself."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.layers(*inputs)


def decoder() -> nn.Module:
    return Around(nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12, batch_first=True), 2, nn.LayerNorm(8)))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    return Around(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False))


@pytest.mark.parametrize(
    ("build", "inputs", "exporter"),
    [
        (decoder, 2, "dynamo"),
        (encoder, 1, "dynamo"),
        (Layers, 2, "dynamo"),
        (Layers, 2, "script"),
        (Experts, 1, "dynamo"),
        (Experts, 1, "script"),
        (Block, 1, "dynamo"),
        (Recurrent, 1, "dynamo"),
    ],
)
def test_same_source_and_state_dict(build: Callable[[], nn.Module], inputs: int, exporter: str) -> None:
    torch.manual_seed(1)
    module = build()
    sources = {}
    for trained in (False, True):
        proto = exported(module, tuple(torch.randn(2, 5, 8) for _ in range(inputs)), exporter, trained=trained)
        lifted = onnxlift.lift(proto, name="model")
        sources[trained] = lifted.source[lifted.source.index("class ") :]  # above it tells the number of nodes
        mine, state = lifted.module(), module.state_dict()
        assert mine.state_dict().keys() == state.keys()
        for name, tensor in mine.state_dict().items():
            torch.testing.assert_close(tensor, state[name])
        assert len(list(mine.parameters())) == len(list(module.parameters())), "some are tied"
    assert sources[False] == sources[True]
