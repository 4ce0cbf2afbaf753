"""Attention as people wrote it before PyTorch had a function for it, by both exporters, with numbers and gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pytest
import torch
from torch import Tensor, nn

from rewriting.idioms.attention.multihead_layers import source_of

WIDTH, HEADS, SIZE, LONGEST = 12, 3, 4, 32
LOWEST = torch.finfo(torch.float32).min


class Attention(nn.Module, ABC):
    """With four projections, that it gives an axis for the heads, and takes it away."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.register_buffer("past", torch.ones(1, 1, LONGEST, LONGEST, dtype=torch.bool).tril(), persistent=False)

    def forward(self, *inputs: Tensor) -> Tensor:
        x, mask = inputs
        weighted = self.attend(*(self.heads(layer(x)) for layer in (self.query, self.key, self.value)), mask)
        return self.out(weighted.transpose(1, 2).reshape(x.size(0), x.size(1), WIDTH))

    def heads(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), HEADS, SIZE).transpose(1, 2)

    @abstractmethod
    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """What each query gets of the values."""


class OfGPT2(Attention):
    """What lies after a query is hidden, and then what is padded."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        length = q.size(2)
        scores = q @ k.transpose(2, 3) / SIZE**0.5
        scores = torch.where(self.past[:, :, :length, :length], scores, LOWEST)
        return (scores + (1 - mask[:, None, None].float()) * LOWEST).softmax(-1) @ v


class OfBart(Attention):
    """Batches and heads are one axis, but where the mask is added."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        batch, _, length, _ = q.size()
        q, k, v = (each.reshape(batch * HEADS, length, SIZE) for each in (q * SIZE**-0.5, k, v))
        scores = torch.bmm(q, k.transpose(1, 2)).view(batch, HEADS, length, length)
        scores = scores + torch.where(mask[:, None, None].bool(), 0.0, LOWEST)
        weights = scores.view(batch * HEADS, length, length).softmax(-1)
        return torch.bmm(weights, v).view(batch, HEADS, length, SIZE)


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
@pytest.mark.parametrize("attention", [OfGPT2, OfBart])
def test_attention_is_the_function(attention: type[Attention], exporter: str) -> None:
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    sizes = [{0: "batch", 1: "length"}] * 2
    source = source_of(attention(), (torch.randn(2, 7, WIDTH), mask), exporter, sizes)
    assert "F.scaled_dot_product_attention(query, key, value, attn_mask=mask)" in source, source
