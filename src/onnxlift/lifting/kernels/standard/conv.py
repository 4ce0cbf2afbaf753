"""Convolutions that `torch.nn.functional` cannot say."""

import torch
from torch import Tensor
from torch.nn import functional as F


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int = 1,
) -> Tensor:
    """Transposed convolution whose full output is cut by `begin` and `end` on each axis, or extended if negative."""
    x = torch.convolution(x, weight, None, stride, (0,), dilation, True, (0,), groups)
    cuts = [-cut for pair in zip(reversed(begin), reversed(end), strict=True) for cut in pair]
    x = F.pad(x, cuts)
    return x if bias is None else x + bias.view(-1, *[1] * len(stride))


def conv_transpose_to(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    output_padding: tuple[int, ...],
    groups: int = 1,
    upper: bool = False,
) -> Tensor:
    """Transposed convolution to a given output size: what is too much is cut on both sides, an odd one at the end if
    `upper`, else at the beginning."""
    full = [
        s * (n - 1) + (k - 1) * d + 1
        for n, k, s, d in zip(x.shape[2:], weight.shape[2:], stride, dilation, strict=True)
    ]
    excess = [f + extra - n for f, extra, n in zip(full, output_padding, size, strict=True)]
    begin = tuple(e // 2 if upper else e - e // 2 for e in excess)
    end = tuple(f - n - b for f, n, b in zip(full, size, begin, strict=True))
    return conv_transpose(x, weight, bias, begin, end, stride, dilation, groups)


def conv_integer(
    x: Tensor, weight: Tensor, stride: tuple[int, ...], dilation: tuple[int, ...], groups: int = 1
) -> Tensor:
    """Convolution of small integers into int32. Done in float64, which is exact: no sum of products of 9-bit numbers
    reaches 2**53."""
    total = torch.convolution(x.double(), weight.double(), None, stride, (0,), dilation, False, (0,), groups)
    return total.to(torch.int32)


def deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    begin: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    groups: int = 1,
    offset_groups: int = 1,
) -> Tensor:
    """2-D convolution whose taps are moved by `offset` (pairs of dy, dx for every tap) and weighted by `mask`; the
    image is sampled bilinearly and is zero outside."""
    batch, channels, height, width = x.shape
    out_channels, _, *kernel = weight.shape
    taps = kernel[0] * kernel[1]
    out_height, out_width = offset.shape[2:]
    moved = offset.reshape(batch, offset_groups, taps, 2, out_height, out_width)

    def positions(axis: int, outputs: int) -> Tensor:
        steps = torch.arange(outputs, device=x.device, dtype=x.dtype) * stride[axis] - begin[axis]
        return steps + torch.arange(kernel[axis], device=x.device, dtype=x.dtype)[:, None] * dilation[axis]

    rows = positions(0, out_height)[:, None, :, None].expand(*kernel, out_height, 1).flatten(0, 1)
    columns = positions(1, out_width)[None, :, None, :].expand(*kernel, 1, out_width).flatten(0, 1)
    y, x_ = moved[:, :, :, 0] + rows, moved[:, :, :, 1] + columns
    image = x.reshape(batch, offset_groups, channels // offset_groups, height * width)
    y0, x0 = y.floor(), x_.floor()
    sampled: Tensor | None = None
    for yi, wy in ((y0, 1 - (y - y0)), (y0 + 1, y - y0)):
        for xi, wx in ((x0, 1 - (x_ - x0)), (x0 + 1, x_ - x0)):
            inside = (yi >= 0) & (yi < height) & (xi >= 0) & (xi < width)
            place = (yi.clamp(0, height - 1) * width + xi.clamp(0, width - 1)).long()
            corner = image.gather(3, place.flatten(2)[:, :, None].expand(-1, -1, image.shape[2], -1))
            corner = corner.unflatten(3, place.shape[2:]) * torch.where(inside, wy * wx, 0)[:, :, None]
            sampled = corner if sampled is None else sampled + corner
    assert sampled is not None
    if mask is not None:
        sampled = sampled * mask.reshape(batch, offset_groups, 1, taps, out_height, out_width)
    columns_of = sampled.reshape(batch, groups, channels // groups * taps, out_height * out_width)
    matrix = weight.reshape(groups, out_channels // groups, -1)
    result = (matrix @ columns_of).view(batch, out_channels, out_height, out_width)
    return result if bias is None else result + bias.view(-1, 1, 1)
