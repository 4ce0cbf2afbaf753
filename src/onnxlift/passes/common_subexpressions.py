"""What is computed twice in one module is computed once.

    y = Op(a, b); z = Op(a, b)   ->   z is y

for nodes with the same operator, inputs (constants by value; the bounds of a Range by their names as sizes), attributes
(compared bit by bit) and number of outputs.

Not merged are nodes that draw random numbers, if only in training (two dropout masks are two masks), nodes that hold
graphs, calls of functions and operators of other domains, of which nothing is known; nodes of different graphs; and
nodes of different modules, by the scope in their names or the exporter's metadata: the value would have to be handed
from one module to another, which nobody would write.
"""

from __future__ import annotations

from collections.abc import Hashable

import onnx_ir as ir

from ..ir.node_view import elements_of
from ..ir.scopes import constant, scopes
from .edit import Edit, Names, is_parameter

_RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"}
)
_MAX_CONSTANT_BYTES = 1024
_SCOPE_KEYS = ("pkg.torch.onnx.name_scopes", "namespace")


def run(model: ir.Model) -> int:
    """Merge equal nodes; gives how many were removed."""
    changes = 0
    names = Names(model)
    for scope in list(scopes(model)):
        edit = Edit(scope, names)
        seen: dict[Hashable, ir.Node] = {}
        for node in scope.graph:
            key = _key(model, node)
            if key is None:
                continue
            first = seen.setdefault(key, node)
            if first is not node:
                _merge(edit, first, node)
        changes += edit.finish()
    return changes


def _merge(edit: Edit, first: ir.Node, second: ir.Node) -> None:
    pairs = list(zip(first.outputs, second.outputs, strict=True))
    if all(edit.can_redirect(old, new) for new, old in pairs):
        for new, old in pairs:
            edit.redirect(old, new)
        edit.drop(second)
        edit.changes += 1


def _key(model: ir.Model, node: ir.Node) -> Hashable | None:
    """What two nodes must have in common to be the same; None if the node is not to be merged."""
    if node.domain not in ("", "ai.onnx", "ai.onnx.ml") or node.op_type in _RANDOM:
        return None
    if node.op_identifier() in model.functions or not node.inputs:
        return None
    attributes = []
    for name in sorted(node.attributes):
        attribute = node.attributes[name]
        value = _attribute_key(attribute)
        if value is None:
            return None
        attributes.append((name, attribute.type, value))
    used = tuple(bool(output.name) for output in node.outputs)
    key_of = _bound_key if node.op_type == "Range" else _input_key
    inputs = tuple(key_of(value) for value in node.inputs)
    return node.domain, node.op_type, node.version, inputs, tuple(attributes), used, module_of(node)


def _attribute_key(attribute: ir.Attr) -> Hashable | None:
    if attribute.is_ref():
        return "reference", attribute.ref_attr_name
    if attribute.type in (ir.AttributeType.INT, ir.AttributeType.INTS):
        return attribute.value if isinstance(attribute.value, int) else tuple(attribute.value)
    if attribute.type == ir.AttributeType.TENSOR:
        return _tensor_key(attribute.as_tensor())
    if attribute.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
        return repr(attribute.value)  # tells -0.0 from 0.0, and NaN is itself
    if attribute.type in (ir.AttributeType.STRING, ir.AttributeType.STRINGS):
        return repr(attribute.value)
    return None


def _input_key(value: ir.Value | None) -> Hashable:
    """Small constants are the same if their values are; anything else only if it is the same value."""
    tensor = constant(value)
    if value is None or tensor is None or is_parameter(value):
        return value
    return _tensor_key(tensor) or value


def _bound_key(value: ir.Value | None) -> Hashable:
    """Sizes of the same name are the same, wherever they are read."""
    elements = elements_of(value)
    return _input_key(value) if value is None or elements is None or None in elements else (value.dtype, elements)


def _tensor_key(tensor: ir.TensorProtocol) -> Hashable | None:
    if tensor.dtype == ir.DataType.STRING or tensor.nbytes > _MAX_CONSTANT_BYTES:
        return None
    return tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes()


def module_of(node: ir.Node) -> str:
    """The module that the node belongs to, as far as the exporter tells."""
    for key in _SCOPE_KEYS:
        if key in node.metadata_props:
            return node.metadata_props[key].rpartition(",")[0]
    return (node.name or "").rpartition("/")[0]
