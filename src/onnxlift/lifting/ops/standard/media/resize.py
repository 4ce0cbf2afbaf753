"""Resize and Upsample: `F.interpolate` where it is exactly the same, else the kernels `resize_nearest` and `resize`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxlift.ir.graph.types import DataType, type_of
from onnxlift.ir.inference.symbolic import multiply
from onnxlift.lifting.code.expr import Expr, F
from onnxlift.lifting.ops.arguments import attribute_number, changed, compact
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.kinds import LayerKind, signature
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Constant, Dims, Operand, Tensor, size_of
from onnxlift.lifting.ops.registry import op

from .interpolate import Method, reads_the_same, same_output_size
from .string_arrays import moves_elements, moves_or_fills

FLOATS = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)
UPSAMPLE = LayerKind(
    "Upsample",
    signature(size=None, scale_factor=None, mode="nearest", align_corners=None),
    channels=True,
    function=("interpolate", "size", "scale_factor", "mode", "align_corners"),
)


@dataclass(frozen=True)
class Target:
    """The goal of a Resize: the scales or the sizes of `axes` (of all axes if None). `values` is a list of numbers and
    expressions, or one expression for the whole list."""

    values: list[Any] | Expr
    scaled: bool
    axes: tuple[int, ...] | None = None

    @property
    def argument(self) -> Any:
        return tuple(self.values) if isinstance(self.values, list) else self.values

    def every(self, rank: int | None) -> list[tuple[int, Any]] | None:
        """Return (axis, value) for each axis; None if they are not known before the model runs."""
        if rank is None or not isinstance(self.values, list):
            return None
        axes = range(rank) if self.axes is None else [axis % rank for axis in self.axes]
        return list(zip(axes, self.values, strict=True)) if len(axes) == len(self.values) else None


@op("Upsample", layer=UPSAMPLE)
@moves_elements
def Upsample(
    n: Node,
    X: Tensor,
    scales: Operand | None,
    *,
    mode: str,
    height_scale: float | None = None,
    width_scale: float | None = None,
) -> Result:
    """Opset 1 has two attributes and "bilinear", 7 `scales` as an attribute, 9 `scales` as an input; 10 has Resize
    instead."""
    method = Method("linear" if mode == "bilinear" else mode, "asymmetric", "simple")
    if scales is not None:
        return _resize(n, X, method, Target(_values(n, scales), scaled=True))
    if height_scale is None or width_scale is None:
        n.fail("it has no scales")
    return _resize(n, X, method, Target([1.0, 1.0, height_scale, width_scale], scaled=True))


@op("Resize", layer=UPSAMPLE)
@moves_or_fills
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
    """Opset 10 has only `scales`, and fixed coordinates and rounding: the defaults here are those.

    Interpolated integers are rounded to the nearest, as in ONNX's reference implementation. ONNX Runtime cuts off the
    fraction.
    """
    if n.opset < 11:
        roi, scales = None, roi
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    if crops and roi is None:
        n.fail("tf_crop_and_resize without a roi")
    method = Method(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        attribute_number(cubic_coeff_a, X),
        bool(antialias),
        bool(exclude_outside),
        keep_aspect_ratio_policy,
        _values(n, roi) if crops and roi is not None else None,
        attribute_number(extrapolation_value, X) if crops else 0.0,
    )
    if sizes is not None and not _is_empty(sizes):
        return _resize(n, X, method, Target(_values(n, sizes), False, axes))
    if scales is None or _is_empty(scales):
        n.fail("it has neither sizes nor scales")
    return _resize(n, X, method, Target(_values(n, scales), True, axes))


def _is_empty(operand: Operand) -> bool:
    """Tell whether the input is empty. Exporters wrote an empty tensor for an unused input when it could not be left
    out."""
    return operand.type.dim(0) == 0


def _values(n: Node, operand: Operand) -> list[Any] | Expr:
    """Return scales, sizes or a roi, one by one as far as they are known."""
    if isinstance(operand, Constant):
        whole = operand.type.is_integer
        return [int(v) if whole else float(str(v)) for v in operand.const.reshape(-1)]
    if isinstance(operand, Dims):
        if operand.elements is None:
            return operand.as_expr()
        return [e if e.number is None else e.number for e in operand.elements]
    return n.tensor(operand).tolist()


def _resize(n: Node, x: Tensor, method: Method, target: Target) -> Expr:
    _check(n, x, method, target)
    if method.keep_aspect_ratio == "stretch" and method.roi is None:
        target = _changing(n, x, _as_whole_factors(n, x, target))
    if target.values == []:
        return x
    idiom = _interpolate(x, method, target)
    if idiom is not None:
        return idiom
    options = {"sizes": None, "scales": None, "axes": target.axes, **vars(method)}
    options["scales" if target.scaled else "sizes"] = target.argument
    if target.scaled:
        options["sizes"] = _rounded_otherwise(x, target)
    if isinstance(method.roi, list):
        options["roi"] = tuple(method.roi)
    mode = options.pop("mode")
    defaults = {"sizes": None, "scales": None, "axes": None, **vars(Method(mode))}
    for name in ("cubic_a", "antialias", "exclude_outside") if mode == "nearest" else ("rounding",):
        del options[name]
    written = changed(options, **defaults)
    return kernel("resize_nearest")(x, **written) if mode == "nearest" else kernel("resize")(x, mode, **written)


def _check(n: Node, x: Tensor, method: Method, target: Target) -> None:
    if type_of(n.ir.inputs[0]).dtype == DataType.STRING and (method.mode != "nearest" or method.extrapolation != 0):
        n.fail("it computes with strings")
    rank = x.type.rank
    if rank is not None and not all(-rank <= axis < rank for axis in target.axes or ()):
        n.fail(f"axes {target.axes} of an input of {rank} axes")
    if rank is not None and isinstance(target.values, list) and target.every(rank) is None:
        n.fail(f"it has {len(target.values)} scales or sizes for {len(target.axes or range(rank))} axes")
    for value in target.values if isinstance(target.values, list) else ():
        if isinstance(value, int | float) and not (
            math.isfinite(value) and value >= 0 and (value > 0 or not target.scaled)
        ):
            n.fail(f"a scale or size of {value}")


def _as_whole_factors(n: Node, x: Tensor, target: Target) -> Target:
    """Return the target as scales, if the sizes are whole multiples of sizes that have only a name (`2*height`)."""
    every = None if target.scaled else target.every(x.type.rank)
    if every is None:
        return target
    factors: list[Any] = []
    for axis, _ in every:
        size, output = x.type.dim(axis), n.output.dim(axis)
        known = (1,) if isinstance(size, int) else range(1, 9)
        factor = next((k for k in known if size is not None and multiply(size, k) == output), None)
        if factor is None:
            return target
        factors.append(float(factor))
    return Target(factors, True, target.axes)


def _changing(n: Node, x: Tensor, target: Target) -> Target:
    """Return the target without the axes that do not change, as batch and channels usually do not."""
    every = target.every(x.type.rank)
    if every is None:
        return target
    if target.scaled:
        rest = [(axis, value) for axis, value in every if value != 1]
    else:
        rest = [(axis, v) for axis, v in every if x.type.dim(axis) is None or x.type.dim(axis) != n.output.dim(axis)]
    axes = None if len(rest) == x.type.rank else tuple(axis for axis, _ in rest)
    return Target([value for _, value in rest], target.scaled, axes)


def _interpolate(x: Tensor, method: Method, target: Target) -> Expr | None:
    """Return `F.interpolate(...)` if it is exactly the same, else None."""
    rank, every = x.type.rank, target.every(x.type.rank)
    if rank is None or every is None or x.type.dtype not in FLOATS or any(axis < 2 for axis, _ in every):
        return None
    mode = method.torch_mode(rank - 2)
    if mode is None or not all(reads_the_same(method, x.type.dim(a), value, target.scaled) for a, value in every):
        return None
    values = dict(every)
    if target.scaled:
        scales = tuple(values.get(axis, 1.0) for axis in range(2, rank))
        options: dict[str, Any] = {"scale_factor": compact(tuple(int(s) if s == int(s) else s for s in scales))}
    else:
        sizes = tuple(values.get(axis, size_of(x, axis)) for axis in range(2, rank))
        options = {"size": compact(sizes) if all(isinstance(s, int) for s in sizes) else Dims.of(sizes)}
    if mode != "nearest":
        options["mode"] = mode
        if method.coordinates == "align_corners":
            options["align_corners"] = True
        if method.antialias:
            options["antialias"] = True
    return F.interpolate(x, **options)


def _rounded_otherwise(x: Tensor, target: Target) -> tuple[int, ...] | None:
    """Return the output sizes if they differ between ONNX's float32 and the double arithmetic of the running model,
    else None."""
    every = target.every(x.type.rank) or []
    sizes = [(x.type.dim(axis), scale) for axis, scale in every]
    if not all(isinstance(d, int) and isinstance(s, int | float) for d, s in sizes):
        return None
    if all(same_output_size(d, s) for d, s in sizes):
        return None
    return tuple(int(np.float32(d) * np.float32(s)) for d, s in sizes)
