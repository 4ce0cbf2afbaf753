"""Kernels of operators that read or write elements by index. ONNX counts negative indices from the end."""

import math

import torch
from torch import Tensor


def strided_slice(
    x: Tensor,
    starts: list[int],
    ends: list[int],
    axes: list[int] | None = None,
    steps: list[int] | None = None,
) -> Tensor:
    """ONNX Slice with any steps, also backwards."""
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = i if axes is None else axes[i] % x.ndim
        step = 1 if steps is None else steps[i]
        if step < 0:  # the same elements, counted from the other end
            last = x.shape[axis] - 1
            start = last - min(max(start + last + 1 if start < 0 else start, 0), last)
            end = last - min(max(end + last + 1 if end < 0 else end, -1), last)
            x, step = x.flip(axis), -step
        x = x[(slice(None),) * axis + (slice(start, end, step),)]
    return x


def gather_elements(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """`x.gather`, where negative indices count from the end."""
    return x.gather(axis, torch.where(indices < 0, indices + x.shape[axis], indices).long())


def gather_nd(x: Tensor, indices: Tensor, batch_dims: int) -> Tensor:
    """ONNX GatherND with leading axes that `x` and `indices` share: each entry indexes its own part of `x`."""
    batch = x.shape[:batch_dims]
    x, indices = x.flatten(0, batch_dims - 1), indices.flatten(0, batch_dims - 1)
    entry = torch.arange(x.shape[0], device=x.device).reshape(-1, *[1] * (indices.ndim - 2))
    picked = x[(entry, *indices.unbind(-1))]
    return picked.reshape(batch + picked.shape[1:])


def scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str | None = None) -> Tensor:
    """`x.scatter`, where negative indices count from the end."""
    indices = torch.where(indices < 0, indices + x.shape[axis], indices).long()
    if reduction is None:
        return x.scatter(axis, indices, updates)
    return x.scatter_reduce(axis, indices, updates, reduction)


def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """ONNX ScatterND with a reduction: `indices[..., :]` are places in the first axes of `x`."""
    depth = indices.shape[-1]
    row = torch.zeros_like(indices[..., 0])
    for size, index in zip(x.shape[:depth], indices.unbind(-1), strict=True):
        row = row * size + torch.where(index < 0, index + size, index)
    rows = x.reshape(math.prod(x.shape[:depth]), math.prod(x.shape[depth:]))
    updates = updates.reshape(row.numel(), rows.shape[1])
    return rows.scatter_reduce(0, row.reshape(-1, 1).expand_as(updates), updates, reduction).reshape(x.shape)


def tensor_scatter(
    cache: Tensor, update: Tensor, write_indices: Tensor | None = None, axis: int = -2, circular: bool = False
) -> Tensor:
    """ONNX TensorScatter: `cache` with `update` written along `axis`, for each batch entry from its own position on."""
    position = torch.arange(update.shape[axis], device=cache.device).unsqueeze(0)
    if write_indices is not None:
        position = write_indices.unsqueeze(1) + position
    if circular:
        position = position % cache.shape[axis]
    shape = [1] * cache.ndim
    shape[0], shape[axis] = position.shape
    return cache.scatter(axis, position.reshape(shape).expand_as(update), update)


def reverse_sequence(x: Tensor, lengths: Tensor, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """Each sequence of the batch with its first `lengths` steps in reverse order and the rest as it was."""
    lengths = lengths.unsqueeze(time_axis)
    step = torch.arange(x.shape[time_axis], device=x.device).unsqueeze(batch_axis)
    index = torch.where(step < lengths, lengths - 1 - step, step)
    return x.gather(time_axis, index.reshape(index.shape + (1,) * (x.ndim - 2)).expand_as(x))
