"""Kernels of operators that order elements."""

import torch
from torch import Tensor


def top_k(x: Tensor, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest (or smallest) in order. Of equal ones the first comes first, which `topk` does not promise."""
    values, indices = x.sort(dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, k), indices.narrow(axis, 0, k)


def unique_with_places(
    x: Tensor, axis: int | None = None, ordered: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The distinct elements (or slices along `axis`), where each occurs first, which of them each element is, and how
    often each occurs: in ascending order (of complex numbers: of their real, then of their imaginary parts), or in
    that of first occurrence."""
    if axis is None:
        x, axis = x.flatten(), 0
    if x.is_complex():
        pairs, first, inverse, counts = unique_with_places(torch.view_as_real(x), axis % x.ndim, ordered)
        return torch.view_as_complex(pairs), first, inverse, counts
    values, inverse, counts = torch.unique(x.detach(), return_inverse=True, return_counts=True, dim=axis)
    place = torch.arange(len(inverse), device=x.device)
    first = torch.full_like(counts, len(inverse)).scatter_reduce(0, inverse, place, "amin")
    if not ordered:
        order = first.argsort()
        values, first = values.index_select(axis, order), first[order]
        inverse, counts = order.argsort()[inverse], counts[order]
    if x.is_floating_point():
        values = x.index_select(axis, first)  # which has a gradient
    return values, first, inverse, counts
