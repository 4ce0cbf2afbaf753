"""Decide when `F.interpolate` is exactly what an ONNX Resize asks for.

It is, over the axes after batch and channels, for floating-point inputs, if the Resize is

- linear (1-D to 3-D) or cubic (2-D, a = -0.75), half_pixel or align_corners, with neither antialias nor
  exclude_outside; `pytorch_half_pixel` differs only for outputs of size 1
- linear or cubic (2-D, a = -0.5), half_pixel, with both antialias and exclude_outside: `antialias=True`
- nearest, if both pick the same element everywhere. Their formulas differ, and rounding decides at the borders. So all
  places are compared if the sizes are known. If they are not, the scale must be a whole number: output i is element i
  // scale in ONNX, and floor(i * float32(1 / scale)) in PyTorch, which is compared for i up to 2**16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]
MODES = {
    ("linear", 1): "linear",
    ("linear", 2): "bilinear",
    ("linear", 3): "trilinear",
    ("cubic", 2): "bicubic",
    ("nearest", 1): "nearest",
    ("nearest", 2): "nearest",
    ("nearest", 3): "nearest",
}


@dataclass(frozen=True)
class Method:
    """The method by which a Resize interpolates. All fields except `mode` have the names and defaults of the kernels'
    parameters."""

    mode: str
    coordinates: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    cubic_a: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    keep_aspect_ratio: str = "stretch"
    roi: Any = None
    extrapolation: float = 0.0

    def torch_mode(self, dims: int) -> str | None:
        """Return the `mode` of F.interpolate over `dims` axes; None if it has none."""
        if self.roi is not None or self.keep_aspect_ratio != "stretch" or self.antialias != self.exclude_outside:
            return None
        if self.mode == "cubic" and self.cubic_a != (-0.5 if self.antialias else -0.75):
            return None
        if self.antialias and (dims != 2 or self.mode == "nearest" or self.coordinates != "half_pixel"):
            return None
        return MODES.get((self.mode, dims))


def reads_the_same(method: Method, size: Any, target: Any, scaled: bool) -> bool:
    """Tell whether F.interpolate and ONNX read the same places on one axis of `size` elements. `target` is its scale or
    its output size. Both may be expressions or names that only the running model knows."""
    if scaled and not same_output_size(size, target):
        return False
    if method.mode == "nearest":
        return _same_nearest(method, size, target, scaled)
    match method.coordinates:
        case "half_pixel":
            return True
        case "pytorch_half_pixel":
            if scaled:
                return bool(target >= 2) or (isinstance(size, int) and int(size * target) > 1)
            return isinstance(target, int) and target > 1
        case "align_corners":
            # With a scale, ONNX uses the exact output size, which may be fractional.
            return not scaled or float(target).is_integer() or (isinstance(size, int) and (size * target).is_integer())
    return False


def same_output_size(size: Any, scale: Any) -> bool:
    """Tell whether both get the same floor(size * scale). ONNX computes it in float32, PyTorch in double, from the
    number as it is written."""
    if not isinstance(scale, int | float):
        return False
    if isinstance(size, int):
        return int(np.float32(size) * np.float32(scale)) == int(size * scale)
    return float(np.float32(scale)) == scale


def _same_nearest(method: Method, size: Any, target: Any, scaled: bool) -> bool:
    if isinstance(size, int) and isinstance(target, int | float):
        output = int(size * target) if scaled else int(target)
        if size < 1 or not 1 <= output <= 1 << 20:
            return False
        scale = np.float32(target) if scaled else np.float32(output) / np.float32(size)
        inverse = np.float32(1 / target) if scaled else np.float32(size) / np.float32(output)
        wanted = _onnx_nearest(method, size, output, scale)
        return wanted is not None and bool(np.array_equal(wanted, _torch_nearest(size, output, inverse)))
    if not scaled or target < 1 or not float(target).is_integer():
        return False
    down = method.coordinates == "asymmetric" and method.rounding in ("floor", "simple")
    # The place is (i + 0.5) / scale - 0.5, which is never half way between two elements if the scale is whole.
    half_pixel = ("half_pixel", "half_pixel_symmetric") + (("pytorch_half_pixel",) if target >= 2 else ())
    middle = method.coordinates in half_pixel and method.rounding.startswith("round_")
    if not down and not middle:
        return False
    place: Floats = np.floor(np.arange(1 << 16, dtype=np.float32) * np.float32(1 / target))
    return bool(np.array_equal(place.astype(np.int64), np.arange(1 << 16) // int(target)))


def _onnx_nearest(method: Method, size: int, output: int, scale: Any) -> Any:
    """Return the elements that ONNX picks, computed as in the kernel `resize_nearest`; None for coordinates that are
    left to the kernel."""
    place: Floats = np.arange(output, dtype=np.float32)
    half = np.float32(0.5)
    if method.coordinates == "asymmetric":
        place = place / scale
    elif method.coordinates == "half_pixel" or (method.coordinates == "pytorch_half_pixel" and output > 1):
        place = (place + half) / scale - half
    else:
        return None
    match method.rounding:
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
    """Return the elements that F.interpolate(mode="nearest") picks."""
    if output == size:
        return np.arange(output)
    if output == 2 * size:
        return np.arange(output) // 2
    places: Floats = np.floor(np.arange(output, dtype=np.float32) * np.float32(inverse))
    return places.astype(np.int64).clip(0, size - 1)
