"""Optional values: the value itself, or None."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Binary, Literal
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Scalar, Tensor
from onnxlift.lifting.ops.registry import op


@op("Optional", ignores=["type"])
def Optional(n: Node, input: Tensor | None) -> Result:
    return Literal(None) if input is None else input


@op("OptionalHasElement")
def OptionalHasElement(n: Node, input: Tensor | None) -> Result:
    """Since opset 18 the input may also be a tensor or a sequence, which always has an element, or be left out."""
    value = n.ir.inputs[0] if n.ir.inputs else None
    if input is None or value is None or not isinstance(value.type, ir.OptionalType):
        return Scalar(input is not None, DataType.BOOL)
    return Scalar(Binary("is not", input, Literal(None)), DataType.BOOL)


@op("OptionalGetElement")
def OptionalGetElement(n: Node, input: Tensor) -> Result:
    return input
