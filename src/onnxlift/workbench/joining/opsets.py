"""Give two models one opset for each domain: the newer one, if all operators still mean the same in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.graph.walk import all_nodes


@dataclass(frozen=True)
class Named:
    """A model with what a message calls it."""

    name: str
    model: ir.Model


def common_opsets(first: Named, second: Named) -> dict[str, int]:
    """Return the opsets of both models together. Raises an error that lists the operators that changed in between."""
    one, other = first.model.opset_imports, second.model.opset_imports
    found = {**one, **other}
    for domain in sorted(one.keys() & other.keys()):
        older, newer = sorted((first, second), key=lambda each: each.model.opset_imports[domain])
        found[domain] = newer.model.opset_imports[domain]
        changed = _changed(older.model, domain, found[domain])
        if changed:
            title = "" if not domain else f" of the domain {quote(domain)}"
            raise OnnxLiftError(
                f"{older.name} is of opset {older.model.opset_imports[domain]}{title}, {newer.name} of opset "
                f"{found[domain]}, and in between these operators have changed: {', '.join(changed)}. Bring them to "
                f"one opset first: onnxlift opset {found[domain]} {older.name} -o OUT."
            )
    return found


def _changed(model: ir.Model, domain: str, opset: int) -> list[str]:
    """Return the operators of the main graph that mean something else in another opset, or might."""
    own = model.opset_imports[domain]
    if own == opset:
        return []
    used = {
        node.op_type: None
        for node in all_nodes(model.graph)
        if node.domain == domain and node.op_identifier() not in model.functions
    }
    found: list[str] = []
    for operator in sorted(used):
        before, after = schema_for(domain, operator, own), schema_for(domain, operator, opset)
        if before is None or after is None or before.since_version != after.since_version:
            found.append(operator)
    return found


def pin_opsets(model: ir.Model) -> None:
    """Let every function say itself which opsets it is of, so that those of the model may change."""
    for function in model.functions.values():
        imports: Mapping[str, int] = {**model.opset_imports, **function.opset_imports}
        for domain in {node.domain for node in all_nodes(function.graph)}:
            if domain in imports:
                function.opset_imports[domain] = imports[domain]
