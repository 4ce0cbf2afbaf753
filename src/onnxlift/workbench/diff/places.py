"""Say where a node is: in which module, as far as names tell."""

from __future__ import annotations

import re

import onnx_ir as ir

from onnxlift.ir.origin.module_paths import LONGEST_NAME, told_module

from .view import Item, Side


def module_of_item(side: Side, item: Item) -> str:
    """Return the path of the module that a node is in; "" if nothing tells.

    PyTorch's exporters note it; others have it in the node's name (`net/conv1/Conv2D`) or in that of a weight."""
    told = told_module(item.node)
    if told is not None:
        return told
    name = item.node.name or ""
    if "/" in name and len(name) <= LONGEST_NAME:
        return ".".join(part for part in name.split("/")[:-1] if part)
    for value in item.operands:
        if value is not None and value.name and side.tensor(value) is not None:
            path = value.name.rpartition(".")[0]
            if path and re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", path) and len(path) <= LONGEST_NAME:
                return path
    return ""


def is_made_up_name(node: ir.Node) -> bool:
    """Tell whether the name of a node is its operator and a number, as nodes without a name get one by their order."""
    return bool(re.fullmatch(re.escape(node.op_type) + r"_\d+(_\d+)?", node.name or ""))
