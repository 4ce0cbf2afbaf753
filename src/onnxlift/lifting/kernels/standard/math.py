"""Integer arithmetic with ONNX semantics."""

from __future__ import annotations

import torch
from torch import Tensor


def divide(a: Tensor, b: Tensor) -> Tensor:
    """`a / b`; integers round towards zero."""
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def truncated_quotient(a: int, b: int) -> int:
    """`a / b` of two sizes rounded towards zero; Python's `//` rounds down."""
    if a < 0:
        a, b = -a, -b
    return a // b if b > 0 else -(a // -b)


def order_as_int64(x: Tensor) -> Tensor:
    """uint64 as int64 in the same order: the sign bit flipped."""
    return x.view(torch.int64) ^ -(2**63)


def order_as_uint64(x: Tensor) -> Tensor:
    """The inverse of `order_as_int64`."""
    return (x ^ -(2**63)).view(torch.uint64)


def uint64_quotient(a: Tensor, b: Tensor) -> Tensor:
    """`a / b` rounded down, on the bits of uint64 numbers held in int64."""
    sign = -(2**63)
    half = torch.where(b < 0, 0, torch.div((a >> 1) & ~sign, torch.where(b < 0, 1, b), rounding_mode="trunc") << 1)
    rest = a - half * b
    return half + ((rest ^ sign) >= (b ^ sign))


def uint64_remainder(a: Tensor, b: Tensor) -> Tensor:
    """`a % b`, on the bits of uint64 numbers held in int64."""
    return a - uint64_quotient(a, b) * b


def uint64_shift_right(a: Tensor, b: Tensor) -> Tensor:
    """`a >> b` with zeros coming in, on the bits of uint64 numbers held in int64."""
    shifted = ((a >> 1) & (2**63 - 1)) >> (b - 1)
    return torch.where(b == 0, a, torch.where((b < 0) | (b >= 64), 0, shifted))
