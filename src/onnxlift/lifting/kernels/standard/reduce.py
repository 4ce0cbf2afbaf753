"""Reductions with ONNX semantics."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .math import uint64_quotient


def max_over(x: Tensor, axes: list[int] | tuple[int, ...], keepdim: bool = False) -> Tensor:
    """`x.amax`, with the smallest number of the type for an empty set of numbers."""
    if x.numel() > 0:
        return x.amax(axes, keepdim)
    if x.dtype.is_floating_point or x.dtype == torch.bool:
        smallest = -math.inf if x.dtype.is_floating_point else False
    else:
        smallest = torch.iinfo(x.dtype).min
    return torch.full_like(x.sum(axes, keepdim), smallest, dtype=x.dtype)


def min_over(x: Tensor, axes: list[int] | tuple[int, ...], keepdim: bool = False) -> Tensor:
    """`x.amin`, with the largest number of the type for an empty set of numbers."""
    if x.numel() > 0:
        return x.amin(axes, keepdim)
    if x.dtype.is_floating_point or x.dtype == torch.bool:
        largest = math.inf if x.dtype.is_floating_point else True
    else:
        largest = torch.iinfo(x.dtype).max
    return torch.full_like(x.sum(axes, keepdim), largest, dtype=x.dtype)


def prod_over(x: Tensor, axes: list[int] | tuple[int, ...], keepdim: bool = False) -> Tensor:
    """The product over several axes (all of them if `axes` is empty), in the type of `x`."""
    axes = [axis % x.ndim for axis in axes] or list(range(x.ndim))
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keepdim, dtype=x.dtype)
    return x


def integer_mean(x: Tensor, axes: list[int] | tuple[int, ...], keepdim: bool = False) -> Tensor:
    """The mean over the axes (all of them if `axes` is empty) of integers, rounded towards zero."""
    axes = tuple(axes) or tuple(range(x.ndim))
    count = math.prod(x.shape[axis] for axis in axes)
    return torch.div(x.sum(axes, keepdim, dtype=x.dtype), count, rounding_mode="trunc")


def uint64_mean(x: Tensor, axes: list[int] | tuple[int, ...], keepdim: bool = False) -> Tensor:
    """The mean over the axes (all of them if `axes` is empty), on the bits of uint64 numbers held in int64."""
    axes = tuple(axes) or tuple(range(x.ndim))
    count = math.prod(x.shape[axis] for axis in axes)
    return uint64_quotient(x.sum(axes, keepdim), torch.full((), count, device=x.device))


def shift_in(x: Tensor, axis: int, fill: int) -> Tensor:
    """`x` moved by one along `axis`: `fill` comes first, the last element is gone."""
    shape = list(x.shape)
    shape[axis] = 1
    return torch.cat([x.new_full(shape, fill), x], axis).narrow(axis, 0, x.shape[axis])
