"""Windows that tables of indices cut out of a tensor are cut out by one function.

    Gather(x, T) along the last axis                              ->   Windows(x, size, step)    x.unfold(-1, ...)
    Reshape(Transpose(Gather(Gather(x, T1), T2))), of an image    ->   Unfold(x, ...)            F.unfold(x, ...)

There may be a Pad of zeros before the second.

T has a row for each window, with the places `i * step + j`. T1 and T2 have a row for each place of the window, in the
vertical and in the horizontal direction; it has `i * dilation + j * stride` for each window. The windows must be all
that fit into the axis, because that is what the functions give. So its size must be known. The second rule is for
images of floating-point numbers that have channels, as PyTorch demands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.constants import constant, number
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of, static_elements
from onnxlift.ir.graph.types import is_float
from onnxlift.stages import step

_LARGEST = 1 << 20


@step("unfold")
def run(model: ir.Model) -> int:
    """Recognise windows; return how many."""
    return sweep(model, {"Reshape": _image}) + sweep(model, {"Gather": _sequence})


@dataclass(frozen=True)
class _Table:
    """A table of indices with `rows[i][j] == i * down + j * across`."""

    rows: int
    columns: int
    down: int
    across: int

    def covers(self, size: int, *, places: int, spacing: int, windows: int, step: int) -> bool:
        """Tell whether these are all windows of so many places that fit into an axis of `size` elements."""
        last = (places - 1) * spacing
        return spacing > 0 and step > 0 and windows == (size - 1 - last) // step + 1


def _table(value: ir.Value | None) -> _Table | None:
    """Return the indices as a table; None if they are no constant of this form."""
    tensor = constant(value)
    if tensor is None or len(tensor.shape) != 2 or not 0 < tensor.size <= _LARGEST:
        return None
    array = tensor.numpy().astype(np.int64)
    rows, columns = array.shape
    down = int(array[1, 0]) if rows > 1 else 1
    across = int(array[0, 1]) if columns > 1 else 1
    expected = np.arange(rows)[:, None] * down + np.arange(columns) * across
    return _Table(rows, columns, down, across) if np.array_equal(array, expected) else None


def _sequence(edit: Edit, node: ir.Node) -> None:
    x, indices = node.inputs
    shape, axis = shape_of(x), attribute(node, "axis", 0)
    if shape is None or axis not in (-1, len(shape) - 1) or not isinstance(shape[-1], int):
        return
    table = _table(indices)
    if table is None or table.columns < 2 or table.across != 1:
        return
    if table.covers(shape[-1], places=table.columns, spacing=1, windows=table.rows, step=table.down):
        options = [ir.AttrInt64("size", table.columns), ir.AttrInt64("step", table.down)]
        edit.replace(node, "Windows", [x], options, domain=DOMAIN)


def _image(edit: Edit, node: ir.Node) -> None:
    turned = made_by(edit, node.inputs[0], "Transpose")
    across = made_by(edit, turned.inputs[0], "Gather") if turned is not None else None
    down = made_by(edit, across.inputs[0], "Gather") if across is not None else None
    order = permutation(turned) if turned is not None else None
    if turned is None or across is None or down is None or order is None or list(order) != [0, 1, 2, 4, 3, 5]:
        return
    x = down.inputs[0]
    shape, tall, wide = shape_of(x), _table(down.inputs[1]), _table(across.inputs[1])
    if not is_float(x) or shape is None or tall is None or wide is None:
        return
    if attribute(down, "axis", 0) != 2 or attribute(across, "axis", 0) not in (4, -1):
        return
    batch, channels, *sizes = shape  # two sizes: the result has six axes, and each table added one
    if not isinstance(channels, int) or channels == 0:
        return
    for table, size in zip((tall, wide), sizes, strict=True):
        if not isinstance(size, int) or not table.covers(
            size, places=table.rows, spacing=table.down, windows=table.columns, step=table.across
        ):
            return
    result = (batch, channels * tall.rows * wide.rows, tall.columns * wide.columns)
    if shape_of(node.outputs[0]) != result or not all(
        is_private(edit, step.outputs[0]) for step in (turned, across, down)
    ):
        return
    pad = made_by(edit, x, "Pad")
    padding = _padding(edit, pad) if pad is not None else None
    source = x if padding is None or pad is None else pad.inputs[0]
    options = {
        "kernel_size": [tall.rows, wide.rows],
        "dilation": [tall.down, wide.down],
        "padding": [0, 0] if padding is None else padding,
        "stride": [tall.across, wide.across],
    }
    edit.replace(node, "Unfold", [source], [ir.AttrInt64s(*option) for option in options.items()], domain=DOMAIN)
    drop_unused(edit, [turned, across, down, *([pad] if pad is not None and padding is not None else [])])


def _padding(edit: Edit, pad: ir.Node) -> list[int] | None:
    """Return how many zeros a Pad puts above and left, if it puts as many below and right."""
    pads = static_elements(pad.inputs[1]) if len(pad.inputs) in (2, 3) else None
    if pads is None or attribute(pad, "mode", "constant") != "constant":
        return None
    if len(pad.inputs) == 3 and pad.inputs[2] is not None and number(pad.inputs[2]) != 0:
        return None
    fits = pads[:4] == pads[4:] and pads[:2] == (0, 0) and min(pads) >= 0 and is_private(edit, pad.outputs[0])
    return list(pads[2:4]) if fits else None
