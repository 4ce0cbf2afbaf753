"""Pad: `F.pad` where it means the same, else a kernel."""

from __future__ import annotations

from typing import Any

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Expr, F
from onnxlift.lifting.ops.arguments import trimmed
from onnxlift.lifting.ops.axes import from_front
from onnxlift.lifting.ops.carry import carried
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Dims, Scalar, Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.media.string_arrays import moves_or_fills

# Modes and their names in `F.pad`, which has them for trailing axes, behind two other axes or one.
_MODES = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}
_PADDABLE = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16})


@op("Pad")
@moves_or_fills
def Pad(
    n: Node,
    data: Tensor,
    pads: Dims | None,
    constant_value: Tensor | None,
    axes: Dims | None,
    *,
    mode: str = "constant",
    value: float = 0.0,
    paddings: tuple[int, ...] | None = None,
) -> Result:
    """Opset 1 calls the pads `paddings`. Until opset 10 the fill is the attribute `value`. Negative pads crop."""
    pads = pads if pads is not None else Dims.of(paddings or ())
    # PyTorch cannot fill this type with numbers. All bits 0 is its least number.
    if data.type.dtype == DataType.FLOAT8E8M0:
        return carried(lambda x, fill=0: _pad(x, pads, axes, mode, fill), *trimmed(data, constant_value))
    if constant_value is None:
        return _pad(data, pads, axes, mode, value)
    return _pad(data, pads, axes, mode, constant_value if constant_value.number is None else constant_value.number)


def _pad(data: Tensor, pads: Dims, axes: Dims | None, mode: str, fill: Tensor | float) -> Expr:
    widths = _widths(data, pads, axes)
    if widths is not None and all(before.number == after.number == 0 for before, after in widths.values()):
        return data
    if widths is not None and mode == "constant" and not isinstance(fill, Tensor):
        last_first = _last_first(widths, (data.type.rank or 0) - min(_padded(widths)))
        return F.pad(data, last_first, **({"value": fill} if fill != 0 else {}))
    trailing = None if widths is None or mode == "constant" else _trailing(data, widths)
    if widths is not None and trailing is not None:
        return F.pad(data, _last_first(widths, trailing), mode=_MODES[mode])
    options: dict[str, Any] = {} if mode == "constant" else {"mode": mode}
    if mode == "constant" and (isinstance(fill, Tensor) or fill != 0):
        options["value"] = fill
    return kernel("pad_axes")(*trimmed(data, pads, axes), **options)


Widths = dict[int, tuple[Scalar, Scalar]]


def _widths(data: Tensor, pads: Dims, axes: Dims | None) -> Widths | None:
    """Return what to add before and after every axis, if it is known already which axes are padded; else None."""
    rank = data.type.rank
    if rank is None or pads.elements is None:
        return None
    places = tuple(range(rank)) if axes is None else axes.static
    if places is None or len(pads.elements) != 2 * len(places):
        return None
    widths = {axis: (Scalar(0), Scalar(0)) for axis in range(rank)}
    for i, axis in enumerate(places):
        widths[from_front(axis, rank)] = (pads.elements[i], pads.elements[i + len(places)])
    return widths


def _padded(widths: Widths) -> list[int]:
    return [axis for axis, pair in widths.items() if any(width.number != 0 for width in pair)]


def _last_first(widths: Widths, count: int) -> tuple[Expr, ...]:
    """Return the widths of the last `count` axes in the order of `F.pad`."""
    axes = sorted(widths, reverse=True)[:count]
    return tuple(width for axis in axes for width in widths[axis])


def _trailing(data: Tensor, widths: Widths) -> int | None:
    """Return how many trailing axes to pass to `F.pad` in a mode other than constant; None if it cannot do this."""
    rank = data.type.rank or 0
    trailing = max(rank - min(_padded(widths)), rank - 2)
    if data.type.dtype not in _PADDABLE or trailing > min(rank - 1, 3):
        return None
    if not all(width.nonnegative for pair in widths.values() for width in pair):
        return None
    for axis in range(rank - trailing, rank):
        size = data.type.shape[axis] if data.type.shape is not None else None
        for width in widths[axis]:
            # PyTorch reflects or wraps once, ONNX as often as needed.
            if isinstance(size, int) and (width.number is None or width.number >= max(size, 1)):
                return None
    return trailing
