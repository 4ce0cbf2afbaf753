"""Operators on images and regions of images that `torch.nn.functional` cannot say."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def depth_to_space(x: Tensor, block: int) -> Tensor:
    """Channels moved into blocks of the image; the channels of one place of the block lie together."""
    batch, channels, height, width = x.shape
    x = x.reshape(batch, block, block, channels // (block * block), height, width)
    return x.permute(0, 3, 4, 1, 5, 2).reshape(batch, channels // (block * block), height * block, width * block)


def space_to_depth(x: Tensor, block: int) -> Tensor:
    """Blocks of the image moved into channels; the channels of one place of the block lie together."""
    batch, channels, height, width = x.shape
    x = x.reshape(batch, channels, height // block, block, width // block, block)
    return x.permute(0, 3, 5, 1, 2, 4).reshape(batch, channels * block * block, height // block, width // block)


def center_crop_pad(x: Tensor, shape: tuple[int, ...], axes: tuple[int, ...] | None = None) -> Tensor:
    """x cut or padded with zeros to `shape` on the given axes, evenly; an odd one at the end."""
    pads = [[0, 0] for _ in range(x.ndim)]
    for axis, size in zip(range(x.ndim) if axes is None else axes, shape, strict=True):
        more, less = torch.sym_max(size - x.shape[axis], 0), torch.sym_max(x.shape[axis] - size, 0)
        pads[axis] = [more // 2 - less // 2, more - more // 2 - (less - less // 2)]
    return F.pad(x, [amount for pair in reversed(pads) for amount in pair])


def col2im(
    x: Tensor,
    image: tuple[int, ...],
    block: tuple[int, ...],
    dilation: tuple[int, ...],
    begin: tuple[int, ...],
    end: tuple[int, ...],
    stride: tuple[int, ...],
) -> Tensor:
    """The sum of blocks (batch, channels * block, blocks) put at their places of an image of any number of axes."""
    padded = [size + before + after for size, before, after in zip(image, begin, end, strict=True)]
    place = torch.zeros(1, 1, dtype=torch.int64, device=x.device)  # (within the block, block) -> place in the image
    for size, k, d, s in zip(padded, block, dilation, stride, strict=True):
        count = (size - (k - 1) * d - 1) // s + 1
        inner = torch.arange(k, device=x.device)[:, None] * d + torch.arange(count, device=x.device) * s
        place = (place[:, None, :, None] * size + inner[None, :, None, :]).flatten(2).flatten(0, 1)
    x = x.reshape(x.shape[0], -1, place.numel())
    result = x.new_zeros(*x.shape[:2], math.prod(padded)).index_add(2, place.flatten(), x)
    result = result.view(*result.shape[:2], *padded)
    for axis, (size, before) in enumerate(zip(image, begin, strict=True), start=2):
        result = result.narrow(axis, before, size)
    return result


def reflect(place: Tensor, low: float, high: float) -> Tensor:
    """`place` reflected at `low` and `high` until it lies between."""
    span = high - low
    if span == 0:
        return torch.full_like(place, low)
    turn = (place - low).remainder(2 * span)
    return torch.minimum(turn, 2 * span - turn) + low


def grid_sample_nd(
    x: Tensor, grid: Tensor, mode: str = "linear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:
    """`F.grid_sample` over any number of axes, for a grid of another type, and of integers, which are rounded."""
    dtype = x.dtype
    if mode != "nearest" and not (dtype.is_floating_point or dtype.is_complex):
        x = x.double()
    first, count = {"nearest": (0, 1), "linear": (0, 2), "cubic": (-1, 4)}[mode]
    axes: list[tuple[Tensor, Tensor, Tensor]] = []  # of each axis: index, weight, whether inside; tap first
    for axis, size in enumerate(x.shape[2:]):
        g = grid[..., -1 - axis]
        place = (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
        base = place.round() if mode == "nearest" else place.floor()
        taps = torch.arange(first, first + count, device=x.device).view(-1, *[1] * base.ndim)
        index, distance = base + taps, (base + taps - place).abs()
        inside = (index >= 0) & (index < size)
        if padding_mode == "reflection":
            index = reflect(index, 0.0, size - 1.0) if align_corners else reflect(index, -0.5, size - 0.5)
        if mode == "cubic":
            near = (1.25 * distance - 2.25) * distance * distance + 1
            far = ((-0.75 * distance + 3.75) * distance - 6) * distance + 3
            weight = torch.where(distance <= 1, near, far)
        else:
            weight = torch.ones_like(distance) if mode == "nearest" else 1 - distance
        axes.append((index.clamp(0, size - 1).long(), weight.to(x.dtype), inside))
    image = x.flatten(2)
    result: Tensor | None = None
    for combination in range(count ** len(axes)):
        flat, weight = torch.zeros_like(axes[0][0][0]), torch.ones_like(axes[0][1][0])
        inside = torch.ones_like(axes[0][2][0])
        for axis, (size, (index, weights, insides)) in enumerate(zip(x.shape[2:], axes, strict=True)):
            tap = combination // count**axis % count
            flat, weight, inside = flat * size + index[tap], weight * weights[tap], inside & insides[tap]
        value = image.gather(2, flat.flatten(1)[:, None].expand(-1, x.shape[1], -1)).unflatten(2, flat.shape[1:])
        if padding_mode == "zeros":
            value = value.masked_fill(~inside[:, None], 0)
        value = value if mode == "nearest" else value * weight[:, None]
        result = value if result is None else result + value
    assert result is not None
    if x.dtype == dtype:
        return result
    return result.round().clamp(torch.iinfo(dtype).min, torch.iinfo(dtype).max).to(dtype)


def roi_align(
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    output_size: tuple[int, int],
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    half_pixel: bool = True,
    mode: str = "avg",
) -> Tensor:
    """Regions of the image sampled bilinearly to `output_size`: the mean of a grid of samples in each cell, or the
    largest weighted corner of them ("max"). A `sampling_ratio` of 0 fits the grid to the region: its size depends on
    the data."""
    places = []
    for axis in (0, 1):
        size, cells = x.shape[axis + 2], output_size[axis]
        first, last = (rois[:, i] * spatial_scale - 0.5 * half_pixel for i in (1 - axis, 3 - axis))
        length = last - first if half_pixel else (last - first).clamp(min=1)
        cell = length / cells
        count = torch.full_like(cell, sampling_ratio) if sampling_ratio > 0 else cell.ceil().clamp(min=0)
        most = sampling_ratio if sampling_ratio > 0 else max(int(count.amax()), 1) if len(count) else 1
        sample = torch.arange(most, device=x.device)
        step = torch.arange(cells, device=x.device)[:, None] + (sample + 0.5) / count[:, None, None].clamp(min=1)
        place = (first[:, None, None] + step * cell[:, None, None]).flatten(1)
        used = (sample < count[:, None])[:, None].expand(-1, cells, -1).flatten(1)
        inside = (place >= -1) & (place <= size)
        place = place.clamp(0, size - 1)
        low = place.floor()
        high_weight = torch.where(inside, place - low, 0)
        low_weight = torch.where(inside, 1 - (place - low), 0)
        places.append((low.long(), (low.long() + 1).clamp(max=size - 1), low_weight, high_weight, used, count))
    rows, columns = places
    parts = []
    for row, row_weight in ((rows[0], rows[2]), (rows[1], rows[3])):
        for column, column_weight in ((columns[0], columns[2]), (columns[1], columns[3])):
            value = x[batch_indices.long()[:, None, None], :, row[:, :, None], column[:, None, :]]
            parts.append(value * (row_weight[:, :, None] * column_weight[:, None, :]).to(x.dtype)[..., None])
    used = (rows[4][:, :, None] & columns[4][:, None, :])[..., None]
    if mode == "avg":
        samples = torch.where(used, parts[0] + parts[1] + parts[2] + parts[3], 0)
    else:
        samples = torch.where(used, torch.stack(parts).amax(0), -math.inf)
    samples = samples.unflatten(2, (output_size[1], -1)).unflatten(1, (output_size[0], -1))
    if mode == "avg":
        count = (rows[5] * columns[5]).clamp(min=1).view(-1, 1, 1, 1).to(x.dtype)
        return (samples.sum((2, 4)) / count).permute(0, 3, 1, 2)
    largest = samples.amax((2, 4)).permute(0, 3, 1, 2)
    return torch.where(largest == -math.inf, 0, largest)


def max_roi_pool(x: Tensor, rois: Tensor, output_size: tuple[int, int], spatial_scale: float = 1.0) -> Tensor:
    """The largest elements in the cells of each region (batch index, x1, y1, x2, y2), 0 in an empty cell."""
    corners = (rois[:, 1:] * spatial_scale + 0.5).floor()
    masks = []
    for axis in (0, 1):
        first, last = corners[:, 1 - axis], corners[:, 3 - axis]
        cell = (last - first + 1).clamp(min=1) / output_size[axis]
        step = torch.arange(output_size[axis], device=x.device)
        begin = (step * cell[:, None]).floor() + first[:, None]
        end = ((step + 1) * cell[:, None]).ceil() + first[:, None]
        place = torch.arange(x.shape[axis + 2], device=x.device)
        masks.append((place >= begin[..., None]) & (place < end[..., None]))
    regions = []
    for i in range(rois.shape[0]):
        image = x.index_select(0, rois[i, :1].long()).squeeze(0)
        strips = [torch.where(mask, image, -math.inf).amax(-1) for mask in masks[1][i]]
        image = torch.stack(strips, -1)
        strips = [torch.where(mask[:, None], image, -math.inf).amax(-2) for mask in masks[0][i]]
        regions.append(torch.stack(strips, -2))
    result = torch.stack(regions) if regions else x.new_zeros(0, x.shape[1], *output_size)
    return torch.where(result == -math.inf, 0, result)
