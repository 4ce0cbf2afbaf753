"""The element type of one value, found by walking back from it. Inference of the whole model is asked only if need be.

An operator's schema says of most outputs that they are of the type of an input, or of one certain type.
"""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnxlift.ir.graph.nodes import plain_domain
from onnxlift.ir.graph.schema import schema_for

from .arrays import tensor_type
from .attributes import attribute_of
from .bodies import Body, value_infos
from .edited import EditedModel

MOST_STEPS = 100_000


def element_type(model: EditedModel, body: Body, name: str) -> ir.DataType | None:
    """Return the element type of a value that nodes of `body` can read; None if nobody knows it."""
    scope = body.scope_of(name)
    start = name
    for _ in range(MOST_STEPS):
        if scope is None:
            return None
        found = _declared(scope, name)
        if found is not None:
            return found
        node = scope.producers.get(name)
        if node is None:
            break
        found, source = _by_schema(scope, node, list(node.output).index(name))
        if found is not None:
            return found
        if source is None:
            break
        name, scope = source, scope.scope_of(source)
    return model.element_types().get(start)


def _declared(body: Body, name: str) -> ir.DataType | None:
    tensor = body.constants.get(name)
    if tensor is not None:
        return _type(tensor.values.data_type if isinstance(tensor, onnx.SparseTensorProto) else tensor.data_type)
    if name in body.producers and name in body.outputs:
        return None  # what an output is declared as may be wrong by now
    for info in value_infos(body):
        if info.name == name and info.type.HasField("tensor_type"):
            return _type(info.type.tensor_type.elem_type)
    return None


def _by_schema(body: Body, node: onnx.NodeProto, output: int) -> tuple[ir.DataType | None, str | None]:
    """Return the type of an output, or else the input of which it has the type."""
    domain = plain_domain(node.domain)
    if not domain and node.op_type == "Cast":
        to = attribute_of(node, "to")
        return (None if to is None else _type(to.i)), None
    if not domain and node.op_type == "Constant":
        value = attribute_of(node, "value")
        return (None if value is None else _type(value.t.data_type)), None
    schema = schema_for(domain, node.op_type, body.opsets.get(domain, 1))
    if schema is None or not schema.outputs:
        return None, None
    formal = schema.outputs[min(output, len(schema.outputs) - 1)]
    variable = formal.type_str
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}.get(variable)
    if not formal.is_homogeneous:
        return None, None
    if allowed is None:
        return tensor_type(variable), None
    if len(allowed) == 1:
        return tensor_type(allowed[0]), None
    for index, name in enumerate(node.input):
        if name and schema.inputs and schema.inputs[min(index, len(schema.inputs) - 1)].type_str == variable:
            return None, name
    return None, None


def _type(number: int) -> ir.DataType | None:
    return ir.DataType(number) if number and number in set(ir.DataType) else None
