"""Attention over short sequences is written out, and stays what it is elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from onnxlift.workbench.export.attention import write_attention_as_products

Tensors = tuple[torch.Tensor, ...]


class Attention(nn.Module):
    """Torch's attention, with options."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, mask, **self.options)


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.manual_seed(sum(shape)))


def _heads(length: int = 5, depth: int = 8, heads: int = 3) -> torch.Tensor:
    """Heads as models have them: what follows from a product, transposed."""
    return _random(2, length, heads, depth).transpose(1, 2)


def _count(program: Any) -> int:
    return sum("scaled_dot_product" in str(node.target) for node in program.graph.nodes)


NO_ROW = torch.ones(5, 7, dtype=torch.bool).tril()
NO_ROW[2] = False
SHORT: dict[str, tuple[Attention, Tensors, torch.Tensor | None]] = {
    "self-attention": (Attention(), (_heads(), _heads(), _heads()), None),
    "cross-attention": (Attention(), (_heads(5), _heads(7), _heads(7, 4)), None),
    "a scale": (Attention(scale=0.25), (_heads(), _heads(), _heads()), None),
    "a mask that is added": (Attention(), (_heads(5), _heads(7), _heads(7)), _random(2, 1, 1, 7)),
    "a mask that hides": (Attention(), (_heads(5), _heads(7), _heads(7)), torch.ones(5, 7, dtype=torch.bool).tril()),
    "a mask that hides a whole row": (Attention(), (_heads(5), _heads(7), _heads(7)), NO_ROW),
    "large scores": (Attention(), (_heads() * 1e3, _heads() * 1e3, _heads()), None),
}
OTHER: dict[str, tuple[Attention, Tensors, torch.Tensor | None]] = {
    "causal": (Attention(is_causal=True), (_heads(), _heads(), _heads()), None),
    "long sequences": (Attention(), (_heads(300), _heads(300), _heads(300)), None),
    "shared heads": (Attention(enable_gqa=True), (_heads(heads=4), _heads(heads=2), _heads(heads=2)), None),
    "three axes": (Attention(), (_random(2, 5, 8), _random(2, 5, 8), _random(2, 5, 8)), None),
    "double precision": (Attention(), (_heads().double(), _heads().double(), _heads().double()), None),
    "half precision": (Attention(), (_heads().bfloat16(), _heads().bfloat16(), _heads().bfloat16()), None),
}


@pytest.mark.parametrize("name", SHORT)
@torch.no_grad()
def test_attention_over_short_sequences_is_written_out(name: str) -> None:
    module, heads, mask = SHORT[name]
    program = export(module, (*heads, mask))
    assert write_attention_as_products(program) == 1
    assert _count(program) == 0
    torch.testing.assert_close(program.module()(*heads, mask), module(*heads, mask))


@pytest.mark.parametrize("name", OTHER)
@torch.no_grad()
def test_others_stay(name: str) -> None:
    module, heads, mask = OTHER[name]
    program = export(module, (*heads, mask))
    assert write_attention_as_products(program) == 0
    assert _count(program) == 1


@torch.no_grad()
def test_the_batch_may_be_open() -> None:
    module, heads = Attention(), (_heads(), _heads(), _heads())
    batch = Dim("batch")
    program = export(module, (*heads, None), dynamic_shapes=(*({0: batch},) * 3, None))
    assert write_attention_as_products(program) == 1
    for other in (3, 4):
        more = [_random(other, 3, 5, 8) for _ in heads]
        torch.testing.assert_close(program.module()(*more, None), module(*more, None))


@torch.no_grad()
def test_an_open_length_stays() -> None:
    length = Dim("length")
    heads = (_heads(), _heads(), _heads())
    program = export(Attention(), (*heads, None), dynamic_shapes=(*({2: length},) * 3, None))
    assert write_attention_as_products(program) == 0
