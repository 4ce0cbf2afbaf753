"""Replace a vector that is stored in integers by the numbers that it stands for.

    DequantizeLinear(integers, scale, zero_point)   ->   initialiser

It applies to constants of one axis: biases, and the weights of norms. A bias of int32 takes as much room as one of
float32, and the others are small; a layer holds them as floats. Matrices and kernels stay integers (see the idiom
quantized-layers). Sound because both factors are exact, and the product is rounded once, to float32, as ONNX says.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep, weight_initialiser
from onnxlift.ir.graph.constants import constant
from onnxlift.stages import step

LARGEST = 1 << 20
_ATTRIBUTES = frozenset({"axis"})  # a vector has only one axis, whatever the attribute says
_SUFFIX = "_quantized"


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
    if len(integers.shape) != 1 or integers.size > LARGEST or factor.dtype != ir.DataType.FLOAT:
        return
    if integers.dtype not in (ir.DataType.INT32, ir.DataType.INT8, ir.DataType.UINT8):
        return
    centred = integers.numpy().astype(np.int64) - (0 if point is None else point.numpy().astype(np.int64))
    numbers = centred.astype(np.float32) * factor.numpy()
    if numbers.shape == integers.numpy().shape:
        name = edit.names.fresh((source.name or "vector").removesuffix(_SUFFIX))
        edit.bypass(node, weight_initialiser(edit.graph, name, numbers, "the file has it in integers"))
