"""Linear interpolation along the last axis, which PyTorch's newer exporter spells out, is a resize.

    a, b = rows `low` and `high` of x along its last axis;  a + (b - a) * t   ->   Resize(x, linear, sizes or scales)

The rows are taken by `Transpose(Gather(Transpose(x), indices))`. `low`, `high` and t are constants. They must be those
of an interpolation from the old size to the new one, with aligned corners or by half pixels: `low` is an element,
`high` the one after it if there is one, and t the share that gives the position between them. (Images have an operator
of their own.)

x is a floating-point tensor of three axes, with channels and a last axis of known size. Nobody else reads a value in
between. The scale is written if it is a whole number, since that is what people give; the size is the same.
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
"""The opset since which a Resize can name the axes that it resizes."""


@step("linear-resize")
def run(model: ir.Model) -> int:
    """Recognise linear interpolation of signals; return how many."""
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
    """Return the tensor that `value` takes rows of, along the last of three axes, with their indices and the nodes.

    The last node comes first. Return None if `value` is something else.
    """
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
    """Return the mode that counts positions, `half_pixel` or `align_corners`, if rows and shares are an
    interpolation's.
    """
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
    """Replace `node` by a Resize from `size` to `count` elements."""
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
