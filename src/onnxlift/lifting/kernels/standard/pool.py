"""Windows and poolings that `torch.nn.functional` cannot say: any pads, any dilation, auto_pad at run time."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def same_pads(
    x: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], upper: bool = True
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Pads before and after each axis for ceil(size / stride) outputs; an odd one is at the end if `upper`."""
    totals = [
        torch.sym_max(((size + s - 1) // s - 1) * s + (k - 1) * d + 1 - size, 0)
        for size, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    small, large = tuple(total // 2 for total in totals), tuple(total - total // 2 for total in totals)
    return (small, large) if upper else (large, small)


def pad_same(
    x: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    upper: bool = True,
    value: float = 0.0,
) -> Tensor:
    """x with the pads around it for ceil(size / stride) outputs."""
    begin, end = same_pads(x, kernel, stride, dilation, upper)
    return F.pad(x, [p for pair in zip(reversed(begin), reversed(end), strict=True) for p in pair], value=value)


def pool_windows(
    x: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    pads: tuple[tuple[int, ...], tuple[int, ...]],
    ceil_mode: bool,
    value: float,
) -> Tensor:
    """The windows of a pooling as axes at the end: (batch, channels, *outputs, *kernel); `value` stands around x.
    With `ceil_mode` a last window may reach over the end, if it starts before the pads of the end."""
    amounts: list[int] = []
    for size, k, s, d, before, after in zip(x.shape[2:], kernel, stride, dilation, *pads, strict=True):
        extent = (k - 1) * d + 1
        outputs = (size + before + after - extent) // s + 1
        if ceil_mode:
            outputs = (size + before + after - extent + s - 1) // s + 1
            outputs = torch.sym_min(outputs, (size + before - 1) // s + 1)
        amounts = [before, (outputs - 1) * s + extent - size - before, *amounts]
    x = F.pad(x, amounts, value=value)
    for axis, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True), start=2):
        x = x.unfold(axis, (k - 1) * d + 1, s)[..., ::d]
    return x


def average_pool(
    x: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    pads: tuple[tuple[int, ...], tuple[int, ...]],
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Tensor:
    """Average pooling; `count_include_pad` counts the pads, but never what `ceil_mode` adds."""
    axes = tuple(range(x.ndim, x.ndim + len(kernel)))
    total = pool_windows(x, kernel, stride, dilation, pads, ceil_mode, 0.0).sum(axes)
    count = torch.ones((), dtype=x.dtype, device=x.device)
    for axis, (k, s, d, before, after) in enumerate(zip(kernel, stride, dilation, *pads, strict=True), start=2):
        places = torch.arange(total.shape[axis], device=x.device)[:, None] * s + torch.arange(k, device=x.device) * d
        first, last = before, before + x.shape[axis]
        if count_include_pad:
            first, last = 0, last + after
        count = count[..., None] * ((places >= first) & (places < last)).sum(1)
    return total / count


def lp_pool(
    x: Tensor,
    p: float,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    pads: tuple[tuple[int, ...], tuple[int, ...]],
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of every window."""
    axes = tuple(range(x.ndim, x.ndim + len(kernel)))
    windows = pool_windows(x, kernel, stride, dilation, pads, ceil_mode, 0.0)
    return torch.linalg.vector_norm(windows, p, axes)


def max_pool(
    x: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    pads: tuple[tuple[int, ...], tuple[int, ...]],
    ceil_mode: bool = False,
) -> Tensor:
    """Max pooling of any type; pads never win."""
    lowest = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    return pool_windows(x, kernel, stride, dilation, pads, ceil_mode, lowest).flatten(x.ndim).amax(-1)


def max_pool_with_indices(
    x: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    pads: tuple[tuple[int, ...], tuple[int, ...]],
    ceil_mode: bool = False,
    column_major: bool = False,
) -> tuple[Tensor, Tensor]:
    """Max pooling, and where in the whole flattened x each maximum stands (the spatial axes counted in reverse order
    if `column_major`)."""
    lowest = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    window = (kernel, stride, dilation, pads, ceil_mode)
    values, place = pool_windows(x, *window, lowest).flatten(x.ndim).max(-1, keepdim=True)
    sizes = x.shape[2:]
    positions = torch.arange(math.prod(sizes), device=x.device)
    if column_major:
        positions = positions.view(sizes[::-1]).permute(*range(len(sizes) - 1, -1, -1))
    positions = pool_windows(positions.view(1, 1, *sizes), *window, -1).flatten(x.ndim)
    planes = torch.arange(x.shape[0] * x.shape[1], device=x.device).view(*x.shape[:2], *[1] * len(sizes))
    indices = positions.expand(*values.shape[:-1], -1).gather(-1, place).squeeze(-1)
    return values.squeeze(-1), indices + planes * math.prod(sizes)


def max_unpool(x: Tensor, indices: Tensor, size: tuple[int, ...], output_size: tuple[int, ...] | None = None) -> Tensor:
    """Zeros of (batch, channels, *size) with x put at the flat `indices`, then extended to the shape `output_size`."""
    shape = (*x.shape[:2], *size)
    result = x.new_zeros(math.prod(shape)).scatter(0, indices.flatten(), x.flatten()).view(shape)
    if output_size is None:
        return result
    return F.pad(
        result, [p for have, want in zip(shape[::-1], output_size[::-1], strict=True) for p in (0, want - have)]
    )
