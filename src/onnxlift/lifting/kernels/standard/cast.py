"""Conversions between element types with ONNX semantics."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def to_float8(x: Tensor, dtype: torch.dtype, saturate: bool = True) -> Tensor:
    """`x` rounded to a float8 type. What is too large becomes the largest finite number; if not `saturate`, infinity,
    or NaN where the type has no infinity."""
    x = x.float()
    if saturate:
        largest = torch.finfo(dtype).max
        x = x.clamp(-largest, largest)
    elif dtype == torch.float8_e4m3fn:
        x = x.masked_fill(x.abs() > 464, torch.nan)  # from halfway to the next number, which the type does not have
    return x.to(dtype)


def to_float8_e8m0(x: Tensor, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """`x` rounded to a power of two from 2**-127 to 2**127: the exponent of the float32 number."""
    bits = x.float().view(torch.int32)
    exponent = (bits >> 23) & 0xFF
    if round_mode == "up":
        step = (bits & 0x7FFFFF) != 0
    elif round_mode == "nearest":
        step = ((bits & 0x400000) != 0) & (((bits & 0x3FFFFF) != 0) | (exponent > 0))
    else:
        step = torch.zeros_like(bits, dtype=torch.bool)
    last = 0xFD if saturate else 0xFE
    return (exponent + (step & (exponent <= last))).to(torch.uint8).view(torch.float8_e8m0fnu)


def to_float4_e2m1(x: Tensor) -> Tensor:
    """`x` rounded to the nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; a tie goes to the even mantissa."""
    x = x.float()
    size = x.abs().clamp(max=6).nan_to_num(0.0)  # there is no NaN
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return torch.copysign((size / step).round() * step, x)


def to_float6(x: Tensor, mantissa: int, exponent: int, largest: float) -> Tensor:
    """`x` rounded to the nearest number with so many bits of mantissa and no smaller exponent; a tie goes to the even
    mantissa. There is neither infinity nor NaN."""
    x = x.float()
    size = x.abs().clamp(max=largest).nan_to_num(0.0)
    step = torch.ldexp(torch.ones_like(size), (size.frexp().exponent - 1).clamp(min=exponent) - mantissa)
    return torch.copysign((size / step).round() * step, x)


def low_bits(x: Tensor, bits: int, signed: bool) -> Tensor:
    """The number truncated, and of that the lowest bits: an int4, uint4, int2 or uint2 in a byte."""
    x = x.long()
    if signed:
        half = 1 << (bits - 1)
        return (((x + half) & (2 * half - 1)) - half).to(torch.int8)
    return (x & ((1 << bits) - 1)).to(torch.uint8)


def parse_numbers(x: np.ndarray, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The numbers that the strings spell."""
    if dtype.is_floating_point:
        numbers = [float(text) for text in x.flat]
    else:
        numbers = [int(text) if text.strip().lstrip("+-").isdigit() else int(float(text)) for text in x.flat]
    return torch.tensor(numbers, dtype=dtype, device=device).reshape(x.shape)


def spell_numbers(x: Tensor) -> np.ndarray:
    """Each number as the shortest text that reads back as it."""
    array = x.detach().cpu().float().numpy() if x.dtype == torch.bfloat16 else x.detach().cpu().numpy()
    special = {"inf": "INF", "-inf": "-INF", "nan": "NaN"}
    texts = [special.get(text, text) for text in map(str, array.flat)]
    return np.array(texts, dtype=object).reshape(array.shape)


def equal_strings(a: np.ndarray, b: np.ndarray) -> Tensor:
    """Tell where two arrays of strings agree."""
    return torch.from_numpy(np.asarray(a == b, dtype=bool))


def where_strings(condition: Tensor, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The strings of `x` where the condition holds, else those of `y`."""
    return np.where(condition.cpu().numpy(), x, y)
