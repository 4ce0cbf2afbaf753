"""`nn.MultiheadAttention` in all the ways that it is made and called, as PyTorch's exporters write it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onnxlift
from rewriting.idioms.attention.multihead_layers import HEADS, WIDTH, exported, source_of

BATCH, QUERIES, KEYS = 2, 5, 7


class Attention(nn.Module):
    """A layer, and what it is called with besides queries, keys and values."""

    def __init__(self, masks: tuple[str, ...] = (), need_weights: bool = False, **options: Any) -> None:
        super().__init__()
        self.masks, self.need_weights = masks, need_weights
        self.attn = nn.MultiheadAttention(WIDTH, HEADS, **options)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor) -> Tensor:
        given = dict(zip(self.masks, masks, strict=True))
        result: Tensor = self.attn(q, k, v, need_weights=self.need_weights, **given)[0]
        return result


class SelfAttention(Attention):
    def forward(self, q: Tensor, *masks: Tensor) -> Tensor:
        return super().forward(q, q, q, *masks)


class MemoryAttention(Attention):
    """As in a decoder: keys and values are one."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return super().forward(q, k, k)


def sequence(length: int, width: int = WIDTH, batch_first: bool = False) -> Tensor:
    return torch.randn((BATCH, length, width) if batch_first else (length, BATCH, width))


PADDING = torch.tensor([[False] * QUERIES, [False] * 3 + [True] * (QUERIES - 3)])
LATER = torch.ones(QUERIES, QUERIES).triu(1).bool()


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize(
    "masks",
    [
        {"key_padding_mask": PADDING},
        {"attn_mask": LATER},
        {"attn_mask": torch.randn(QUERIES, QUERIES)},
        {"attn_mask": torch.randn(BATCH * HEADS, QUERIES, QUERIES)},
        {"key_padding_mask": PADDING, "attn_mask": LATER},
        {"key_padding_mask": 1.0 * PADDING, "attn_mask": torch.randn(QUERIES, QUERIES)},
    ],
    ids=lambda masks: "-".join(f"{name}:{mask.dtype}"[:-2] for name, mask in masks.items()),
)
def test_masks(masks: dict[str, Tensor], need_weights: bool, batch_first: bool) -> None:
    module = SelfAttention(tuple(masks), need_weights, batch_first=batch_first)
    source = source_of(module, (sequence(QUERIES, batch_first=batch_first), *masks.values()))
    assert "self.attn = nn.MultiheadAttention(12, 3" in source
    assert all(f"{name}=" in source for name in masks)
    assert "torch.where" not in source


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_queries_keys_and_values_of_their_own(batch_first: bool, exporter: str) -> None:
    inputs = tuple(sequence(length, batch_first=batch_first) for length in (QUERIES, KEYS, KEYS))
    source = source_of(Attention(batch_first=batch_first), inputs, exporter)
    assert "nn.MultiheadAttention(12, 3" in source


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
def test_keys_and_values_that_are_one(exporter: str) -> None:
    inputs = sequence(QUERIES), sequence(KEYS)
    assert "nn.MultiheadAttention(12, 3)" in source_of(MemoryAttention(), inputs, exporter)


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
@pytest.mark.parametrize("bias", [True, False])
def test_keys_and_values_of_other_widths(bias: bool, exporter: str) -> None:
    inputs = sequence(QUERIES), sequence(KEYS, 10), sequence(KEYS, 8)
    source = source_of(Attention(bias=bias, kdim=10, vdim=8), inputs, exporter)
    assert f"nn.MultiheadAttention(12, 3{'' if bias else ', bias=False'}, kdim=10, vdim=8)" in source


def test_keys_of_another_width() -> None:
    inputs = sequence(QUERIES), sequence(KEYS, 10), sequence(KEYS)
    assert "nn.MultiheadAttention(12, 3, kdim=10)" in source_of(Attention(kdim=10, vdim=12), inputs)


class Separate(nn.Module):
    """Attention with the sequence in front, as fairseq has it: its projections are layers."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            self.add_module(name, nn.Linear(WIDTH, WIDTH, bias=bias))

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[0]
        parts = [layer(x).reshape(length, -1, 4).transpose(0, 1) for layer in (self.q_proj, self.k_proj, self.v_proj)]
        q, k, v = (part.unflatten(0, (BATCH, HEADS)) for part in parts)
        joined = F.scaled_dot_product_attention(q, k, v).permute(2, 0, 1, 3).reshape(length, BATCH, WIDTH)
        result: Tensor = self.out_proj(joined)
        return result


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
@pytest.mark.parametrize("bias", [True, False])
def test_projections_that_are_layers_stay(bias: bool, exporter: str) -> None:
    """The older exporter leaves their weights without names, and only says where the products are computed."""
    assert "MultiheadAttention(" not in source_of(Separate(bias), (sequence(QUERIES),), exporter)


class Named(nn.Module):
    """The same with weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("wq", "wk", "wv", "wo"):
            self.register_parameter(name, nn.Parameter(torch.empty(WIDTH, WIDTH)))

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[0]
        parts = [F.linear(x, weight).reshape(length, -1, 4).transpose(0, 1) for weight in (self.wq, self.wk, self.wv)]
        q, k, v = (part.unflatten(0, (BATCH, HEADS)) for part in parts)
        joined = F.scaled_dot_product_attention(q, k, v).permute(2, 0, 1, 3).reshape(length, BATCH, WIDTH)
        return F.linear(joined, self.wo)


class Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Named()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x)
        return result


def test_weights_with_other_names_stay() -> None:
    source = onnxlift.lift(exported(Holder(), (sequence(QUERIES),), "dynamo without its optimiser")).source
    assert "MultiheadAttention(" not in source


class Fading(nn.MultiheadAttention):
    """One that makes its own mask."""

    def forward(self, q: Tensor) -> Tensor:
        mask = q.mean((1, 2))[:, None] * torch.ones(QUERIES)
        return super().forward(q, q, q, attn_mask=mask)[0]


def test_a_mask_of_its_own_stays_inside() -> None:
    proto = exported(nn.Sequential(Fading(WIDTH, HEADS)), (sequence(QUERIES),))
    assert "nn.MultiheadAttention(" not in onnxlift.lift(proto).source


class Masking(SelfAttention):
    """A padding mask that is not one for each batch, as it looks like: heads and batches are swapped."""

    def forward(self, q: Tensor, mask: Tensor) -> Tensor:
        rows = mask[:, None, None].expand(HEADS, BATCH, 1, QUERIES).reshape(HEADS * BATCH, 1, QUERIES)
        result: Tensor = self.attn(q, q, q, attn_mask=rows + torch.zeros(QUERIES, 1))[0]
        return result


def test_a_mask_by_heads_is_no_padding() -> None:
    source = source_of(Masking(), (sequence(QUERIES), torch.randn(HEADS, QUERIES)))
    assert "key_padding_mask" not in source
