"""Ask the schemas of ONNX what they infer of a node, as far as they give an answer."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx.helper
import onnx.shape_inference
import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.graph.shapes import Shape, shape_of

from .equations import is_equation
from .node_view import NodeView

MAX_RANK = 64
"""The most axes of a tensor. No runtime goes beyond it, and without a limit a long chain of Unsqueeze nodes takes
quadratic time."""

_AXES = ("axis", "axes", "batch_dims")
_MAX_CONSTANT_BYTES = 1024


def ask_schema(
    node: ir.Node, view: NodeView, opsets: Mapping[str, int], ir_version: int
) -> Mapping[str, onnx.TypeProto]:
    """Return what the operator's schema infers of the outputs, by name; nothing if it cannot be asked.

    Raises an InferenceError if the schema says that the node is wrong."""
    schema = schema_for(node.domain, node.op_type, view.opset)
    if schema is None or any(value is not None and value.type is None for value in node.inputs):
        return {}
    proto = _resolved(node, view)
    if not _can_be_asked(proto):
        return {}
    # Use positions as names: values without a name, or two of the same name, must not confuse the schema.
    types: dict[str, onnx.TypeProto] = {}
    constants: dict[str, onnx.TensorProto] = {}
    for i, value in enumerate(node.inputs):
        if value is None:
            continue
        proto.input[i] = f"i{i}"
        types[f"i{i}"] = _type_proto(value)
        tensor = _tensor(value)
        if tensor is not None and tensor.nbytes <= _MAX_CONSTANT_BYTES:
            constants[f"i{i}"] = ir.serde.serialize_tensor(tensor)
    names = {f"o{i}": value.name for i, value in enumerate(node.outputs)}
    for i, value in enumerate(node.outputs):
        proto.output[i] = f"o{i}" if value.name else ""
    versions = {**opsets, node.domain: view.opset}
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in versions.items()]
    inferred = onnx.shape_inference.infer_node_outputs(
        schema, proto, types, constants, opset_imports=imports, ir_version=ir_version
    )
    return {name: inferred[key] for key, name in names.items() if name and key in inferred}


def reason_of(error: Exception) -> str:
    """Return the message of onnx's inference without its prefix, such as `[ShapeInferenceError]`, in one line."""
    text = str(error).rpartition("Error]")[2] or str(error)
    return " ".join(text.split()).rstrip(".")[:300]


def _type_proto(value: ir.Value) -> onnx.TypeProto:
    shape: Shape | None = shape_of(value)
    if isinstance(value.type, ir.TensorType):
        return onnx.helper.make_tensor_type_proto(value.type.dtype, shape)
    assert value.type is not None  # `ask_schema` asks only about nodes whose inputs all have a type
    proto = onnx.TypeProto()
    ir.serde.serialize_type_into(proto, value.type)
    if value.shape is not None:
        ir.serde.serialize_shape_into(proto, value.shape)
    return proto


def _tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """Return the tensor of an initialiser, or of a Constant node."""
    node = value.producer()
    if node is None or node.op_type != "Constant" or node.domain:
        return constant(value)
    attribute = node.attributes.get("value")
    return None if attribute is None or attribute.is_ref() else attribute.as_tensor()


def _resolved(node: ir.Node, view: NodeView) -> onnx.NodeProto:
    """Return a node with the attributes that the caller of the function around it gives."""
    proto = ir.serde.serialize_node(node)
    for attribute in list(proto.attribute):
        if attribute.ref_attr_name:
            proto.attribute.remove(attribute)
            resolved = view.resolve(attribute.ref_attr_name)
            if resolved is not None:
                proto.attribute.append(ir.serde.serialize_attribute(resolved))
                proto.attribute[-1].name = attribute.name
    return proto


def _can_be_asked(proto: onnx.NodeProto) -> bool:
    """Tell whether ONNX's own inference gives an answer about a node. For some equations it never ends, and some axes
    beyond 32 bits end the process."""
    for attribute in proto.attribute:
        if attribute.name in _AXES and any(abs(axis) > MAX_RANK for axis in (attribute.i, *attribute.ints)):
            return False
        if proto.op_type == "Einsum" and attribute.name == "equation":
            return is_equation(attribute.s.decode("utf-8", "replace"))
    return True
