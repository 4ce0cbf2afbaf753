"""A linear layer from integers to integers, of ONNX Runtime."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.ops.lifted.quantized import integer_linear
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Constant, Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.steps import BYTES, has_steps
from onnxlift.rewriting.bodies.body import MICROSOFT

_ENDS = has_steps(1, 7, zeros=(2, 8), data=(0,))


def _is_layer(node: ir.Node) -> bool:
    """Tell whether a Gemm multiplies with a matrix that the model fixes, and gives integers."""
    weight, bias, scale = (node.inputs[place] if place < len(node.inputs) else None for place in (3, 6, 7))
    matrix, row = constant(weight), constant(bias)
    if matrix is None or matrix.dtype not in BYTES or len(matrix.shape) != 2 or scale is None:
        return False
    outputs = matrix.shape.numpy()[0 if attribute(node, "transB", 0) else 1]
    if bias is not None and (row is None or row.dtype != DataType.INT32 or row.size != outputs):
        return False
    steps = [constant(node.inputs[place]) for place in (4, 5)]
    plain = attribute(node, "transA", 0) == 0 and attribute(node, "alpha", 1.0) == 1
    return plain and all(step is not None and step.size in (1, outputs) for step in steps) and _ENDS(node)


@op("QGemm", domain=MICROSOFT, ignores=["alpha", "transA"], layer="QLinear", weights=("B", "C"), takes=_is_layer)
def QGemm(
    n: Node,
    A: Tensor,
    a_scale: Constant,
    a_zero_point: Constant,
    B: Constant,
    b_scale: Constant,
    b_zero_point: Constant,
    C: Constant | None,
    y_scale: Constant,
    y_zero_point: Constant,
    *,
    transB: int = 0,
) -> Result:
    """C is in steps of `a_scale * b_scale`."""
    ends = (a_scale, a_zero_point, y_scale, y_zero_point)
    return integer_linear(n, A, B, b_scale, b_zero_point, ends, C, bool(transB))
