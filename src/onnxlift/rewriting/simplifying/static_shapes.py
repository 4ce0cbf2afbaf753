"""Replace shape arithmetic by its result, if that is known.

    y = Gather(Shape(x), 1)   with x of shape (batch, 12, 64)   ->   initialiser y = 12
    and so on for everything that inference follows: Slice, Concat, Unsqueeze, Add, Mul, Where, ...

It applies to an integer or bool vector or scalar if inference knows all its elements as ints. A size that the model
names (`batch`) is not an int and is never made a constant: nodes whose result has one stay. Sound because only the
declared shapes of the inputs decide these elements.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep
from onnxlift.ir.graph.shapes import static_elements
from onnxlift.stages import step


@step("static-shapes", repeats=True)
def run(model: ir.Model) -> int:
    """Fold nodes whose value inference knows; return how many."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    if node.outputs and "dims" in node.outputs[0].meta:
        arrays = [_array(output) for output in node.outputs]
        known = [array for array in arrays if array is not None]
        if len(known) == len(arrays):
            edit.fold(node, known)


def _array(value: ir.Value) -> Array | None:
    elements = static_elements(value)
    if elements is None or value.dtype is None or value.shape is None or not value.shape.is_static():
        return None
    return np.array(elements, value.dtype.numpy()).reshape(value.shape.numpy())
