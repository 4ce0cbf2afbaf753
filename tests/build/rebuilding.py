"""Build a model again, node by node, through `op.NAME`: for models without subgraphs and functions."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
from onnx import AttributeProto, helper, numpy_helper

from onnxlift import build
from onnxlift.build import op
from onnxlift.build.types import ValueType

SPACES: dict[str, Any] = {
    "": op,
    "ai.onnx.ml": op.ml,
    "ai.onnx.preview": op.preview,
    "ai.onnx.preview.training": op.training,
    "com.microsoft": op.microsoft,
}


def is_plain(model: onnx.ModelProto) -> bool:
    """Whether the model has no subgraphs and no functions."""
    attributes = (attribute for node in model.graph.node for attribute in node.attribute)
    return not model.functions and not any(each.HasField("g") or each.ref_attr_name for each in attributes)


def rebuilt(model: onnx.ModelProto) -> build.Model:
    """The same model, built with the builder."""
    opsets = {each.domain: each.version for each in model.opset_import}
    with build.opset(opsets.pop("", None), domains=opsets):
        values: dict[str, Any] = {"": None}
        for tensor in model.graph.initializer:
            values[tensor.name] = build.constant(tensor, name=tensor.name)
        inputs = []
        for each in model.graph.input:
            if each.name not in values:
                type_ = ir.serde.deserialize_type_proto_for_type(each.type)
                shape = ir.serde.deserialize_type_proto_for_shape(each.type)
                values[each.name] = build.input(each.name, ValueType(type_, shape))
                inputs.append(values[each.name])
        for node in model.graph.node:
            operator = getattr(SPACES[node.domain], node.op_type)
            attributes = {each.name: _plain(each) for each in node.attribute}
            given = [values[name] for name in node.input]
            made = operator(*given, outputs=len(node.output), **attributes)
            values.update((name, value) for name, value in zip(node.output, made, strict=True) if name)
        outputs = {each.name: values[each.name] for each in model.graph.output}
        return build.model(inputs, outputs, unused_inputs=True)


def _plain(attribute: AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    repeated = (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS)
    return list(value) if attribute.type in repeated else value


def nodes_of(model: onnx.ModelProto) -> list[Any]:
    """The nodes that the outputs of a model need, without the names of what lies between them."""
    names: dict[str, str] = {each.name: each.name for each in (*model.graph.input, *model.graph.output)}
    names |= {each.name: each.SerializeToString().hex() for each in model.graph.initializer} | {"": ""}
    needed, kept = {each.name for each in model.graph.output}, []
    for node in reversed(model.graph.node):
        if needed & {*node.output}:
            needed |= {*node.input}
            kept.append(node)
    nodes = []
    for number, node in enumerate(reversed(kept)):
        outputs = list(node.output)
        while outputs and not outputs[-1]:
            outputs.pop()
        for index, name in enumerate(outputs):
            names.setdefault(name, f"{number}.{index}")
        read = list(node.input)
        while read and not read[-1]:
            read.pop()
        attributes = sorted(_text(each) for each in node.attribute)
        nodes.append((node.domain, node.op_type, [names[name] for name in read], attributes))
    return nodes


def _text(attribute: AttributeProto) -> bytes:
    copy = AttributeProto()
    copy.CopyFrom(attribute)
    copy.doc_string = ""
    if copy.HasField("t"):
        array = numpy_helper.to_array(copy.t)
        copy.s = f"{copy.t.data_type} {array.shape} {array.tolist()}".encode()
        copy.ClearField("t")
    if copy.type == AttributeProto.UNDEFINED:
        copy.type = AttributeProto.INTS
    return copy.SerializeToString(deterministic=True)
