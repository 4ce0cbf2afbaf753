"""Fold arithmetic on a tensor that has one number everywhere into that number.

    Add(ConstantOfShape(sizes, value=0), 8)   ->   ConstantOfShape(sizes, value=8)

It applies to Add, Sub, Mul and Div of floating-point numbers with a constant of one element, in either order. PyTorch's
exporter writes `torch.full` so. The result is computed as ONNX would, in the element type of both. It does not apply if
the constant has more axes than the tensor, since the result would have more axes too. Integers stay: they may be sizes,
which are Python numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import DataType
from onnxlift.stages import step

_COMPUTED: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
}
_TYPES = (DataType.FLOAT, DataType.DOUBLE)


@step("fills", repeats=True)
def run(model: ir.Model) -> int:
    """Fill with the result directly; return how often."""
    return sweep(model, {tuple(_COMPUTED): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if node.outputs[0].dtype not in _TYPES:
        return
    for place, value in enumerate(node.inputs):
        fill = value.producer() if value is not None else None
        number = constant(node.inputs[1 - place])
        if fill is None or number is None or not is_standard(fill, "ConstantOfShape"):
            continue
        axes = shape_of(value)
        if number.size != 1 or axes is None or len(number.shape) > len(axes):
            continue
        filled = attribute(fill, "value", None)
        operands = [np.zeros(1, np.float32) if filled is None else filled.numpy(), number.numpy().reshape(1)]
        with np.errstate(all="ignore"):
            result = _COMPUTED[node.op_type](*(operands if place == 0 else operands[::-1]))
        tensor = ir.AttrTensor("value", ir.tensor(result.astype(operands[0].dtype)))
        edit.replace(node, "ConstantOfShape", [fill.inputs[0]], [tensor])
        return
