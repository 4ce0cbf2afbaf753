"""The bodies by which ONNX's own schemas define operators: one for all uses, or one that is built for the types and
attributes of the node.
"""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.graph.walk import all_nodes, inner_nodes
from onnxlift.ir.reading.structure import root_cause
from onnxlift.rewriting.bodies import NoBody


def has_schema_body(node: ir.Node, opset: int) -> bool:
    """Tell whether the operator's schema at this opset has a body."""
    schema: Any = schema_for(node.domain, node.op_type, opset)  # onnx's type stubs lack the attributes
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def schema_body(node: ir.Node, opset: int, *, oldest: bool = False) -> ir.Function | None:
    """Return the body of the operator at this opset, written for the types and attributes of the node.

    There may be bodies for several versions of the opset. Return the newest that is not newer than `opset`, or else the
    oldest; if `oldest`, return that in any case. All of them define the same operator. Return None if the body depends
    on types that are not known, and raise `NoBody` if onnx cannot write it."""
    schema: Any = schema_for(node.domain, node.op_type, opset)
    assert schema is not None
    versions = schema.function_opset_versions or schema.context_dependent_function_opset_versions
    fitting = max((v for v in versions if v <= opset), default=min(versions))
    proto = _proto(schema, min(versions) if oldest else fitting, node)
    if proto is None:
        return None
    _settle_missing_outputs(proto)
    passed = {attribute.name for attribute in proto.attribute_proto} | set(node.attributes)
    for name, attribute in schema.attributes.items():
        default = attribute.default_value
        if name not in passed and default.name:
            proto.attribute_proto.append(default)
            if name in proto.attribute:  # which says that there is no default
                proto.attribute.remove(name)
    try:
        function = ir.serde.deserialize_function(proto)
    except ir.serde.SerdeError as error:  # as where onnx takes a value for a tensor that is none
        raise NoBody(f"the body that onnx writes for it is broken: {root_cause(error)}") from error
    _connect_outer_values(function, node)
    return function


def _settle_missing_outputs(proto: onnx.FunctionProto) -> None:
    """Let outputs that the body lists but does not compute be inputs that no call passes: so they are nothing.

    ONNX builds bodies so if the call does not ask for these outputs."""
    computed = {name for node in proto.node for name in node.output} | set(proto.input)
    for name in proto.output:
        if name not in computed:
            proto.input.append(name)
            computed.add(name)


def _proto(schema: Any, version: int, node: ir.Node) -> onnx.FunctionProto | None:
    """Return the body that is written for this version of the opset.

    Return None if the body depends on an input whose type is not known, because onnx would read the type without
    checking. The type may be known later, when an operator in front of this one has been expanded.
    """
    if schema.has_function:
        data = schema.get_function_with_opset_version(version)
    else:
        if any(value is not None and value.type is None for value in node.inputs):
            return None
        call = ir.serde.serialize_node(node).SerializeToString()
        types = [_type(value) for value in node.inputs]
        try:
            data = schema.get_context_dependent_function_with_opset_version(version, call, types)
        except (RuntimeError, ValueError) as error:  # onnx writes names into a text that it parses, without quotes
            raise NoBody(f"onnx cannot write its body: {root_cause(error)}") from error
    return onnx.FunctionProto.FromString(data) if data else None


def _type(value: ir.Value | None) -> bytes:
    proto = onnx.TypeProto()
    if value is not None and value.type is not None:
        ir.serde.serialize_type_into(proto, value.type)
        if value.shape is not None:
            ir.serde.serialize_shape_into(proto, value.shape)
    return bytes(proto.SerializeToString())


def _connect_outer_values(function: ir.Function, node: ir.Node) -> None:
    """Connect the values that the body reads by name only.

    The body of a SequenceMap contains a graph of the node. What this graph reads from outside is known in the body only
    by name.
    """
    outside = {value.name: value for value in _reads_inside(node)}
    if not outside:
        return
    for inner in all_nodes(function.graph):
        for index, value in enumerate(inner.inputs):
            if value is not None and value.producer() is None and value.graph is None and value.name in outside:
                inner.replace_input_with(index, outside[value.name])


def _reads_inside(node: ir.Node) -> list[ir.Value]:
    return [value for inner in inner_nodes(node) for value in inner.inputs if value is not None]
