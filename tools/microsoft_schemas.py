"""Write the schemas of ONNX Runtime's own operators, which onnx does not have, to src/onnxlift/build/microsoft.json.

python tools/microsoft_schemas.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from onnxruntime.capi import onnxruntime_pybind11_state as runtime

TARGET = Path(__file__).parent.parent / "src" / "onnxlift" / "build" / "microsoft.json"


def described() -> dict[str, Any]:
    """The schemas by operator: inputs, outputs, the types that their variables stand for, and attributes."""
    found = {}
    for schema in sorted(runtime.get_all_operator_schema(), key=lambda each: str(each.name)):
        if schema.domain == "com.microsoft":
            found[schema.name] = {
                "inputs": [_parameter(each) for each in schema.inputs],
                "outputs": [_parameter(each) for each in schema.outputs],
                "types": {each.type_param_str: sorted(each.allowed_type_strs) for each in schema.type_constraints},
                "attributes": {
                    name: [each.type.name, each.required] for name, each in sorted(schema.attributes.items())
                },
            }
    return found


def _parameter(formal: Any) -> list[Any]:
    return [formal.name, formal.typeStr, formal.option.name, formal.isHomogeneous]


if __name__ == "__main__":
    rows = (f"{json.dumps(name)}: {json.dumps(each)}" for name, each in described().items())
    TARGET.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
