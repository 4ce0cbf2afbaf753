"""Linear interpolation along the last axis, which PyTorch's newer exporter writes in its parts, is a resize.

    a, b = rows `low` and `high` of x along its last axis;  a + (b - a) * t   ->   Resize(x, linear, sizes or scales)

The rows come by `Transpose(Gather(Transpose(x), indices))`. `low`, `high` and t are constants, and must be those of
an interpolation from as many elements to as many others, either with the corners aligned or by half pixels: an element
and the one after it, if there is one, with shares that give the position. (Images have an operator of their own.)

x is of floating-point numbers and has three axes, channels and a last one of known size. Nobody else reads what is in
between. The scale is written where it is a whole number, since that is what people give; the sizes are the same.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep
from onnxlift.ir.editing.match import both_orders, drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import is_float
from onnxlift.stages import step

_AXES_SINCE = 18
"""The opset from which a Resize can be of some axes only."""


@step("linear-resize")
def run(model: ir.Model) -> int:
    """Recognise linear interpolation of signals; gives how many."""
    has_axes = model.graph.opset_imports.get("", 0) >= _AXES_SINCE
    return sweep(model, {"Add": _visit}) if has_axes else 0


def _visit(edit: Edit, node: ir.Node) -> None:
    for low, rise in both_orders(node):
        scaled = made_by(edit, rise, "Mul")
        first = _rows(edit, low)
        if scaled is None or first is None or not is_private(edit, rise) or not is_private(edit, low, readers=2):
            continue
        for difference, t in both_orders(scaled):
            minus = made_by(edit, difference, "Sub")
            second = _rows(edit, minus.inputs[0]) if minus is not None and minus.inputs[1] is low else None
            if minus is None or second is None or first[0] is not second[0] or not is_private(edit, difference):
                continue
            x, shape = first[0], shape_of(first[0])
            size = None if shape is None or not is_float(x) or shape[1] == 0 else shape[2]
            mode = _mode(size, first[1], second[1], t) if isinstance(size, int) else None
            if isinstance(size, int) and mode is not None and is_private(edit, minus.inputs[0]):
                _resize(edit, node, x, size, first[1].size, mode)
                drop_unused(edit, [scaled, minus, *first[2][:2], *second[2][:2], first[2][-1]])
                return


def _rows(edit: Edit, value: ir.Value | None) -> tuple[ir.Value, Array, list[ir.Node]] | None:
    """What these are rows of along the last of three axes, their numbers, and the nodes that take them, from the last
    on; None if they are something else."""
    back = made_by(edit, value, "Transpose")
    taken = made_by(edit, back.inputs[0], "Gather") if back is not None else None
    front = made_by(edit, taken.inputs[0], "Transpose") if taken is not None else None
    if back is None or taken is None or front is None or attribute(taken, "axis", 0) != 0:
        return None
    indices, x, first, last = constant(taken.inputs[1]), front.inputs[0], permutation(front), permutation(back)
    if indices is None or x is None or first is None or last is None:
        return None
    return (x, indices.numpy(), [back, taken, front]) if [*first, *last] == [2, 0, 1, 1, 2, 0] else None


def _mode(size: int, low: Array, high: Array, t: ir.Value) -> str | None:
    """The way in which positions are counted in so many elements, if the rows and shares are those of an
    interpolation."""
    shares = constant(t)
    if shares is None or shares.shape.numpy() != low.shape or low.shape != high.shape or low.size == 0:
        return None
    steps = np.arange(low.size)
    positions = {
        "half_pixel": np.maximum((steps + 0.5) * (size / low.size) - 0.5, 0),
        "align_corners": steps * ((size - 1) / max(low.size - 1, 1)),
    }
    for mode, position in positions.items():
        result = low + shares.numpy().astype(np.float64) * (high - low)
        neighbours = np.all((high == np.minimum(low + 1, size - 1)) & (low >= 0))
        if neighbours and np.allclose(result, np.minimum(position, size - 1), rtol=0, atol=1e-6 * size):
            return mode
    return None


def _resize(edit: Edit, node: ir.Node, x: ir.Value, size: int, count: int, mode: str) -> None:
    """Put a Resize from `size` to `count` elements in the place of `node`."""
    scale, rest = divmod(count, size)
    target = np.array([count], np.int64) if rest else np.array([scale], np.float32)
    value = edit.constant(f"{x.name}.size", target)
    inputs = [x, None, None, value] if rest else [x, None, value]
    attributes = [
        ir.AttrString("mode", "linear"),
        ir.AttrString("coordinate_transformation_mode", mode),
        ir.AttrInt64s("axes", [2]),
    ]
    edit.replace(node, "Resize", inputs, attributes)
