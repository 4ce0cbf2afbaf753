"""The ONNX schema that is in force for a node, and the node's attributes as that schema reads them."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
import onnx.defs
import onnx_ir as ir


@cache
def schema_for(domain: str, op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    """Return the newest schema of the operator that is not newer than `opset`.

    None for operators that ONNX does not define."""
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


@cache
def default_attributes(domain: str, op_type: str, opset: int) -> dict[str, Any]:
    """Return the default value of every attribute of the operator, by name; None where the schema has no default."""
    schema = schema_for(domain, op_type, opset)
    if schema is None:
        return {}
    return {name: _default(attribute) for name, attribute in schema.attributes.items()}


def _default(attribute: onnx.defs.OpSchema.Attribute) -> Any:
    proto = attribute.default_value
    if not proto.name and not proto.type:
        return None
    return plain(onnx.helper.get_attribute_value(proto))


def attributes_of(node: ir.Node, opset: int) -> dict[str, Any]:
    """Return every attribute of the operator as a plain Python value; one that `node` does not set has its default."""
    values = dict(default_attributes(node.domain, node.op_type, opset))
    for name, attribute in node.attributes.items():
        if not attribute.is_ref():
            values[name] = plain(attribute.value)
    return values


def plain(value: Any) -> Any:
    """Return an attribute's value in Python's own types: bytes become text, repeated values become tuples."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, (list, tuple)) or (hasattr(value, "__iter__") and type(value).__name__.startswith("Repeated")):
        return tuple(plain(v) for v in value)
    return value
