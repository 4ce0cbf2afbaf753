"""Operators that read images between their pixels, spelled out where the older opset lacks them or one of their uses.

- GridSample: 16, 20 (images of any number of axes; `linear` and `cubic`, called `bilinear` and `bicubic` before)
- DeformConv: 19
- RoiAlign: 10, 16 (`half_pixel`; before, only `output_half_pixel`)

Each place is between two pixels of every axis (four, if cubic). Their indices and weights are computed axis by axis;
the pixels are gathered for every combination, weighted and added. So a pixel that is not read cannot spread a NaN. Half
precision is computed in float and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import onnx_ir as ir

from ..spelling import INT64, count_up, joined_sizes, reduce, size_of, squeeze, unsqueeze
from ..step import Result, Step, Value, adapter

D = ir.DataType
_MODES = {"bilinear": "linear", "bicubic": "cubic"}
_OLD_MODES = {"linear": "bilinear", "cubic": "bicubic"}
_TAPS = {"nearest": [0], "linear": [0, 1], "cubic": [-1, 0, 1, 2]}
"""The pixels that are read for a place, counted from the one before it."""


@adapter("GridSample", 16, 20)
def grid_modes_up(s: Step, *, mode: str) -> Result:
    return s.again(mode=_MODES.get(mode, mode))


@adapter("GridSample", 20, 16)
def grid_modes_down(s: Step, X: Value, grid: Value, *, mode: str, padding_mode: str, align_corners: int) -> Result:
    if s.rank(X) == 4:
        return s.again(mode=_OLD_MODES.get(mode, mode))
    return sampled_by_a_grid(s, X, grid, mode=mode, padding_mode=padding_mode, align_corners=align_corners)


@adapter("GridSample", 16, 0)
def sampled_by_a_grid(s: Step, X: Value, grid: Value, *, mode: str, padding_mode: str, align_corners: int) -> Result:
    """The grid tells a place for each pixel of the result, from -1 to 1 on each axis, the last axis first.

    Cubic interpolation at a border reads around the place as it is told, and keeps the pixels within the image, as ONNX
    Runtime and PyTorch do. (ONNX's reference moves the place to the border first.)"""
    axes, dtype = s.rank(X) - 2, s.dtype(X)
    mode = _MODES.get(mode, mode)
    if mode != "nearest" and dtype not in (D.FLOAT, D.DOUBLE, D.FLOAT16, D.BFLOAT16):
        s.refuse(f"{mode} interpolation of integers is not defined: nobody says how the result is rounded")
    wide = D.DOUBLE if s.dtype(grid) == D.DOUBLE else D.FLOAT
    numbers = s.cast(grid, wide)
    one, two = s.array(1, wide), s.array(2, wide)
    found: list[list[_Tap]] = []
    for axis in range(axes):
        size = s.cast(size_of(s, X, axis + 2), wide)
        turned = s.Add(s.Gather(numbers, s.array(axes - 1 - axis), axis=axes + 1), one)
        if align_corners:
            place = s.Mul(s.Div(turned, two), s.Sub(size, one))
            low, high = s.array(0, wide), s.Sub(size, one)
        else:
            place = s.Div(s.Sub(s.Mul(turned, size), one), two)
            low, high = s.array(-0.5, wide), s.Sub(size, s.array(0.5, wide))
        bounds = (low, high) if padding_mode == "reflection" else None
        found.append(_taps(s, place, size, mode, wide, bounds))
    image = _flat_image(s, X, axes)
    inner = dtype if mode == "nearest" or dtype == D.DOUBLE else D.FLOAT
    image = s.cast(image, inner)
    sizes = [size_of(s, X, axis + 2) for axis in range(axes)]
    total = _weighted(
        s, image, s.Shape(X), found, sizes, inner, zeros=padding_mode == "zeros", weighted=mode != "nearest"
    )
    shape = s.Concat(size_of(s, X, 0), size_of(s, X, 1), *(size_of(s, grid, axis + 1) for axis in range(axes)), axis=0)
    return s.cast(s.Reshape(total, shape), dtype)


@dataclass(frozen=True)
class _Tap:
    """One of the pixels that are read along an axis: its index, kept within the image, its weight, and whether it is
    in the image."""

    index: Value
    weight: Value | None
    inside: Value


def _taps(s: Step, place: Value, size: Value, mode: str, wide: D, bounds: tuple[Value, Value] | None) -> list[_Tap]:
    """Return the pixels that are read along one axis for these places. A place that is no number reads the last one."""
    zero = s.array(0, wide)
    last = s.Sub(size, s.array(1, wide))
    base = s.Round(place) if mode == "nearest" else s.Floor(place)
    taps: list[_Tap] = []
    for offset in _TAPS[mode]:
        index = s.Add(base, s.array(offset, wide)) if offset else base
        inside = s.And(s.Not(s.Less(index, zero)), s.Less(index, size))
        weight = None if mode == "nearest" else _weight(s, s.Abs(s.Sub(index, place)), mode, offset, wide)
        if bounds is not None:
            index = _reflected(s, index, *bounds, wide)
        within = s.Where(s.Less(index, last), s.Max(index, zero), last)
        taps.append(_Tap(s.Cast(within, to=int(INT64)), weight, inside))
    return taps


def _weight(s: Step, distance: Value, mode: str, offset: int, wide: D) -> Value:
    """Return the weight of a pixel at a distance: a triangle, or Keys' cubic with a = -0.75."""
    if mode == "linear":
        return s.Sub(s.array(1, wide), distance)
    if offset in (0, 1):
        factors = (1.25, -2.25, 0.0, 1.0)
    else:
        factors = (-0.75, 3.75, -6.0, 3.0)
    return polynomial(s, distance, factors, wide)


def polynomial(s: Step, x: Value, factors: Sequence[float], wide: D) -> Value:
    """Return the value of a polynomial by Horner's scheme, the factor of the highest power first."""
    total = s.array(factors[0], wide)
    for factor in factors[1:]:
        total = s.Mul(total, x)
        total = s.Add(total, s.array(factor, wide)) if factor else total
    return total


def _reflected(s: Step, index: Value, low: Value, high: Value, wide: D) -> Value:
    """Return an index reflected at the borders until it lies between them."""
    span = s.Mul(s.Sub(high, low), s.array(2, wide))
    shift = s.Sub(index, low)
    turn = s.Sub(shift, s.Mul(s.Floor(s.Div(shift, span)), span))
    return s.Add(s.Min(turn, s.Sub(span, turn)), low)


def _flat_image(s: Step, X: Value, axes: int) -> Value:
    """Return the image with all pixels of a channel on one axis."""
    return s.Reshape(X, s.Concat(size_of(s, X, 0), size_of(s, X, 1), joined_sizes(s, X, range(2, axes + 2)), axis=0))


def _weighted(
    s: Step,
    image: Value,
    shape: Value,
    found: Sequence[Sequence[_Tap]],
    sizes: Sequence[Value],
    inner: D,
    *,
    zeros: bool,
    weighted: bool,
) -> Value:
    """Return the weighted sum over all combinations of pixels, of images (batch, channel, pixel): (batch, channel,
    place), for places of any shape behind the batch."""
    total: Value | None = None
    flat = s.array([0, -1])
    for chosen in product(*found):
        index, inside, weight = chosen[0].index, chosen[0].inside, chosen[0].weight
        for tap, size in zip(chosen[1:], sizes[1:], strict=True):
            index = s.Add(s.Mul(index, size), tap.index)
            inside = s.And(inside, tap.inside)
            weight = s.Mul(weight, tap.weight) if weight is not None and tap.weight is not None else None
        row = unsqueeze(s, s.Reshape(index, flat), [1])
        count = s.Gather(s.Shape(row), s.array([2]), axis=0)
        wanted = s.Concat(s.Gather(shape, s.array([0, 1]), axis=0), count, axis=0)
        value = s.GatherElements(image, s.Expand(row, wanted), axis=2)
        if zeros:
            there = unsqueeze(s, s.Reshape(inside, flat), [1])
            value = s.Where(there, value, s.array(0, inner))
        if weighted and weight is not None:
            value = s.Mul(value, s.Cast(unsqueeze(s, s.Reshape(weight, flat), [1]), to=int(inner)))
        total = value if total is None else s.Add(total, value)
    assert total is not None
    return total


@adapter("DeformConv", 19, 0)
def convolution_of_moved_pixels(
    s: Step,
    X: Value,
    W: Value,
    offset: Value,
    B: Value | None,
    mask: Value | None,
    *,
    dilations: tuple[int, ...] | None,
    group: int,
    offset_group: int,
    pads: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
    kernel_shape: tuple[int, ...] | None,
) -> Result:
    """The pixels that each element of the kernel reads are gathered, and a product of matrices adds them up."""
    if s.rank(X) != 4:
        s.refuse(f"DeformConv over images of {s.rank(X)} axes is not defined")
    kernel = kernel_shape or (() if W.shape is None else W.shape[2:])
    known = [size for size in kernel if isinstance(size, int)]
    if len(known) != 2:
        s.refuse("the size of its kernel is not known")
    height, width = known
    dtype = s.dtype(X)
    wide = D.DOUBLE if dtype == D.DOUBLE else D.FLOAT
    steps, holes, edges = list(strides or (1, 1)), list(dilations or (1, 1)), list(pads or (0, 0, 0, 0))
    taps = height * width
    batch, channels = size_of(s, X, 0), size_of(s, X, 1)
    outputs = [size_of(s, offset, 2), size_of(s, offset, 3)]
    # (batch * offset group, tap, 2, rows, columns)
    groups = s.Mul(batch, s.array([offset_group]))
    moved = s.Reshape(s.cast(offset, wide), s.Concat(groups, s.array([taps, 2]), *outputs, axis=0))
    found: list[list[_Tap]] = []
    inside_kernel = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij")).reshape(2, -1)
    for axis in (0, 1):
        tap = s.array((inside_kernel[axis] * holes[axis] - edges[axis]).reshape(-1, 1, 1), wide)
        step = s.Mul(s.cast(count_up(s, outputs[axis]), wide), s.array(steps[axis], wide))
        start = s.Add(tap, unsqueeze(s, step, [1]) if axis == 0 else step)
        place = s.Add(s.Gather(moved, s.array(axis), axis=2), start)
        found.append(_taps(s, place, s.cast(size_of(s, X, axis + 2), wide), "linear", wide, None))
    pixels = joined_sizes(s, X, [2, 3])
    shape = s.Concat(groups, s.Div(channels, s.array([offset_group])), pixels, axis=0)
    image = s.Reshape(s.cast(X, wide), shape)
    sizes = [size_of(s, X, axis + 2) for axis in (0, 1)]
    sampled = _weighted(s, image, shape, found, sizes, wide, zeros=True, weighted=True)
    if mask is not None:
        sampled = s.Mul(sampled, s.Reshape(s.cast(mask, wide), s.Concat(groups, s.array([1, -1]), axis=0)))
    places = s.Mul(*outputs)
    columns = s.Reshape(
        sampled,
        s.Concat(batch, s.array([group]), s.Mul(s.Div(channels, s.array([group])), s.array([taps])), places, axis=0),
    )
    made = size_of(s, W, 0)
    matrix = s.Reshape(
        s.cast(W, wide), s.Concat(s.array([group]), s.Div(made, s.array([group])), s.array([-1]), axis=0)
    )
    y = s.Reshape(s.MatMul(matrix, columns), s.Concat(batch, made, *outputs, axis=0))
    if B is not None:
        y = s.Add(y, unsqueeze(s, s.cast(B, wide), [1, 2]))
    return s.cast(y, dtype)


@adapter("RoiAlign", 10, 16)
def regions_without_shift(s: Step) -> Result:
    return s.again(coordinate_transformation_mode="output_half_pixel")


@adapter("RoiAlign", 16, 10)
def regions_with_shift(
    s: Step,
    X: Value,
    rois: Value,
    batch_indices: Value,
    *,
    coordinate_transformation_mode: str,
    mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
) -> Result:
    """Regions that are moved by half a pixel, and may be smaller than one: the samples of each cell are gathered, and
    their mean is taken."""
    if coordinate_transformation_mode != "half_pixel":
        return s.again(coordinate_transformation_mode=None)
    if mode != "avg":
        s.refuse("the largest sample in half_pixel coordinates is not known before opset 16")
    dtype = s.dtype(X)
    wide = D.DOUBLE if dtype == D.DOUBLE else D.FLOAT
    corners = s.Sub(s.Mul(s.cast(rois, wide), s.array(spatial_scale, wide)), s.array(0.5, wide))
    found = [
        _samples_of_regions(s, corners, axis, cells, sampling_ratio, size_of(s, X, axis + 2), wide)
        for axis, cells in ((0, output_height), (1, output_width))
    ]
    image = s.Transpose(s.cast(X, wide), perm=[0, 2, 3, 1])
    sample = unsqueeze(s, s.cast(batch_indices, INT64), [1, 2])
    total: Value | None = None
    rows, columns = (axis.taps for axis in found)
    for row, column in product(rows, columns):
        down, across = unsqueeze(s, row.index, [2]), unsqueeze(s, column.index, [1])
        both = s.Shape(s.Add(down, across))
        parts = [unsqueeze(s, s.Expand(part, both), [3]) for part in (sample, down, across)]
        assert row.weight is not None and column.weight is not None
        weight = s.Mul(unsqueeze(s, row.weight, [2]), unsqueeze(s, column.weight, [1]))
        value = s.Mul(s.GatherND(image, s.Concat(*parts, axis=3)), unsqueeze(s, weight, [3]))
        total = value if total is None else s.Add(total, value)
    assert total is not None
    used = unsqueeze(s, s.And(unsqueeze(s, found[0].used, [2]), unsqueeze(s, found[1].used, [1])), [3])
    kept = s.Where(used, total, s.array(0, wide))
    # (region, cell, sample, cell, sample, channel)
    cells = s.array([0, output_height]), found[0].most, s.array([output_width]), found[1].most, size_of(s, X, 1)
    split = s.Reshape(kept, s.Concat(*cells, axis=0))
    sums = squeeze(s, reduce(s, "ReduceSum", split, [2, 4]), [2, 4])
    count = s.Max(s.Mul(found[0].count, found[1].count), s.array(1, wide))
    mean = s.Div(sums, unsqueeze(s, count, [1, 2, 3]))
    return s.cast(s.Transpose(mean, perm=[0, 3, 1, 2]), dtype)


@dataclass(frozen=True)
class _Samples:
    """The samples of all cells of each region along one axis: the pixels that are read; which samples are used; how
    many of them are in a cell of each region; and the largest of these numbers, as a list of one."""

    taps: list[_Tap]
    used: Value
    count: Value
    most: Value


def _samples_of_regions(
    s: Step, corners: Value, axis: int, cells: int, sampling_ratio: int, size: Value, wide: D
) -> _Samples:
    """Return the samples along one axis. A `sampling_ratio` of 0 fits their number to the size of the region."""
    zero, one, half = s.array(0, wide), s.array(1, wide), s.array(0.5, wide)
    first, last = (s.Gather(corners, s.array(place), axis=1) for place in (1 - axis, 3 - axis))
    cell = s.Div(s.Sub(last, first), s.array(cells, wide))
    if sampling_ratio > 0:
        count = s.Add(s.Mul(cell, zero), s.array(sampling_ratio, wide))
        most = s.array([sampling_ratio])
    else:
        count = s.Max(s.Ceil(cell), zero)
        largest = reduce(s, "ReduceMax", s.Concat(count, s.array([1], wide), axis=0), [0])
        most = s.Cast(largest, to=int(INT64))
    sample = s.cast(count_up(s, most), wide)
    within = s.Div(s.Add(sample, half), unsqueeze(s, s.Max(count, one), [1]))  # (region, sample)
    step = s.Add(s.array(np.arange(cells).reshape(-1, 1), wide), unsqueeze(s, within, [1]))
    place = s.Add(unsqueeze(s, first, [1, 2]), s.Mul(step, unsqueeze(s, cell, [1, 2])))  # (region, cell, sample)
    used = s.Expand(s.Less(sample, unsqueeze(s, count, [1, 2])), s.Shape(place))
    flat = s.Concat(s.array([0]), s.Mul(s.array([cells]), most), axis=0)
    place, used = s.Reshape(place, flat), s.Reshape(used, flat)
    extent = s.cast(size, wide)
    inside = s.And(s.Not(s.Less(place, s.array(-1, wide))), s.Not(s.Greater(place, extent)))
    end = s.Sub(extent, one)
    place = s.Where(s.Less(place, end), s.Max(place, zero), end)
    low = s.Floor(place)
    rest = s.Sub(place, low)
    weights = s.Where(inside, s.Sub(one, rest), zero), s.Where(inside, rest, zero)
    indices = low, s.Min(s.Add(low, one), end)
    taps = [_Tap(s.Cast(index, to=int(INT64)), weight, inside) for index, weight in zip(indices, weights, strict=True)]
    return _Samples(taps, used, count, most)
