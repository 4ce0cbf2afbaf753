"""Operators on images: Resize and Upsample, Col2Im.

- Upsample: 1 (`height_scale`, `width_scale`), 7 (`scales`), 9 (`scales` is an input), 10 (Resize takes its place)
- Resize: 10, 11 (coordinates and rounding, `sizes`, `roi`), 13 (`roi` and `scales` may be left out), 18 (`axes`,
  `antialias`, `keep_aspect_ratio_policy`), 19 (`half_pixel_symmetric`)
- Col2Im: 18

At opset 10, `nearest` rounds down where an axis grows and up where it shrinks, from coordinates that are `asymmetric`.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ..spelling import INT64, scattered
from ..step import Result, Step, Value, adapter
from .resizing import resized_axis_by_axis

FLOAT = ir.DataType.FLOAT


@adapter("Upsample", 1, 7)
def scales_of_all_axes(s: Step, *, height_scale: float, width_scale: float, mode: str) -> Result:
    scales = [1.0, 1.0, height_scale, width_scale]
    return s.again(scales=scales, height_scale=None, width_scale=None, mode="linear" if mode == "bilinear" else mode)


@adapter("Upsample", 7, 9)
def upsample_scales_become_an_input(s: Step, X: Value, *, scales: tuple[float, ...]) -> Result:
    return s.again(X, s.array(list(scales), FLOAT), scales=None)


@adapter("Upsample", 9, 7)
def upsample_scales_become_an_attribute(s: Step, X: Value, scales: Value) -> Result:
    known = s.constant(scales)
    if known is None:
        s.refuse("its scales must be a constant before opset 9, and they are computed")
    return s.again(X, scales=[float(scale) for scale in known])


@adapter("Upsample", 9, 10)
def upsample_becomes_resize(s: Step, X: Value, scales: Value, *, mode: str) -> Result:
    return s.Resize(X, scales, mode="linear" if mode == "bilinear" else mode)


@adapter("Resize", 10, 0)
def resize_becomes_upsample(s: Step, X: Value, scales: Value, *, mode: str) -> Result:
    known = s.constant(scales)
    if known is None or (known < 1).any():
        s.refuse("there is no Resize before opset 10, and Upsample never makes an axis smaller")
    return s.Upsample(X, scales, mode=mode)


@adapter("Resize", 10, 11)
def coordinates_are_told(s: Step, X: Value, scales: Value, *, mode: str) -> Result:
    """Axes that grow and axes that shrink round in different ways, so they take a Resize each, if there are both."""
    nothing = s.array([], FLOAT)
    told = {"coordinate_transformation_mode": "asymmetric", "mode": mode}
    if mode != "nearest":
        return s.again(X, nothing, scales, coordinate_transformation_mode="asymmetric")
    known = s.constant(scales)
    one = s.array(1.0, FLOAT)
    x = X
    if known is None or (known > 1).any() or (known == 1).all():
        larger = scales if known is not None and (known >= 1).all() else s.several(1, "Max", scales, one, at=8)[0]
        x = s.Resize(x, nothing, larger, nearest_mode="floor", **told)
    if known is None or (known < 1).any():
        smaller = scales if known is not None and (known <= 1).all() else s.several(1, "Min", scales, one, at=8)[0]
        x = s.Resize(x, nothing, smaller, nearest_mode="ceil", **told)
    return x


@adapter("Resize", 11, 10)
def coordinates_are_asymmetric(
    s: Step,
    X: Value,
    roi: Value | None,
    scales: Value | None,
    sizes: Value | None,
    *,
    mode: str,
    coordinate_transformation_mode: str,
    nearest_mode: str,
) -> Result:
    if sizes is not None or scales is None:
        s.refuse("sizes are not known before opset 11")
    if coordinate_transformation_mode != "asymmetric" or mode == "cubic":
        s.refuse(f"{mode} in {coordinate_transformation_mode} coordinates is not known before opset 11")
    known = s.constant(scales)
    if mode == "nearest":
        grows = known is not None and (known >= 1).all() and nearest_mode == "floor"
        shrinks = known is not None and (known <= 1).all() and nearest_mode == "ceil"
        if not grows and not shrinks:
            s.refuse(f"nearest_mode {nearest_mode} for these scales is not known before opset 11")
    kept = {name: None for name in s.node.attributes if name != "mode"}
    return s.again(X, scales, **kept)


@adapter("Resize", 11, 13)
def empty_inputs_are_left_out(
    s: Step, X: Value, roi: Value | None, scales: Value | None, sizes: Value | None
) -> Result:
    given = [None if _is_empty(s, value) else value for value in (roi, scales, sizes)]
    return s.again(X, *given)


@adapter("Resize", 13, 11)
def inputs_that_are_left_out_are_empty(
    s: Step, X: Value, roi: Value | None, scales: Value | None, sizes: Value | None
) -> Result:
    return s.again(X, roi or s.array([], FLOAT), scales or s.array([], FLOAT), sizes)


def _is_empty(s: Step, value: Value | None) -> bool:
    known = None if value is None else s.constant(value)
    return value is None or (known is not None and not known.size)


@adapter("Resize", 18, 13)
def scales_and_sizes_of_all_axes(
    s: Step,
    X: Value,
    roi: Value | None,
    scales: Value | None,
    sizes: Value | None,
    *,
    axes: tuple[int, ...] | None,
    antialias: int,
    keep_aspect_ratio_policy: str,
    mode: str,
) -> Result:
    """Other axes than `axes` keep their size. Nearest and enlarging need no antialiasing."""
    widens = antialias and mode != "nearest" and not _grows(s, scales)
    if widens or (sizes is not None and keep_aspect_ratio_policy != "stretch"):
        return resized_axis_by_axis(s)
    if axes is not None:
        rank = s.rank(X)
        places = s.array([axis % rank for axis in axes])
        if scales is not None and not _is_empty(s, scales):
            scales = scattered(s, s.array([1.0] * rank, FLOAT), places, scales)
        if sizes is not None and not _is_empty(s, sizes):
            sizes = scattered(s, s.Shape(X), places, sizes)
        if roi is not None and not _is_empty(s, roi):
            both = s.array([axis % rank for axis in axes] + [axis % rank + rank for axis in axes])
            dtype = s.dtype(roi)
            roi = scattered(s, s.array([0.0] * rank + [1.0] * rank, dtype), both, roi)
    return s.again(X, roi, scales, sizes, axes=None, antialias=None, keep_aspect_ratio_policy=None)


def _grows(s: Step, scales: Value | None) -> bool:
    known = None if scales is None else s.constant(scales)
    return known is not None and known.size > 0 and bool((known >= 1).all())


@adapter("Resize", 19, 18)
def coordinates_known_before(s: Step, *, coordinate_transformation_mode: str) -> Result:
    if coordinate_transformation_mode == "half_pixel_symmetric":
        return resized_axis_by_axis(s)
    return s.again()


@adapter("Col2Im", 18, 0)
def sum_of_blocks(
    s: Step,
    input: Value,
    image_shape: Value,
    block_shape: Value,
    *,
    dilations: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
) -> Result:
    """A transposed convolution puts each element of a block where it belongs, with a kernel of a single one each.

    What an uneven stride leaves of the image is filled up with 0."""
    count = image_shape.shape[0] if image_shape.shape is not None and len(image_shape.shape) else None
    if not isinstance(count, int):
        s.refuse("the number of axes of the image is not known")
    steps, holes = list(strides or [1] * count), list(dilations or [1] * count)
    edges = list(pads or [0] * (2 * count))
    one = s.array([1] * count)
    reach = s.Mul(s.array(holes), s.Sub(block_shape, one))
    padded = s.Add(image_shape, s.array([edges[i] + edges[i + count] for i in range(count)]))
    free = s.Sub(s.Sub(padded, reach), one)
    places = s.Add(s.Div(free, s.array(steps)), one)
    size = s.ReduceProd(block_shape, keepdims=1)
    wanted = s.dtype(input)
    dtype = _summed_in(s, wanted, block_shape)
    input = s.cast(input, dtype)
    eye = s.EyeLike(s.ConstantOfShape(s.Concat(size, size, axis=0), value=np.zeros(1, np.float32)), dtype=int(dtype))
    kernel = s.Reshape(eye, s.Concat(size, s.array([1]), block_shape, axis=0))
    images = s.Reshape(input, s.Concat(s.array([-1]), size, places, axis=0))
    full = s.ConvTranspose(images, kernel, strides=steps, dilations=holes)
    missing = s.Sub(free, s.Mul(s.Div(free, s.array(steps)), s.array(steps)))
    ends = s.Sub(missing, s.array(edges[count:]))
    starts = s.array([0, 0] + [-edge for edge in edges[:count]])
    cut = s.Pad(full, s.Concat(starts, s.array([0, 0]), ends, axis=0))
    batch = s.Gather(s.Shape(input), s.array([0]), axis=0)
    channels = s.Div(s.Gather(s.Shape(input), s.array([1]), axis=0), size)
    image = s.Reshape(cut, s.Concat(batch, channels, s.cast(image_shape, INT64), axis=0))
    return image if dtype == wanted else s.cast(s.Cast(image, to=int(INT64)), wanted)


def _summed_in(s: Step, dtype: ir.DataType, block_shape: Value) -> ir.DataType:
    """Return the type to add numbers in: integers are added as floats, if no sum is beyond what these hold exactly."""
    if dtype.is_floating_point():
        return dtype
    known = s.constant(block_shape)
    largest = np.iinfo(dtype.numpy()).max + 1 if dtype.is_integer() else 2**24
    if known is None or int(np.prod(known)) * largest > 2**24:
        s.refuse(f"sums of {dtype.name.lower()} may be larger than floats hold exactly")
    return FLOAT
