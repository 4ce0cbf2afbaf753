"""Questions about one node: which operator it is, what its attributes say.

The default domain has two spellings, "" and "ai.onnx". onnx-ir gives the domain of a node in the first one, always.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from .marks import DOMAIN


def plain_domain(domain: str) -> str:
    """Return the domain in its first spelling, as a key."""
    return "" if domain == "ai.onnx" else domain


def is_standard(node: ir.Node, *op_types: str) -> bool:
    """Tell whether `node` is one of these operators of the default domain."""
    return node.op_type in op_types and node.domain == ""


def attribute(node: ir.Node, name: str, default: Any) -> Any:
    """Return the value of an attribute; None for a reference to one of a function, whose value is not known here."""
    found = node.attributes.get(name)
    if found is None:
        return default
    return None if found.is_ref() else found.value


def is_lifted(node: ir.Node, *kinds: str) -> bool:
    """Tell whether this is a lifted node of one of these kinds."""
    return node.domain == DOMAIN and node.op_type in kinds
