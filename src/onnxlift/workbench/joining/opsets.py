"""Give two models one opset for each domain: the newer one. Operators that mean something else in it are converted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.graph.walk import all_nodes

from ..opset.convert import NEWEST, convert_opsets


@dataclass(frozen=True)
class Named:
    """A model with what a message calls it."""

    name: str
    model: ir.Model


def align_opsets(first: Named, second: Named) -> tuple[dict[str, int], list[str]]:
    """Give both models the newer opset of each domain; return the opsets, and what was done to a model for that.

    Where operators have changed in between, the nodes of the older model are brought to the newer opset. Raises an
    error that lists those that cannot go."""
    one, other = first.model.opset_imports, second.model.opset_imports
    found = {**one, **other}
    notes: list[str] = []
    for domain in sorted(one.keys() & other.keys()):
        older, newer = sorted((first, second), key=lambda each: each.model.opset_imports[domain])
        before, found[domain] = older.model.opset_imports[domain], newer.model.opset_imports[domain]
        changed = _changed(older.model, domain, found[domain])
        if not changed:
            continue
        title = "" if not domain else f" of the domain {quote(domain)}"
        if domain not in NEWEST:
            raise OnnxLiftError(
                f"{older.name} is of opset {before}{title}, {newer.name} of opset {found[domain]}, and nobody but the "
                f"maker of the domain knows whether these operators have changed in between: {', '.join(changed)}. "
                "Export both with one version."
            )
        convert_opsets(older.model, {domain: found[domain]}, name=older.name)
        notes.append(f"{older.name} was brought from opset {before}{title} to {found[domain]}")
    return found, notes


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
