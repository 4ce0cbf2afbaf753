"""Replace a vector that is stored in integers by the numbers that it stands for.

    DequantizeLinear(integers, scale, zero_point)   ->   initialiser

It applies to constants of one axis or none: biases, the weights of norms, and single numbers. If further axes have the
size 1, only if the constant is added, multiplied and the like: a kernel or matrix of one row is a layer's. And it
applies to constants that have the same number everywhere, such as the zeros that channels are filled up with. A bias of
int32 takes as much room as one of float32, and the others are small; a layer holds them as floats. Matrices and kernels
stay integers (see the idiom quantized-layers). Sound because both factors are exact, and the product is rounded once,
to float32, as ONNX says.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep, weight_initialiser
from onnxlift.ir.graph.constants import constant
from onnxlift.stages import step

LARGEST = 1 << 20
_ATTRIBUTES = frozenset({"axis"})  # a vector has only one axis, whatever the attribute says
_REASON = "the file has it in integers"
_SUFFIX = "_quantized"
_ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu", "Where")


@step("dequantized-vectors", repeats=True)
def run(model: ir.Model) -> int:
    """Dequantise vectors; return how many."""
    return sweep(model, {"DequantizeLinear": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if node.attributes.keys() - _ATTRIBUTES:
        return
    source, scale, zero = (*node.inputs, None)[:3]
    integers, factor, point = constant(source), constant(scale), constant(zero)
    if source is None or integers is None or factor is None or (zero is not None and point is None):
        return
    shape = integers.shape.numpy()
    wide = [axis for axis, size in enumerate(shape) if size != 1]
    is_fill = len(wide) > 1 and factor.size == 1 and 0 < integers.size <= LARGEST and np.ptp(integers.numpy()) == 0
    if (len(wide) > 1 and not is_fill) or integers.size > LARGEST or factor.dtype != ir.DataType.FLOAT:
        return
    if len(shape) > 1 and not is_fill and not all(user.op_type in _ELEMENTWISE for user, _ in node.outputs[0].uses()):
        return
    if integers.dtype not in (ir.DataType.INT32, ir.DataType.INT8, ir.DataType.UINT8):
        return
    steps = np.ravel(factor.numpy())
    points = np.zeros(1, np.int64) if point is None else np.ravel(point.numpy()).astype(np.int64)
    if not {steps.size, points.size} <= {1, integers.size}:
        return
    centred = np.ravel(integers.numpy()).astype(np.int64) - points
    numbers = np.reshape(centred.astype(np.float32) * steps, shape)
    name = edit.names.fresh((source.name or "vector").removesuffix(_SUFFIX))
    is_weight = numbers.size > 1 and not is_fill
    held = weight_initialiser(edit.graph, name, numbers, _REASON) if is_weight else edit.constant(name, numbers)
    edit.bypass(node, held)
