"""What an operator function takes for granted, the rules of a valid model grant."""

from __future__ import annotations

import inspect

import onnx.defs

from onnxlift.ir.checking.rules.attributes import required_attributes
from onnxlift.lifting.ops import registry


def test_an_attribute_without_a_default_is_optional_or_required() -> None:
    """Many schemas call an attribute optional and give no default, so that a function gets None for it."""
    schemas = onnx.defs.get_all_schemas_with_history()
    missing = []
    for operator in registry.operators():
        needed = {
            **operator.attributes,
            **{each.name: each for each in operator.inputs},  # attributes of an earlier opset
        }
        for schema in schemas:
            if (schema.domain, schema.name) != (operator.domain, operator.op_type):
                continue
            granted = required_attributes(schema)
            missing += [
                (schema.name, schema.since_version, name)
                for name, attribute in schema.attributes.items()
                if name in needed and name not in granted and not attribute.default_value.name
                if needed[name].default is inspect.Parameter.empty and "None" not in str(needed[name].annotation)
            ]
    assert missing == []
