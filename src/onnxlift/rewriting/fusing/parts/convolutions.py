"""Change the weight and the bias of a convolution, channel by channel."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.origin.names import is_counted_weight

Array = np.ndarray[Any, Any]

CONVOLUTIONS = ("Conv", "ConvTranspose")
_FLOATS = {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16}


def numbers(value: ir.Value | None) -> Array | None:
    """Return the numbers of a floating-point constant in float64; None if it is no such constant."""
    tensor = constant(value)
    return None if tensor is None or tensor.dtype not in _FLOATS else tensor.numpy().astype(np.float64)


def channels_of(convolution: ir.Node) -> int | None:
    """Return the number of output channels; None if the weight is no constant."""
    weight = constant(convolution.inputs[1])
    if weight is None or len(weight.shape) < 3:
        return None
    shape = weight.shape.numpy()
    return shape[0] if convolution.op_type == "Conv" else shape[1] * int(attribute(convolution, "group", 1))


def scale_channels(edit: Edit, convolution: ir.Node, node: ir.Node, factor: Array, offset: Array) -> bool:
    """Put a convolution in the place of `node`, its only reader, that computes `factor * it + offset` for each channel.

    Tells whether that worked. It does not if weight or bias are no constants, or would not be finite."""
    weight, count = numbers(convolution.inputs[1]), channels_of(convolution)
    has_bias = len(convolution.inputs) > 2 and convolution.inputs[2] is not None
    bias = numbers(convolution.inputs[2]) if has_bias else np.zeros(count or 0)
    if weight is None or bias is None or factor.shape != (count,) or offset.shape != (count,):
        return False
    if convolution.op_type == "Conv":
        scaled = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
    else:  # the weight is (in, out / group, ...); the inputs of a group make the outputs of the same group
        group = int(attribute(convolution, "group", 1))
        per_group = factor.reshape(group, 1, -1, *[1] * (weight.ndim - 2))
        scaled = (weight.reshape(group, -1, *weight.shape[1:]) * per_group).reshape(weight.shape)
    value = convolution.inputs[1]
    assert value is not None and value.dtype is not None
    dtype = value.dtype.numpy()
    with np.errstate(over="ignore"):
        new_weight, new_bias = scaled.astype(dtype), (bias * factor + offset).astype(dtype)
    if not (np.isfinite(new_weight.astype(np.float64)).all() and np.isfinite(new_bias.astype(np.float64)).all()):
        return False
    bias_value = convolution.inputs[2] if has_bias else None
    inputs = [
        convolution.inputs[0],
        _changed(edit, value, new_weight),
        edit.constant(_bias_name(value.name or ""), new_bias)
        if bias_value is None
        else _changed(edit, bias_value, new_bias),
    ]
    edit.replace(node, convolution.op_type, inputs, convolution.attributes.values(), named_by=convolution)
    edit.drop(convolution)
    return True


def _changed(edit: Edit, value: ir.Value, array: Array) -> ir.Value:
    """Return a constant with other numbers: the same one if nobody else reads it, so that it keeps its name."""
    if len(value.uses()) > 1 or value.is_graph_output() or value.graph is not edit.graph:
        return edit.constant(value.name or "weight", array)
    value.const_value = ir.Tensor(array, name=value.name)
    return value


def _bias_name(weight: str) -> str:
    """Return the name for the bias of a convolution by that of its weight. Only a weight with the name of a key in a
    state dict gives its bias such a name: whoever lifts the result takes these for the original's."""
    if is_counted_weight(weight):
        return weight.replace(".w_", ".b_")
    return f"{weight.removesuffix('weight')}bias" if weight.endswith(".weight") else f"{weight}_bias"
