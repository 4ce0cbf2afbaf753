"""Matrix products with ONNX semantics."""

from __future__ import annotations

import torch
from torch import Tensor


def matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | int = 0, b_zero: Tensor | int = 0) -> Tensor:
    """The product of 8-bit integers in int32. It is computed in float64, where it is exact, and which every device
    multiplies fast."""
    return ((a.double() - a_zero) @ (b.double() - b_zero)).to(torch.int32)
