"""Activations that PyTorch lacks."""

import numpy as np
import torch
from torch import Tensor


def shrink(x: Tensor, bias: float, lambd: float) -> Tensor:
    """x + bias below -lambd, x - bias above lambd, 0 between; in the type of x."""
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, 0)).to(x.dtype)


def hardmax(x: Tensor, dim: int) -> Tensor:
    """1 at the first largest element along `dim`, else 0."""
    return torch.zeros_like(x).scatter(dim, x.argmax(dim, keepdim=True), 1)


def dropout_with_mask(x: Tensor, ratio: float) -> tuple[Tensor, Tensor]:
    """Dropout, and which elements it kept."""
    mask = torch.rand(x.shape, device=x.device) >= ratio
    return torch.where(mask, x / (1 - ratio), 0), mask


def seeded_dropout(x: Tensor, ratio: float, seed: int) -> tuple[Tensor, Tensor]:
    """Dropout, and which elements it kept: the same ones every time, drawn from the seed as ONNX's reference does."""
    drawn = np.asarray(np.random.RandomState(seed).uniform(size=tuple(x.shape)))
    mask = torch.from_numpy(drawn >= ratio).to(x.device)
    return torch.where(mask, x / (1 - ratio), 0), mask
