"""Find what a name means in a draft: a node, a value, an attribute, a constant, or a graph.

A node is meant by its name, or by the name of a value that it computes. A value is meant by its name, or by the name of
a node that computes only one. The main graph goes before subgraphs and functions; `inside` says which of these is meant
(`If_3.then_branch`, `local::Twice`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import onnx

from onnxlift.errors import OnnxLiftError, quote

from ..values import suggestion
from .bodies import Body
from .edited import EditedModel

SEE = "`onnxlift inspect` shows the names"


class NodePlace(NamedTuple):
    """A node, and the body that it is in."""

    body: Body
    node: onnx.NodeProto


class ValuePlace(NamedTuple):
    """A value by its name, and the body that defines it."""

    body: Body
    name: str


def find_node(model: EditedModel, address: str, inside: str | None = None) -> NodePlace:
    """Return the node that is meant."""
    bodies = list(_bodies(model, inside))
    by_name = [NodePlace(body, node) for body in bodies for node in body.proto.node if node.name == address]
    by_output = [NodePlace(body, body.producers[address]) for body in bodies if address in body.producers]
    found = by_name or by_output
    if not found:
        known = [name for body in bodies for node in body.proto.node for name in (node.name, *node.output) if name]
        held = any(body.defines(address) for body in bodies)
        what = "is no node, but a value that no node computes" if held else "is the name of no node"
        raise OnnxLiftError(f"{quote(address)} {what}{_near(address, known)}")
    return found[_chosen([place.body for place in found], address, "node", inside)]


def find_value(model: EditedModel, address: str, inside: str | None = None) -> ValuePlace:
    """Return the value that is meant."""
    bodies = list(_bodies(model, inside))
    found = [ValuePlace(body, address) for body in bodies if body.defines(address)]
    if not found:
        nodes = [NodePlace(body, node) for body in bodies for node in body.proto.node if node.name == address]
        found = [ValuePlace(place.body, _only_output(place.node)) for place in nodes]
    if not found:
        known = [name for body in bodies for name in body.values()]
        raise OnnxLiftError(f"there is no value {quote(address)}{_near(address, known)}")
    return found[_chosen([place.body for place in found], address, "value", inside)]


def find_body(model: EditedModel, inside: str | None) -> Body:
    """Return the graph that is meant; the main graph if nothing is said."""
    if inside is None or inside == "":
        return model.main
    found = [body for body in model.bodies() if body.address == inside]
    if not found:
        known = [body.address for body in model.bodies() if body.address]
        raise OnnxLiftError(f"there is no graph {quote(inside)} in the model{suggestion(inside, known)}.")
    return found[0]


def find_attribute(model: EditedModel, node: str, attribute: str | None, inside: str | None) -> tuple[NodePlace, str]:
    """Return a node and the name of an attribute, which may stand behind the node's name: `conv1.pads`."""
    if attribute is not None:
        return find_node(model, node, inside), attribute
    name, dot, attribute = node.rpartition(".")
    if not dot or not name or not attribute:
        raise OnnxLiftError(f"{quote(node)} is not a node and an attribute, like conv1.pads.")
    return find_node(model, name, inside), attribute


def visible(model: EditedModel, body: Body, name: str) -> str:
    """Return the name of a value that nodes of `body` can read."""
    if body.scope_of(name) is not None:
        return name
    place = find_value(model, name)
    if body.scope_of(place.name) is place.body:
        return place.name  # it was meant by the name of its node
    raise OnnxLiftError(f"value {quote(name)} is in {place.body.title}, where {body.title} cannot read it.")


def input_index(
    node: onnx.NodeProto, which: int | str, formal: Callable[[str], int | None], names: Iterable[str]
) -> int:
    """Return the position of an input of a node: a number, or its name in the operator's definition."""
    if isinstance(which, int):
        if not 0 <= which < 10_000:
            raise OnnxLiftError(f"node {quote(node.name)} has no input number {which}: they are counted from 0.")
        return which
    index = formal(which)
    if index is None:
        raise OnnxLiftError(f"{node.op_type} has no input {quote(which)}{suggestion(which, list(names))}.")
    return index


def _bodies(model: EditedModel, inside: str | None) -> Iterable[Body]:
    return model.bodies() if inside is None else (find_body(model, inside),)


def _chosen(found: list[Body], address: str, what: str, inside: str | None) -> int:
    """Return the place of the only one, or of the one in the main graph; an error says where the others are."""
    main = [index for index, body in enumerate(found) if not body.address]
    if len(found) == 1 or len(main) == 1:
        return main[0] if main else 0
    places = [body.address for body in found[:5]]
    if len(set(places)) < len(places):
        raise OnnxLiftError(f"there are several {what}s named {quote(address)} in one graph: `lint --fix` mends that.")
    told = " or ".join(f"inside={quote(place)}" for place in places)
    raise OnnxLiftError(f"there are {len(found)} {what}s named {quote(address)}: say which one is meant by {told}.")


def _only_output(node: onnx.NodeProto) -> str:
    names = [name for name in node.output if name]
    if len(names) != 1:
        told = ", ".join(map(quote, names[:5])) or "none"
        raise OnnxLiftError(f"node {quote(node.name)} has not one output, but several: name the value. It has {told}.")
    return str(names[0])


def _near(address: str, known: list[str]) -> str:
    clause = suggestion(address, list(dict.fromkeys(known)))
    return f"{clause}. {SEE}."
