"""Questions about one node: which operator it is, what its attributes say."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from .marks import DOMAIN

STANDARD_DOMAINS = ("", "ai.onnx")  # two names of the default domain


def is_standard(node: ir.Node, *op_types: str) -> bool:
    """Tell whether `node` is one of these operators of the default domain."""
    return node.op_type in op_types and node.domain in STANDARD_DOMAINS


def attribute(node: ir.Node, name: str, default: Any) -> Any:
    """Return the value of an attribute; None for a reference to one of a function, whose value is not known here."""
    found = node.attributes.get(name)
    if found is None:
        return default
    return None if found.is_ref() else found.value


def is_lifted(node: ir.Node, *kinds: str) -> bool:
    """Tell whether this is a lifted node of one of these kinds."""
    return node.domain == DOMAIN and node.op_type in kinds
