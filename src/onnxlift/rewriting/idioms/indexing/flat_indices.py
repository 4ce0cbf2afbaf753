"""Two axes that were merged into one to be indexed are indexed as two.

1. Gather(Reshape(x, (a*b, ...)), Add(j, Mul(i, b)))      ->   Index(x, i, j)                x[i, j]
2. Gather(Reshape(Transpose(x), (a*b, ...)), c)           ->   Index(Transpose(x), c // b, c % b)

PyTorch's older exporter writes `x[torch.arange(n), t.argmax(-1)]` as the first; it may have folded i and its product
into one constant. It writes `x[:, rows, columns]` as the second, with a constant c that has no name; the transpose
brings the two axes to the front, see `indexed_axes.py`.

x has the shape (a, b, ...), and b is a number. Every j must be known to be in 0, ..., b - 1: it is the place of the
greatest of b elements, a remainder of b, or a constant. Any other j would index another row in the merged axis, but
count from the end or be an error in the second axis. i may be anything: if it is out of range, or counts from the end,
it does so before and after.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, both_orders, drop_unused, is_private, made_by, with_number
from onnxlift.ir.graph.constants import constant, number
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.inference import symbolic
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.stages import step

_NAME = "onnx::index"
"""A name for new constants that tells that it is made up."""


@step("flat-indices")
def run(model: ir.Model) -> int:
    """Index merged axes as two; return how often."""
    return sweep(model, {"Gather": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if attribute(node, "axis", 0) != 0:
        return
    flat = made_by(edit, node.inputs[0], "Reshape", "Flatten")
    indices, data = node.inputs[1], None if flat is None else flat.inputs[0]
    shape, merged = shape_of(data), shape_of(node.inputs[0])
    if flat is None or data is None or indices is None or shape is None or merged is None or len(shape) < 2:
        return
    width = shape[1]
    if merged != (symbolic.multiply(shape[0], width), *shape[2:]) or not isinstance(width, int):
        return
    found = _computed(edit, indices, width) or _constants(edit, data, indices, width)
    if found is not None:
        edit.replace(node, "Index", [data, *found], domain=DOMAIN)
        drop_unused(edit, [flat])


def _computed(edit: Edit, indices: ir.Value, width: int) -> tuple[ir.Value, ir.Value] | None:
    """Return the rows and columns that were added up to `indices`."""
    add = made_by(edit, indices, "Add")
    for column, row in both_orders(add) if add is not None and is_private(edit, indices) else ():
        if _is_below(edit, column, width):
            rows = _rows(edit, row, width)
            if rows is not None:
                return rows, column
    return None


def _rows(edit: Edit, value: ir.Value, width: int) -> ir.Value | None:
    """Return `i` of `i * width`."""
    tensor = constant(value)
    if tensor is not None:
        numbers = tensor.numpy()
        return None if (numbers % width).any() else edit.constant(_NAME, numbers // width)
    product = made_by(edit, value, "Mul")
    found = None if product is None else with_number(product)
    return found[0] if found is not None and found[1] == width else None


def _is_below(edit: Edit, value: ir.Value, width: int) -> bool:
    """Tell whether all elements are known to be in 0, ..., width - 1."""
    tensor = constant(value)
    if tensor is not None:
        numbers = tensor.numpy()
        return bool(numbers.size and numbers.min() >= 0 and numbers.max() < width)
    node = made_by(edit, value, "ArgMax", "ArgMin", "Mod")
    if node is None:
        return False
    if node.op_type == "Mod":
        return number(node.inputs[1]) == width and attribute(node, "fmod", 0) == 0
    shape, axis = shape_of(node.inputs[0]), attribute(node, "axis", 0)
    return shape is not None and axis is not None and -len(shape) <= axis < len(shape) and shape[axis] == width


def _constants(edit: Edit, data: ir.Value, indices: ir.Value, width: int) -> tuple[ir.Value, ir.Value] | None:
    """Return the rows and columns of constant indices, if the axes that they index were brought to the front."""
    tensor = constant(indices)
    if tensor is None or made_by(edit, data, "Transpose") is None:
        return None
    numbers = tensor.numpy()
    is_nameless = origin_of(indices).is_programs_own
    if not is_nameless or numbers.ndim == 0 or not numbers.size or numbers.min() < 0:
        return None
    rows, columns = np.divmod(numbers, width)
    return edit.constant(_NAME, rows), edit.constant(_NAME, columns)
