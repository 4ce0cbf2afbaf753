"""Kernels of operators that change the shape of a tensor."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def reshape_copying_zeros(x: Tensor, sizes: list[int]) -> Tensor:
    """ONNX Reshape: a size of 0 keeps the input's size of that axis."""
    return x.reshape([x.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)])


def flatten_to_matrix(x: Tensor, axis: int) -> Tensor:
    """ONNX Flatten: the axes before `axis` become the rows, the others the columns; either may be none."""
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def unsqueeze_axes(x: Tensor, axes: list[int]) -> Tensor:
    """ONNX Unsqueeze: `axes` are places in the result, in any order."""
    rank = x.ndim + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


def pad_axes(
    x: Tensor,
    pads: list[int],
    axes: list[int] | None = None,
    mode: str = "constant",
    value: Tensor | float = 0,
) -> Tensor:
    """ONNX Pad of any axes: `pads` holds all begins, then all ends; where negative, it crops before it pads."""
    axes = list(range(x.ndim)) if axes is None else axes
    befores, afters = pads[: len(axes)], pads[len(axes) :]
    if mode == "constant":
        widths = [0] * (2 * x.ndim)  # from the last axis to the first
        for axis, before, after in zip(axes, befores, afters, strict=True):
            last = 2 * (x.ndim - 1 - axis % x.ndim)
            widths[last : last + 2] = [before, after]
        if not isinstance(value, Tensor):
            return F.pad(x, widths, value=value)
        inside = F.pad(torch.ones_like(x, dtype=torch.bool), widths)
        return torch.where(inside, F.pad(x, widths), value)
    for axis, before, after in zip(axes, befores, afters, strict=True):
        x = x.narrow(axis, max(-before, 0), x.shape[axis] + min(before, 0) + min(after, 0))
        size = x.shape[axis]
        index = torch.arange(-max(before, 0), size + max(after, 0), device=x.device)
        if mode == "edge":
            index = index.clamp(0, size - 1)
        elif mode == "wrap":
            index = index.remainder(size)
        else:  # reflect: there and back again, without repeating the ends
            index = (size - 1) - ((size - 1) - index.remainder(max(2 * (size - 1), 1))).abs()
        x = x.index_select(axis, index)
    return x
