"""Resize with all that ONNX can ask for. One axis after the other, which is exact: every mode is separable."""

import math

import torch
from torch import Tensor


def resize_target(
    x: Tensor,
    axes: tuple[int, ...] | None,
    sizes: tuple[int, ...] | None,
    scales: tuple[float, ...] | None,
    keep_aspect_ratio: str = "stretch",
) -> list[tuple[int, int, float, float]]:
    """(axis, output size, scale, output size before rounding) of every axis to resize, from `sizes` or `scales`; if
    both are given, `sizes` only says how the outputs of `scales` are rounded."""
    axes = tuple(range(x.ndim)) if axes is None else tuple(axis % x.ndim for axis in axes)
    if scales is not None:
        exact = [x.shape[axis] * scale for axis, scale in zip(axes, scales, strict=True)]
        outputs = [torch.sym_int(size) for size in exact] if sizes is None else sizes
        return list(zip(axes, outputs, scales, exact, strict=True))
    assert sizes is not None
    ratios = [size / x.shape[axis] for axis, size in zip(axes, sizes, strict=True)]
    if keep_aspect_ratio == "stretch":
        return list(zip(axes, sizes, ratios, sizes, strict=True))
    scale = min(ratios) if keep_aspect_ratio == "not_larger" else max(ratios)
    return [(axis, torch.sym_int(scale * x.shape[axis] + 0.5), scale, scale * x.shape[axis]) for axis in axes]


def resize_coordinates(
    size: int,
    output: int,
    scale: float,
    exact_output: float,
    mode: str,
    start: float,
    end: float,
    device: torch.device,
    dtype: torch.dtype,
) -> Tensor:
    """Return where in an axis of `size` elements each of the `output` elements is read; fractional."""
    place = torch.arange(output, device=device, dtype=dtype)
    if mode == "asymmetric":
        return place / scale
    if mode == "align_corners":
        return place * 0 if exact_output == 1 else place * (size - 1) / (exact_output - 1)
    if mode == "tf_crop_and_resize":
        if exact_output == 1:
            return place * 0 + (start + end) * (size - 1) / 2
        return start * (size - 1) + place * (end - start) * (size - 1) / (exact_output - 1)
    if mode == "tf_half_pixel_for_nn":
        return (place + 0.5) / scale
    if mode == "pytorch_half_pixel" and output == 1:
        return place * 0
    offset = size / 2 * (1 - output / exact_output) if mode == "half_pixel_symmetric" else 0.0
    return offset + (place + 0.5) / scale - 0.5


def resize_nearest(
    x: Tensor,
    sizes: tuple[int, ...] | None = None,
    scales: tuple[float, ...] | None = None,
    axes: tuple[int, ...] | None = None,
    coordinates: str = "half_pixel",
    rounding: str = "round_prefer_floor",
    keep_aspect_ratio: str = "stretch",
    roi: tuple[float, ...] | None = None,
    extrapolation: float = 0.0,
) -> Tensor:
    """Each output element is the input element nearest to its place. `rounding` "simple" is what there was before
    ONNX had a choice: down when enlarging, up when shrinking."""
    target = resize_target(x, axes, sizes, scales, keep_aspect_ratio)
    for i, (axis, output, scale, exact) in enumerate(target):
        start, end = (0.0, 1.0) if roi is None else (roi[i], roi[i + len(target)])
        size = x.shape[axis]
        if scale == 1 and output == size and (start, end) == (0, 1):
            continue
        # float32, as other runtimes have it: its rounding decides which of two elements is nearest.
        place = resize_coordinates(size, output, scale, exact, coordinates, start, end, x.device, torch.float32)
        if rounding == "round_prefer_floor":
            index = (place - 0.5).ceil()
        elif rounding == "round_prefer_ceil":
            index = (place + 0.5).floor()
        else:
            index = place.ceil() if rounding == "ceil" or (rounding == "simple" and scale < 1) else place.floor()
        x = x.index_select(axis, index.long().clamp(0, size - 1))
        if roi is not None:
            outside = ((place < 0) | (place > size - 1)).view(-1, *[1] * (x.ndim - axis - 1))
            x = torch.where(outside, torch.as_tensor(extrapolation, dtype=x.dtype, device=x.device), x)
    return x


def resize(
    x: Tensor,
    mode: str,
    sizes: tuple[int, ...] | None = None,
    scales: tuple[float, ...] | None = None,
    axes: tuple[int, ...] | None = None,
    coordinates: str = "half_pixel",
    cubic_a: float = -0.75,
    antialias: bool = False,
    exclude_outside: bool = False,
    keep_aspect_ratio: str = "stretch",
    roi: tuple[float, ...] | None = None,
    extrapolation: float = 0.0,
) -> Tensor:
    """Linear or cubic interpolation. Elements outside of x are those at its edge, or left out of the weighted mean if
    `exclude_outside`. `antialias` widens the filter when shrinking."""
    dtype = x.dtype
    target = resize_target(x, axes, sizes, scales, keep_aspect_ratio)
    x = x.float() if dtype.is_floating_point and dtype != torch.float64 else x.double()  # double: to round integers
    for i, (axis, output, scale, exact) in enumerate(target):
        start, end = (0.0, 1.0) if roi is None else (roi[i], roi[i + len(target)])
        size = x.shape[axis]
        if scale == 1 and output == size and (start, end) == (0, 1):
            continue
        place = resize_coordinates(size, output, scale, exact, coordinates, start, end, x.device, x.dtype)
        base = place.floor()
        stretch = min(scale, 1.0) if antialias else 1.0
        reach = (1 if mode == "linear" else 2) / stretch
        first = math.floor(-reach) + 1
        taps = torch.arange(first, 2 - first, device=x.device)
        weights = resize_filter((taps - (place - base)[:, None]).abs() * stretch, mode, cubic_a)
        index = base.long()[:, None] + taps
        if exclude_outside:
            weights = torch.where((index >= 0) & (index < size), weights, 0)
        if exclude_outside or antialias:
            weights = weights / weights.sum(1, keepdim=True)
        shape = (-1, *[1] * (x.ndim - axis - 1))
        parts = [
            x.index_select(axis, element.clamp(0, size - 1)) * weight.view(shape)
            for element, weight in zip(index.unbind(1), weights.unbind(1), strict=True)
        ]
        x = torch.stack(parts).sum(0)
        if roi is not None:
            x = torch.where(((place < 0) | (place > size - 1)).view(shape), extrapolation, x)
    if dtype.is_floating_point:
        return x.to(dtype)
    return x.round().clamp(torch.iinfo(dtype).min, torch.iinfo(dtype).max).to(dtype)


def resize_filter(distance: Tensor, mode: str, a: float) -> Tensor:
    """The weight of an element at `distance` from the place that is read: a triangle, or Keys' cubic."""
    if mode == "linear":
        return (1 - distance).clamp(min=0)
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return torch.where(distance <= 1, near, torch.where(distance < 2, far, 0))
