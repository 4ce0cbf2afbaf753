"""Kernels of operators that make tensors out of sizes and indices."""

import math

import torch
from torch import Tensor


def is_one_hot(indices: Tensor, depth: int, axis: int = -1, wrap: bool = True) -> Tensor:
    """Tell where a one-hot encoding along a new axis is hot. An index out of range is hot nowhere; negative indices
    count from the end if `wrap`."""
    indices = indices.long().unsqueeze(axis)
    if wrap:
        indices = torch.where(indices < 0, indices + depth, indices)
    shape = [1] * indices.ndim
    shape[axis] = depth
    return torch.arange(depth, device=indices.device).reshape(shape) == indices


def integer_range(start: int, limit: int, delta: int, device: torch.device) -> Tensor:
    """ONNX Range: also counts down, and is empty where `limit` is not ahead."""
    count = max(-((start - limit) // delta), 0)
    return start + delta * torch.arange(count, device=device)


def float_range(start: float, limit: float, delta: float, device: torch.device) -> Tensor:
    """ONNX Range of floats, computed in double precision."""
    count = max(math.ceil((limit - start) / delta), 0)
    return start + delta * torch.arange(count, dtype=torch.float64, device=device)


def diagonal_mask(rows: int, columns: int, offset: int, device: torch.device) -> Tensor:
    """True on the diagonal that lies `offset` above the main one."""
    return torch.arange(columns, device=device) - torch.arange(rows, device=device).unsqueeze(1) == offset
