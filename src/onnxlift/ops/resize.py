"""Resize and Upsample: `F.interpolate` where it is exactly the same, else the kernels `resize_nearest` and `resize`.

F.interpolate is the same (over the axes after batch and channels, for floating-point inputs) when
- linear (1-D to 3-D) or cubic (2-D, a = -0.75), half_pixel or align_corners, neither antialias nor exclude_outside:
  `pytorch_half_pixel` differs only for outputs of size 1
- nearest, if both pick the same element everywhere. Their formulas differ and rounding decides at the borders, so all
  places are compared where the sizes are known. For a whole-numbered scale and sizes that are not known, output i is
  element i // scale; PyTorch computes floor(i * float32(1 / scale)), which is compared for i up to 2**16.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..code.expr import Expr, F
from ..ir.symbolic import multiply
from ..ir.types import DataType
from .arguments import attribute_number, changed, compact
from .kernel import kernel
from .node import Node, Result
from .operand import Constant, Dims, Operand, Tensor
from .registry import op

Floats = np.ndarray[Any, np.dtype[np.float32]]
INTERPOLATE = {
    ("linear", 1): "linear",
    ("linear", 2): "bilinear",
    ("linear", 3): "trilinear",
    ("cubic", 2): "bicubic",
    ("nearest", 1): "nearest",
    ("nearest", 2): "nearest",
    ("nearest", 3): "nearest",
}
FLOATS = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)


@op("Upsample")
def Upsample(
    n: Node,
    X: Tensor,
    scales: Operand | None,
    *,
    mode: str,
    height_scale: float | None = None,
    width_scale: float | None = None,
) -> Result:
    """Opset 1 had two attributes and "bilinear", 7 `scales` as an attribute, 9 as an input; 10 has Resize instead."""
    how = {"coordinates": "asymmetric", "rounding": "simple"}
    mode = "linear" if mode == "bilinear" else mode
    if scales is None:
        if height_scale is None or width_scale is None:
            n.fail("it has no scales")
        return _resize(n, X, mode, how, None, scales=[1.0, 1.0, height_scale, width_scale])
    return _resize(n, X, mode, how, None, scales=_numbers(n, scales))


@op("Resize")
def Resize(
    n: Node,
    X: Tensor,
    roi: Operand | None,
    scales: Operand | None,
    sizes: Operand | None,
    *,
    antialias: int = 0,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "asymmetric",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str,
    nearest_mode: str = "simple",
) -> Result:
    """Opset 10 has only `scales`, and no say in coordinates and rounding: the defaults here are those of then."""
    if n.opset < 11:
        roi, scales = None, roi
    how: dict[str, Any] = {
        "coordinates": coordinate_transformation_mode,
        "rounding": nearest_mode,
        "cubic_a": attribute_number(cubic_coeff_a, X),
        "antialias": bool(antialias),
        "exclude_outside": bool(exclude_outside),
        "keep_aspect_ratio": keep_aspect_ratio_policy,
    }
    if coordinate_transformation_mode == "tf_crop_and_resize":
        if roi is None:
            n.fail("tf_crop_and_resize without a roi")
        how |= {"roi": _numbers(n, roi), "extrapolation": attribute_number(extrapolation_value, X)}
    if sizes is not None and not _is_empty(sizes):
        return _resize(n, X, mode, how, axes, sizes=_sizes(n, sizes))
    if scales is None or _is_empty(scales):
        n.fail("it has neither sizes nor scales")
    return _resize(n, X, mode, how, axes, scales=_numbers(n, scales))


def _is_empty(operand: Operand) -> bool:
    """Exporters wrote an empty tensor for an input that is not used, when it could not be left out."""
    return operand.type.dim(0) == 0


def _numbers(n: Node, operand: Operand) -> Any:
    """Scales or a roi as a list of floats, or the expression that gives one."""
    if isinstance(operand, Constant):
        return [float(str(v)) for v in operand.const.reshape(-1)]
    if isinstance(operand, Dims):
        return operand
    return n.tensor(operand).tolist()


def _sizes(n: Node, operand: Operand) -> Any:
    if isinstance(operand, Constant):
        return [int(v) for v in operand.const.reshape(-1)]
    return operand if isinstance(operand, Dims) else n.tensor(operand).tolist()


def _resize(
    n: Node,
    x: Tensor,
    mode: str,
    how: dict[str, Any],
    axes: tuple[int, ...] | None,
    *,
    sizes: Any = None,
    scales: Any = None,
) -> Expr:
    if mode not in ("nearest", "linear", "cubic"):
        n.fail(f"mode {mode!r} is not one of nearest, linear, cubic")
    factors = _whole_factors(n, x, how, axes, sizes)
    if factors is not None:
        sizes, scales = None, factors
    target = sizes if scales is None else scales
    idiom = _interpolate(n, x, mode, how, axes, _elements(target), scaled=sizes is None)
    if idiom is not None:
        return idiom
    axes, target = _without_unchanged(n, x, axes, target, scaled=sizes is None, how=how)
    options: dict[str, Any] = {"sizes" if scales is None else "scales": _tuple(target), "axes": axes, **how}
    if scales is not None:
        options["sizes"] = _rounded_otherwise(x, axes, target)
    if "roi" in options:
        options["roi"] = _tuple(options["roi"])
    if mode == "nearest":
        for name in ("cubic_a", "antialias", "exclude_outside"):
            options.pop(name, None)
        return kernel("resize_nearest")(x, **_written(options))
    options.pop("rounding")
    return kernel("resize")(x, mode, **_written(options))


def _rounded_otherwise(x: Tensor, axes: tuple[int, ...] | None, scales: Any) -> tuple[int, ...] | None:
    """The output sizes, where float32 gives others than the double arithmetic of the running model."""
    if not isinstance(scales, list) or x.type.rank is None or len(scales) != len(axes or range(x.type.rank)):
        return None
    sizes = [x.type.dim(axis) for axis in axes or range(x.type.rank)]
    if not all(isinstance(d, int) for d in sizes) or not all(isinstance(s, int | float) for s in scales):
        return None
    if all(_same_output_size(d, s) for d, s in zip(sizes, scales, strict=True)):
        return None
    return tuple(int(np.float32(d) * np.float32(s)) for d, s in zip(sizes, scales, strict=True))


def _tuple(values: Any) -> Any:
    return tuple(values) if isinstance(values, list) else values


def _written(options: dict[str, Any]) -> dict[str, Any]:
    defaults = {
        "sizes": None,
        "scales": None,
        "axes": None,
        "coordinates": "half_pixel",
        "rounding": "round_prefer_floor",
        "cubic_a": -0.75,
        "antialias": False,
        "exclude_outside": False,
        "keep_aspect_ratio": "stretch",
        "roi": None,
        "extrapolation": 0.0,
    }
    return changed(options, **defaults)


def _elements(target: Any) -> list[Any] | None:
    """Numbers where they are known, expressions where they are not; None if not even the length is known."""
    if isinstance(target, Dims):
        if target.elements is None:
            return None
        return [e if e.number is None else e.number for e in target.elements]
    return target if isinstance(target, list) else None


def _without_unchanged(
    n: Node, x: Tensor, axes: tuple[int, ...] | None, target: Any, *, scaled: bool, how: dict[str, Any]
) -> tuple[tuple[int, ...] | None, Any]:
    """Only the axes that change: batch and channels hardly ever do."""
    rank, elements = x.type.rank, _elements(target)
    if rank is None or elements is None or how.get("keep_aspect_ratio", "stretch") != "stretch" or "roi" in how:
        return axes, target
    every = [a % rank for a in axes] if axes is not None else list(range(rank))
    if len(every) != len(elements):
        return axes, target
    changing = [
        (axis, element)
        for axis, element in zip(every, elements, strict=True)
        if not (element == 1 if scaled else _is_unchanged(n, x, axis))
    ]
    if len(changing) == rank:
        return None, target
    return tuple(axis for axis, _ in changing), [element for _, element in changing]


def _is_unchanged(n: Node, x: Tensor, axis: int) -> bool:
    """Whether an axis is known to keep its size, even if that has only a name."""
    return x.type.dim(axis) is not None and x.type.dim(axis) == n.output.dim(axis)


def _whole_factors(
    n: Node, x: Tensor, how: dict[str, Any], axes: tuple[int, ...] | None, sizes: Any
) -> list[float] | None:
    """The scales, if the sizes asked for are whole multiples of sizes that have only a name (`2*height`)."""
    rank = x.type.rank
    if sizes is None or rank is None or how.get("keep_aspect_ratio", "stretch") != "stretch" or "roi" in how:
        return None
    factors = []
    for axis in range(rank) if axes is None else axes:
        size, output = x.type.dim(axis), n.output.dim(axis)
        factor = next((k for k in range(1, 9) if size is not None and multiply(size, k) == output), None)
        if factor is None or (isinstance(size, int) and factor > 1):
            return None
        factors.append(float(factor))
    return factors


def _interpolate(
    n: Node,
    x: Tensor,
    mode: str,
    how: dict[str, Any],
    axes: tuple[int, ...] | None,
    target: list[Any] | None,
    *,
    scaled: bool,
) -> Expr | None:
    """`F.interpolate(...)`, if that is exactly the same."""
    rank = x.type.rank
    if rank is None or target is None or x.type.dtype not in FLOATS:
        return None
    name = INTERPOLATE.get((mode, rank - 2))
    every = list(range(rank)) if axes is None else [a % rank for a in axes]
    if name is None or len(every) != len(target) or every[-(rank - 2) :] != list(range(2, rank)):
        return None
    spatial = target[len(target) - (rank - 2) :]
    for axis, element in zip(every, target, strict=True):
        if axis < 2 and not (element == 1 if scaled else _is_unchanged(n, x, axis)):
            return None
    if how.get("antialias") or how.get("exclude_outside") or how.get("keep_aspect_ratio", "stretch") != "stretch":
        return None
    if mode == "cubic" and how.get("cubic_a") != -0.75:
        return None
    inputs = [x.type.dim(axis) for axis in range(2, rank)]
    axes_match = [_same_axis(mode, how, size, element, scaled) for size, element in zip(inputs, spatial, strict=True)]
    if not all(axes_match):
        return None
    options: dict[str, Any] = {}
    if scaled:
        whole = tuple(int(s) if s == int(s) else s for s in spatial)
        options["scale_factor"] = compact(whole)
    else:
        known = all(isinstance(s, int) for s in spatial)
        options["size"] = compact(tuple(spatial)) if known else tuple(spatial)
    if mode != "nearest":
        options["mode"] = name
        if how["coordinates"] == "align_corners":
            options["align_corners"] = True
    return F.interpolate(x, **options)


def _same_axis(mode: str, how: dict[str, Any], size: Any, element: Any, scaled: bool) -> bool:
    """Whether PyTorch and ONNX read the same places on one axis; `element` is its scale or its output size."""
    coordinates = how["coordinates"]
    if scaled and not _same_output_size(size, element):
        return False
    if mode == "nearest":
        return _same_nearest(how, size, element, scaled)
    if coordinates == "half_pixel":
        return True
    if coordinates == "pytorch_half_pixel":
        # Different only where one element comes out.
        if scaled:
            return bool(element >= 2) or (isinstance(size, int) and int(size * element) > 1)
        return isinstance(element, int) and element > 1
    if coordinates == "align_corners":
        # With a scale ONNX means the exact, perhaps fractional, output size.
        return not scaled or element == int(element) or (isinstance(size, int) and (size * element).is_integer())
    return False


def _same_output_size(size: Any, scale: Any) -> bool:
    """Both take floor(size * scale), ONNX in float32 and PyTorch in double of the number as it is written."""
    if not isinstance(scale, int | float):
        return False
    if isinstance(size, int):
        return int(np.float32(size) * np.float32(scale)) == int(size * scale)
    return float(np.float32(scale)) == scale


def _same_nearest(how: dict[str, Any], size: Any, element: Any, scaled: bool) -> bool:
    if isinstance(size, int) and isinstance(element, int | float):
        output = int(size * element) if scaled else int(element)
        if not 0 < output <= 1 << 20:
            return False
        scale = np.float32(element) if scaled else np.float32(output) / np.float32(size)
        inverse = np.float32(1 / element) if scaled else np.float32(size) / np.float32(output)
        wanted = _onnx_nearest(how, size, output, scale)
        return wanted is not None and bool(np.array_equal(wanted, _torch_nearest(size, output, inverse)))
    if not scaled or element != int(element) or element < 1:
        return False
    floor = how["coordinates"] == "asymmetric" and how["rounding"] in ("floor", "simple")
    # The place is (i + 0.5) / scale - 0.5: never half-way between two elements if the scale is a whole number.
    middle = how["coordinates"] in ("half_pixel", "half_pixel_symmetric") and how["rounding"].startswith("round_")
    if not floor and not middle:
        return False
    place = np.arange(1 << 16, dtype=np.float32)
    exact = np.arange(1 << 16) // int(element)
    return bool(np.array_equal(np.floor(place * np.float32(1 / element)).astype(np.int64), exact))


def _onnx_nearest(how: dict[str, Any], size: int, output: int, scale: Any) -> Any:
    """The elements that ONNX picks, computed as the kernel `resize_nearest` does; None for coordinates left to it."""
    place: Floats = np.arange(output, dtype=np.float32)
    half = np.float32(0.5)
    match how["coordinates"]:
        case "asymmetric":
            place = place / scale
        case "half_pixel":
            place = (place + half) / scale - half
        case "pytorch_half_pixel" if output > 1:
            place = (place + half) / scale - half
        case _:
            return None
    match how["rounding"]:
        case "round_prefer_floor":
            index = np.ceil(place - half)
        case "round_prefer_ceil":
            index = np.floor(place + half)
        case "ceil":
            index = np.ceil(place)
        case "simple" if scale < 1:
            index = np.ceil(place)
        case _:
            index = np.floor(place)
    return index.astype(np.int64).clip(0, size - 1)


def _torch_nearest(size: int, output: int, inverse: Any) -> Any:
    """The elements that F.interpolate(mode="nearest") picks."""
    if output == size:
        return np.arange(output)
    if output == 2 * size:
        return np.arange(output) // 2
    places: Floats = np.floor(np.arange(output, dtype=np.float32) * np.float32(inverse))
    return places.astype(np.int64).clip(0, size - 1)
