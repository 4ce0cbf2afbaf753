"""Questions about one node: its operator and its attributes.

The default domain has two spellings, "" and "ai.onnx". The domain of an onnx-ir node is always spelled "".
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from .marks import DOMAIN


def plain_domain(domain: str) -> str:
    """Return the domain with "ai.onnx" spelled as "", so that it can be a key."""
    return "" if domain == "ai.onnx" else domain


def is_standard(node: ir.Node, *op_types: str) -> bool:
    """Tell whether `node` is one of these operators of the default domain."""
    return node.op_type in op_types and node.domain == ""


def attribute(node: ir.Node, name: str, default: Any) -> Any:
    """Return the value of an attribute, or `default` if the node does not have it.

    None if it refers to an attribute of the function around it: the caller of the function gives its value."""
    found = node.attributes.get(name)
    if found is None:
        return default
    return None if found.is_ref() else found.value


def is_lifted(node: ir.Node, *kinds: str) -> bool:
    """Tell whether an idiom made `node`, and its operator is one of `kinds`."""
    return node.domain == DOMAIN and node.op_type in kinds
