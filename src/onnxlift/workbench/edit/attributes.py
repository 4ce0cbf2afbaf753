"""Make an attribute of a plain value: its type is that of the operator's definition, or follows from the value."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import AttributeProto

from onnxlift.errors import OnnxLiftError, quote

from .arrays import Array, data_type, default_array, shown
from .edited import EditedModel
from .operators import Operator

_INT64 = range(-(2**63), 2**63)
_WORDS: dict[int, str] = {
    AttributeProto.INT: "a whole number",
    AttributeProto.FLOAT: "a number",
    AttributeProto.STRING: "a text",
    AttributeProto.INTS: "a list of whole numbers",
    AttributeProto.FLOATS: "a list of numbers",
    AttributeProto.STRINGS: "a list of texts",
    AttributeProto.TENSOR: "an array",
}
TYPE_ATTRIBUTES = {"to", "dtype", "output_datatype", "output_dtype", "stash_type"}
"""Attributes that hold the number of an element type. It may be given by its name."""


def make_attribute(
    model: EditedModel, operator: Operator, name: str, value: Any, present: AttributeProto | None = None
) -> AttributeProto:
    """Return an attribute, checked against the operator's definition. `present` is the one that it replaces."""
    operator.check_attribute(name)
    if operator.schema is not None:
        kind = _schema_type(operator, name)
    elif present is not None and not present.ref_attr_name:
        kind = present.type
    else:
        kind = _own_type(value)
    if kind not in _WORDS:
        raise OnnxLiftError(f"attribute {quote(name)} of {operator.title} is a graph or a type, which cannot be set.")
    if name in TYPE_ATTRIBUTES and isinstance(value, str) and kind == AttributeProto.INT:
        known = data_type(value)
        value = value if known is None else int(known)
    converted = _converted(kind, value)
    if converted is None:
        raise OnnxLiftError(f"attribute {quote(name)} of {operator.title} is {_WORDS[kind]}, not {shown(value)}.")
    if kind == AttributeProto.TENSOR:
        return AttributeProto(name=name, type=AttributeProto.TENSOR, t=model.tensor("", converted))
    return onnx.helper.make_attribute(name, converted, attr_type=kind)


def _schema_type(operator: Operator, name: str) -> int:
    assert operator.schema is not None
    found: Any = operator.schema.attributes[name].type
    return int(AttributeProto.AttributeType.Value(found.name))


def _own_type(value: Any) -> int:
    """Return the type that a value has by itself."""
    if isinstance(value, tuple):
        kinds = {_own_type(each) for each in value}
        if kinds <= {AttributeProto.INT}:
            return AttributeProto.INTS
        if kinds <= {AttributeProto.INT, AttributeProto.FLOAT}:
            return AttributeProto.FLOATS
        return AttributeProto.STRINGS
    if isinstance(value, Array):
        return AttributeProto.TENSOR
    if isinstance(value, str):
        return AttributeProto.STRING
    return AttributeProto.FLOAT if isinstance(value, float) else AttributeProto.INT


def _converted(kind: int, value: Any) -> Any:
    """Return the value as an attribute of the type has it; None if it cannot be one."""
    if isinstance(value, Array) and kind != AttributeProto.TENSOR:
        plain = value.numpy().tolist()
        value = tuple(plain) if isinstance(plain, list) else plain
    match kind:
        case AttributeProto.INT:
            return int(value) if isinstance(value, int) and value in _INT64 else None
        case AttributeProto.FLOAT:
            return float(value) if isinstance(value, int | float) and not _overflows(value) else None
        case AttributeProto.STRING:
            return value if isinstance(value, str) else None
        case AttributeProto.TENSOR:
            return _tensor(value)
    single: dict[int, int] = {AttributeProto.INTS: AttributeProto.INT, AttributeProto.FLOATS: AttributeProto.FLOAT}
    if not isinstance(value, tuple):
        return None
    found = [_converted(single.get(kind, AttributeProto.STRING), each) for each in value]
    return None if any(each is None for each in found) else found


def _tensor(value: Any) -> Array | None:
    if isinstance(value, Array):
        return value
    if isinstance(value, bool | int | float) or (isinstance(value, tuple) and value):
        try:
            return default_array(value)
        except OnnxLiftError:
            return None
    return None


def _overflows(value: float) -> bool:
    return isinstance(value, int) and abs(value) > 2**1000


def attribute_of(node: onnx.NodeProto, name: str) -> AttributeProto | None:
    """Return the attribute of a node; None if it has none of that name."""
    return next((each for each in node.attribute if each.name == name), None)
