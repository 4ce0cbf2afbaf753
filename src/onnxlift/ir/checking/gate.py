"""The gate: no pass reads a node that breaks a rule. All findings of a model come in one error.

What the schemas say of the nodes is checked on the built graph (`check_nodes`), and what needs types once inference has
found them (`check_types`). If the first finds anything, the second is asked as well, so that one message has it all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from onnxlift.errors import Finding, InvalidModelError
from onnxlift.ir.graph.walk import Region
from onnxlift.ir.inference.infer import infer

from .declared import Declared
from .form import RULES as FORM
from .rules.rule import Subject
from .rules.table import broken, rules

_INFERENCE = Declared(
    "OL099",
    "inference",
    "ONNX's own inference of the node does not fail. "
    "It speaks where no other rule has told more plainly what is wrong.",
)
INFERENCE = _INFERENCE.name
"""The rule that ONNX's own inference of a node does not fail. It speaks where none of ours has said it more plainly."""


def declared_rules() -> tuple[Declared, ...]:
    """Return every rule that a model must keep to pass the gate, in the order of their identifiers."""
    found = {each.name: each for each in (*FORM.values(), _INFERENCE)}
    for each in rules():
        told = found[each.name].summary + " " if each.name in found else ""
        found[each.name] = Declared(each.identifier, each.name, told + each.summary)
    return tuple(sorted(found.values(), key=lambda each: each.identifier))


def check_nodes(model: ir.Model) -> None:
    """Raise InvalidModelError if a node breaks a rule that can be told without types."""
    found = list(broken(model, typed=False))
    if found:
        told = {node for node, _ in found}
        found += _typed(model, infer(model, broken=told), told)
        raise InvalidModelError([finding for _, finding in found])


def check_types(model: ir.Model, refusals: Mapping[ir.Node, str]) -> None:
    """Raise InvalidModelError if a node of a model with inferred types breaks any other rule.

    `refusals` are the nodes that ONNX's own inference has refused, with its reason."""
    found = _typed(model, refusals)
    if found:
        raise InvalidModelError([finding for _, finding in found])


def _typed(
    model: ir.Model, refusals: Mapping[ir.Node, str], told: Collection[ir.Node] = ()
) -> list[tuple[ir.Node, Finding]]:
    found = list(broken(model, typed=True, told=told))
    told = {*told, *(node for node, _ in found)}
    region = Region(model.graph, model.opset_imports)
    for node, reason in refusals.items():
        if node not in told:
            place = Subject.of(model, region, node).place()
            found.append((node, Finding(INFERENCE, place, f"ONNX's own inference refuses it: {reason}.")))
    return found
