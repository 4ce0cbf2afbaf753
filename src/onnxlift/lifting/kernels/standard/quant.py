"""Rounding to small integers."""

import torch
from torch import Tensor


def quantize(
    x: Tensor, scale: Tensor | float, zero_point: Tensor | int = 0, dtype: torch.dtype = torch.uint8, bits: int = 0
) -> Tensor:
    """`x / scale + zero_point`, rounded (halves to even) and limited to the numbers of `dtype`, or to those of fewer
    bits. Divided by a tensor, as a number would be inverted first on some devices."""
    return to_integer(x / torch.as_tensor(scale, dtype=x.dtype, device=x.device), zero_point, dtype, bits)


def to_integer(x: Tensor, zero_point: Tensor | int = 0, dtype: torch.dtype = torch.uint8, bits: int = 0) -> Tensor:
    """`x` rounded (halves to even), moved by `zero_point`, and limited to the numbers of `dtype`, or of fewer bits."""
    x = x.round().float() + torch.as_tensor(zero_point, dtype=torch.float32, device=x.device)
    limits = torch.iinfo(dtype)
    unused = limits.bits - bits if bits else 0
    return x.clamp(limits.min >> unused, limits.max >> unused).to(dtype)


def dequantize(x: Tensor, scale: Tensor | float, zero_point: Tensor | int) -> Tensor:
    """`(x - zero_point) * scale`"""
    return (x.float() - zero_point) * scale


def fake_quantize(
    x: Tensor, scale: Tensor | float, zero_point: Tensor | int = 0, dtype: torch.dtype = torch.uint8, bits: int = 0
) -> Tensor:
    """`x` in whole steps of `scale`, as far as the numbers of `dtype` go: what is left of it once quantised."""
    return dequantize(quantize(x, scale, zero_point, dtype, bits), scale, zero_point)


def dynamic_quantize(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`x` in uint8, with the scale and the zero point that just cover its range and zero."""
    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = torch.where(high > low, (high - low) / 255, 1.0)
    zero_point = (-low / scale).clamp(0, 255).round()
    return to_integer(x / scale, zero_point), scale, zero_point.to(torch.uint8)
