"""The tensor of a constant: of an initialiser, or of a Constant node."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import AttributeProto, numpy_helper

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.nodes import plain_domain

from .addresses import ValuePlace


def constant_tensor(place: ValuePlace) -> onnx.TensorProto:
    """Return the tensor of a constant; its numbers may be in the store. An error says what the value is instead."""
    body, name = place
    held = body.constants.get(name)
    if isinstance(held, onnx.TensorProto):
        return held
    node = body.producers.get(name)
    if node is not None and node.op_type == "Constant" and not plain_domain(node.domain):
        found = [_of_attribute(each) for each in node.attribute]
        if found and found[0] is not None:
            return found[0]
    if node is not None:
        what = f"computed by node {quote(node.name)} ({node.op_type})"
    else:
        what = "a sparse tensor" if name in body.constants else "an input"
    raise OnnxLiftError(f"{quote(name)} is no constant, but {what}.")


def _of_attribute(attribute: AttributeProto) -> onnx.TensorProto | None:
    match attribute.name:
        case "value":
            return attribute.t
        case "value_float":
            return numpy_helper.from_array(np.array(attribute.f, np.float32))
        case "value_floats":
            return numpy_helper.from_array(np.array(attribute.floats, np.float32))
        case "value_int":
            return numpy_helper.from_array(np.array(attribute.i, np.int64))
        case "value_ints":
            return numpy_helper.from_array(np.array(attribute.ints, np.int64))
    return None
