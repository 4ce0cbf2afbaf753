"""`nn.Transformer` and its layers, trained and as they are made: by both exporters, with the original's state dict."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxlift
from rewriting.idioms.attention.multihead_layers import HEADS, WIDTH, exported, source_of


class Holder(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *inputs: Tensor) -> Tensor:
        result: Tensor = self.layer(*inputs)
        return result


def sequence(length: int, batch_first: bool) -> Tensor:
    return torch.randn((2, length, WIDTH) if batch_first else (length, 2, WIDTH))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer(norm_first: bool, activation: str, batch_first: bool) -> None:
    options: dict[str, Any] = {"norm_first": norm_first, "activation": activation, "batch_first": batch_first}
    model = Holder(nn.Transformer(WIDTH, HEADS, 2, 2, 20, **options))
    source = source_of(model, (sequence(7, batch_first), sequence(5, batch_first)))
    assert source.count("nn.MultiheadAttention(12, 3") == 3  # of one class of encoder layers, and one of decoder layers
    assert not any(word in source.partition("\nclass ")[2] for word in ("transpose", "reshape", "softmax"))


@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_layers_that_nobody_has_trained(kind: type[nn.Module]) -> None:
    """The norms are equal then, and the newer exporter stores one of them."""
    torch.manual_seed(0)
    model = Holder(kind(WIDTH, HEADS, 20))
    inputs = (sequence(5, False), sequence(7, False))[: 1 if kind is nn.TransformerEncoderLayer else 2]
    state = onnxlift.lift(exported(model, inputs, "dynamo", trained=False)).module().state_dict()
    model.load_state_dict(state, strict=True)
