"""Schemas that onnx does not have: those of ONNX Runtime's own operators, and of operators that the user declares.

`microsoft.json` is written by tools/microsoft_schemas.py, from what ONNX Runtime registers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import onnx.defs
from onnx.defs import OpSchema

from onnxlift.ir.graph.schema import schema_for

from .state import MICROSOFT

_OPTIONS = OpSchema.FormalParameterOption

Formal = Sequence[Any]
"""A name, a type or a type variable, "Single", "Optional" or "Variadic", and whether several are of one type."""


@cache
def microsoft() -> Mapping[str, Any]:
    """Return what is known of ONNX Runtime's own operators, by name."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("microsoft.json").read_text(encoding="utf-8"))
    return found


@cache
def schema_in_force(domain: str, name: str, version: int) -> Any:
    """Return the schema of an operator at an opset; None if there is none."""
    told = microsoft().get(name) if domain == MICROSOFT else None
    if told is None:
        return schema_for(domain, name, version)
    kinds = OpSchema.AttrType
    return make_schema(
        domain,
        name,
        1,
        told["inputs"],
        told["outputs"],
        told["types"],
        [
            OpSchema.Attribute(key, getattr(kinds, kind), required=required)
            for key, (kind, required) in told["attributes"].items()
        ],
    )


def make_schema(
    domain: str,
    name: str,
    version: int,
    inputs: Iterable[Formal],
    outputs: Iterable[Formal],
    types: Mapping[str, Sequence[str]],
    attributes: Sequence[Any],
    doc: str = "",
) -> Any:
    """Return the schema of an operator that onnx does not have."""
    return OpSchema(
        name,
        domain,
        version,
        doc,
        inputs=[_formal(*each) for each in inputs],
        outputs=[_formal(*each) for each in outputs],
        type_constraints=[(variable, list(allowed), "") for variable, allowed in types.items()],
        attributes=list(attributes),
    )


def _formal(name: str, type_: str, option: str = "Single", homogeneous: bool = True) -> Any:
    return OpSchema.FormalParameter(
        name, type_, param_option=getattr(_OPTIONS, option), is_homogeneous=homogeneous, min_arity=1
    )


@cache
def operators_of(domain: str) -> Mapping[str, tuple[int, ...]]:
    """Return all operators of a domain by name, each with the opsets in which it came or changed."""
    if domain == MICROSOFT:
        return dict.fromkeys(microsoft(), (1,))
    found: dict[str, list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == domain:
            found.setdefault(schema.name, []).append(schema.since_version)
    return {name: tuple(sorted(versions)) for name, versions in sorted(found.items())}
