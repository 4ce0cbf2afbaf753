"""Turn what a caller gives for a new node into its inputs and attributes.

What has the name of an input in the operator's definition is that input, all else is an attribute: so `min=0.0` of a
Clip is an attribute before opset 11, and an input since. A text as an input names a value. Numbers become constants, in
the element type that the operator wants there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir
from onnx import AttributeProto

from onnxlift.errors import OnnxLiftError, quote

from .addresses import visible
from .arrays import Array, default_array, tensor_type, type_name
from .attributes import make_attribute
from .bodies import Body
from .edited import EditedModel
from .element_types import element_type
from .operators import Operator


def make_node(
    model: EditedModel,
    body: Body,
    operator: Operator,
    name: str,
    *,
    values: Sequence[str],
    inputs: Sequence[Any],
    arguments: Mapping[str, Any],
) -> onnx.NodeProto:
    """Return a new node without outputs. Its inputs are those that `arguments` name; `values` and then `inputs` take
    the places that are left, in their order. Constants are added to the body."""
    named = {slot: value for key, value in arguments.items() if (slot := operator.slot(key)) is not None}
    waiting = [*values, *inputs]
    operands: list[Any] = []
    while waiting or any(slot >= len(operands) for slot in named):
        index = len(operands)
        operands.append(named[index] if index in named else waiting.pop(0) if waiting else None)
        operator.check_count(len(operands))
    attributes = [
        make_attribute(model, operator, key, value) for key, value in arguments.items() if operator.slot(key) is None
    ]
    own = [visible(model, body, each) if isinstance(each, str) and each else each for each in operands]
    names = [_input(model, body, operator, index, own, name) for index in range(len(own))]
    while names and not names[-1]:
        names.pop()
    return onnx.NodeProto(
        domain=operator.domain,
        op_type=operator.name,
        overload=operator.overload,
        name=name,
        input=names,
        attribute=attributes,
    )


def _input(model: EditedModel, body: Body, operator: Operator, index: int, operands: Sequence[Any], node: str) -> str:
    """Return the name of the value that an input reads. For numbers, add a constant."""
    value = operands[index]
    if value is None or isinstance(value, str):
        return value or ""
    formal = operator.inputs[min(index, len(operator.inputs) - 1)] if operator.inputs else f"input_{index}"
    array = as_input(model, body, operator, index, value, operands)
    return model.add_constant(body, model.fresh(body, f"{node}_{formal}"), array)


def as_input(
    model: EditedModel, body: Body, operator: Operator, index: int, value: Any, operands: Sequence[Any]
) -> Array:
    """Return numbers as a constant for an input of an operator, in the element type that is wanted there.

    `operands` are all inputs of the node: some have to be of one type."""
    if isinstance(value, Array):
        return value
    wanted = _wanted_type(model, body, operator, index, operands)
    array = default_array(value)
    if wanted is None or array.type == wanted or array.dtype == "string":
        return array
    try:
        return Array.of(default_array(value).numpy() if not isinstance(value, float) else value, wanted)
    except OnnxLiftError as error:
        raise OnnxLiftError(f"input {index} of {operator.title} is of type {type_name(wanted)}: {error}") from error


def _wanted_type(
    model: EditedModel, body: Body, operator: Operator, index: int, operands: Sequence[Any]
) -> ir.DataType | None:
    schema = operator.schema
    if schema is None or not schema.inputs:
        return None
    places = [schema.inputs[min(i, len(schema.inputs) - 1)].type_str for i in range(len(operands))]
    variable = places[index]
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}.get(
        variable, [variable]
    )
    if len(allowed) == 1:
        return tensor_type(allowed[0])
    for other_index, (place, other) in enumerate(zip(places, operands, strict=True)):
        if place != variable or other_index == index:
            continue
        if isinstance(other, Array):
            return other.type
        if isinstance(other, str) and other:
            found = element_type(model, body, other)
            if found is not None:
                return found
    return None


def replace_attributes(node: onnx.NodeProto, attributes: Sequence[AttributeProto]) -> None:
    """Set attributes of a node; others stay."""
    names = {each.name for each in attributes}
    kept = [each for each in node.attribute if each.name not in names]
    del node.attribute[:]
    node.attribute.extend([*kept, *attributes])


def check_name(model: EditedModel, body: Body, name: str) -> None:
    """Refuse a name for a new node that another node has."""
    if any(node.name == name for each in body.root.tree() for node in each.proto.node):
        raise OnnxLiftError(f"there is a node named {quote(name)} already: choose another name.")


def new_name(model: EditedModel, body: Body, wanted: str | None, otherwise: str) -> str:
    """Return the name for a new node: the one that is wanted, if no other node has it, or else one that is free."""
    if wanted is None:
        return model.fresh(body, otherwise)
    if not wanted:
        raise OnnxLiftError("a node must have a name that is not empty.")
    check_name(model, body, wanted)
    return wanted
