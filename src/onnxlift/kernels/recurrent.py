"""Recurrent networks as ONNX defines them, where `nn.LSTM`, `nn.GRU` and `nn.RNN` do not go as far."""

from __future__ import annotations

import torch
from torch import Tensor


def pad_rows(x: Tensor, length: int) -> Tensor:
    """`x` with rows of zeros appended, so that there are `length`."""
    return torch.cat([x, x.new_zeros(length - x.shape[0], *x.shape[1:])])
