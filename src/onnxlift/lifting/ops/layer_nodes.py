"""Ask what a node is as a layer, by what its operator declares (see `kinds.py` and `registry.op`)."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from .kinds import Family, LayerKind
from .registry import Operator, find


def is_weighted(node: ir.Node) -> bool:
    """Tell whether the node's operator has weights as a layer does. The weights of this very node may be computed."""
    operator = _operator(node)
    return operator is not None and bool(operator.weights)


def weight_places(node: ir.Node) -> Mapping[int, str]:
    """Return the inputs that are weights of the node's operator, each with its name in PyTorch's function (empty if
    PyTorch has no such function)."""
    operator = _operator(node)
    return {} if operator is None else operator.weight_places(len(node.inputs))


def function_weights(node: ir.Node) -> Mapping[int, str]:
    """Return the same, but only for operators that PyTorch also has as a function: `F.conv2d(x, weight, bias)`. These
    work with weights that no layer holds."""
    places = weight_places(node)
    return places if all(places.values()) else {}


def kind_of(node: ir.Node) -> LayerKind | None:
    """Return the kind of layer that the node's operator lifts to. If it lifts to several similar kinds, return one of
    them."""
    operator = _operator(node)
    return None if operator is None else operator.kind


def family_of(node: ir.Node) -> Family:
    """Return the family of the layer that the node's operator lifts to."""
    kind = kind_of(node)
    return "other" if kind is None else kind.family


def is_activation(node: ir.Node) -> bool:
    """Tell whether the node is an activation, with or without weights."""
    return family_of(node) == "activation"


def _operator(node: ir.Node) -> Operator | None:
    return find(node.domain, node.op_type)
