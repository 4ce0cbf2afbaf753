"""Replace an operator that we do not support by the body that defines it.

    y = AffineGrid(theta, size)   ->   the nodes by which the operator's schema defines it

Many schemas of ONNX have such a body: one for all uses, or one that is built for the types and attributes of the node.
Operators in a body may have to be expanded in turn. The operators of ONNX Runtime have no schema here; their bodies are
in bodies/. If there is no body for the way an operator is used, `node.meta["reason"]` says why.

Types must have been inferred before; they are inferred again afterwards. Sound because the body is the operator's
definition. The nodes of a body keep the opset that it is written for (`node.version`).
"""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.graph.walk import all_nodes, inner_nodes, opset_of
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.reading.structure import root_cause
from onnxlift.rewriting import bodies
from onnxlift.stages import step

from .expansion import Expansion, Operators

# The operators in a body are simpler, and have simpler bodies. No body of ONNX is nested more than four deep.
_MAX_ROUNDS = 8


@step("expand-operators", after={"types": "a body is built for the types of its inputs"}, optional=False, repeats=True)
def run(model: ir.Model, *, supported: Operators | None = None) -> int:
    """Expand the operators that are not `supported(domain, op_type)` and have a body; return how many."""
    if supported is None:
        return 0
    changes = 0
    for _ in range(_MAX_ROUNDS):
        waiting = [n for n in all_nodes(model.graph) if _has_body(model, n) and not supported(n.domain, n.op_type)]
        if not waiting:
            break
        bodies = {node: body for node in waiting if (body := _body(model, node)) is not None}
        expansion = Expansion(model, bodies.get, _name)
        expansion.expand(model.graph)
        if not expansion.changes:
            break
        changes += expansion.changes
        infer(model)
    return changes


def _has_body(model: ir.Model, node: ir.Node) -> bool:
    if "reason" in node.meta:
        return False
    if bodies.has_body(node):
        return True
    opset = opset_of(node, model.opset_imports)
    schema: Any = schema_for(node.domain, node.op_type, opset)  # onnx's type stubs lack the attributes
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _name(call: ir.Node, node: ir.Node) -> str:
    if bodies.has_body(call):
        return bodies.name_of(call, node)
    return f"{call.name or call.op_type}_{node.name or node.op_type}"


def _body(model: ir.Model, node: ir.Node) -> ir.Function | None:
    opset = opset_of(node, model.opset_imports)
    if bodies.has_body(node):
        try:
            return bodies.body_of(node)
        except bodies.NoBody as error:
            node.meta["reason"] = str(error)
            return None
    schema = schema_for(node.domain, node.op_type, opset)
    assert schema is not None
    proto = _proto(schema, opset, node)
    if proto is None:
        return None
    _drop_missing_outputs(proto)
    passed = {attribute.name for attribute in proto.attribute_proto} | set(node.attributes)
    for name, attribute in schema.attributes.items():
        default = attribute.default_value
        if name not in passed and default.name:
            proto.attribute_proto.append(default)
    try:
        function = ir.serde.deserialize_function(proto)
    except ir.serde.SerdeError as error:  # as where onnx takes a value for a tensor that is none
        node.meta["reason"] = f"the body that onnx writes for it is broken: {root_cause(error)}"
        return None
    _connect_outer_values(function, node)
    return function


def _drop_missing_outputs(proto: onnx.FunctionProto) -> None:
    """Remove outputs at the end that the body lists but does not compute. ONNX builds bodies so if the call does not
    ask for the last outputs."""
    computed = {name for node in proto.node for name in node.output} | set(proto.input)
    while proto.output and proto.output[-1] not in computed:
        del proto.output[-1]


def _proto(schema: Any, opset: int, node: ir.Node) -> onnx.FunctionProto | None:
    """Return the newest body that is not newer than the opset, or else the oldest: all of them define the same
    operator.

    Return None if the body depends on an input whose type is not known, because onnx would read the type without
    checking. The type may be known later, when an operator in front of this one has been expanded.
    """
    versions = schema.function_opset_versions or schema.context_dependent_function_opset_versions
    version = max((v for v in versions if v <= opset), default=min(versions))
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
            node.meta["reason"] = f"onnx cannot write its body: {root_cause(error)}"
            return None
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
