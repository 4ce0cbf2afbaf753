"""Hold a node against another revision of its operator's schema: what the schemas tell of a step need not be written.

Most revisions add types, attributes with a default that means what was meant before, or optional inputs at the end. So

1. An attribute that the new revision does not know goes if it has its default, which means the same as none.
2. An attribute that the node leaves out, and whose default is another one in the new revision, is written out.
3. Inputs and outputs must fit in number, and those that are required must be there.

Whatever else changed is the business of an adapter (step.py).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx.defs
import onnx_ir as ir

from onnxlift.ir.graph.schema import default_attributes, plain, schema_for

from .step import Refusal

Schema = onnx.defs.OpSchema
_REQUIRED = Schema.FormalParameterOption.Single
_IGNORED = frozenset({"consumed_inputs"})
"""A hint to runtimes of 2017 on which memory to use again. It never had a meaning for the result."""


@cache
def revisions(domain: str, op_type: str) -> tuple[int, ...]:
    """Return the opsets in which the operator was changed, from its first on."""
    newest = onnx.defs.onnx_opset_version() if domain == "" else 1000
    found: list[int] = []
    schema = schema_for(domain, op_type, newest)
    while schema is not None:
        found.append(int(schema.since_version))
        schema = schema_for(domain, op_type, schema.since_version - 1) if schema.since_version > 1 else None
    return tuple(reversed(found))


def fit_signature(node: ir.Node, old: int, new: int) -> None:
    """Bring attributes, inputs and outputs of the node into the form of another revision; refuse what has none."""
    before, after = (_schema(node, version) for version in (old, new))
    if after.deprecated:
        raise Refusal(f"{node.op_type} was given up in opset {after.since_version}")
    _fit_attributes(node, before, after)
    _fit_inputs(node, before, after)
    _fit_outputs(node, after)


def _schema(node: ir.Node, version: int) -> Schema:
    schema = schema_for(node.domain, node.op_type, version)
    assert schema is not None
    return schema


def _fit_attributes(node: ir.Node, before: Schema, after: Schema) -> None:
    known: dict[str, Any] = dict(after.attributes)  # onnx's type stubs lack its members
    defaults, others = (
        default_attributes(node.domain, node.op_type, schema.since_version) for schema in (before, after)
    )
    for name, attribute in list(node.attributes.items()):
        if name in known:
            if int(attribute.type) != int(known[name].type.value):
                raise Refusal(f"its attribute {name} is of another type {_when(before, after)}")
            continue
        if name not in _IGNORED and (attribute.is_ref() or plain(attribute.value) != defaults.get(name)):
            raise Refusal(f"its attribute {name} = {_shown(attribute)} is not known {_when(before, after)}")
        del node.attributes[name]
    for name, formal in known.items():
        if name in node.attributes:
            continue
        if name in before.attributes and defaults[name] != others[name]:
            if defaults[name] is None:
                raise Refusal(f"it has no attribute {name}, which means something else {_when(before, after)}")
            node.attributes[name] = ir.convenience.convert_attribute(name, _listed(defaults[name]))
        elif formal.required:
            raise Refusal(f"it has no attribute {name}, which is needed {_when(before, after)}")


def _fit_inputs(node: ir.Node, before: Schema, after: Schema) -> None:
    while node.inputs and node.inputs[-1] is None:
        node.resize_inputs(len(node.inputs) - 1)
    if len(node.inputs) > after.max_input:
        names = [formal.name for formal in before.inputs]
        extra = names[min(after.max_input, len(names) - 1)]
        raise Refusal(f"its input {extra} is not known {_when(before, after)}")
    for index, formal in enumerate(after.inputs):
        missing = index >= len(node.inputs) or node.inputs[index] is None
        if missing and formal.option == _REQUIRED:
            raise Refusal(f"it has no input {formal.name}, which is needed {_when(before, after)}")


def _fit_outputs(node: ir.Node, after: Schema) -> None:
    while len(node.outputs) > max(after.max_output, 1):
        last = node.outputs[-1]
        if last.uses() or last.is_graph_output():
            raise Refusal(f"it has no output {len(node.outputs)} at opset {after.since_version}")
        node.resize_outputs(len(node.outputs) - 1)


def _when(before: Schema, after: Schema) -> str:
    down = after.since_version < before.since_version
    return f"before opset {before.since_version}" if down else f"since opset {after.since_version}"


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _shown(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return "(that of the function)"
    text = repr(plain(attribute.value))
    return text if len(text) <= 40 else f"{text[:37]}..."
