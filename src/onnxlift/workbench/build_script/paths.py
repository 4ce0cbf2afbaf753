"""The modules that nodes lie in, by what the exporter noted, and the classes of these."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.origin.metadata import CLASSES, NAME_SCOPES, string_list
from onnxlift.ir.origin.module_paths import told_module

DEEPEST = 40


def path_of(node: ir.Node) -> str:
    """Return the path of the module that a node lies in; "" if it is not told."""
    path = told_module(node) or ""
    return path if path.isprintable() and path.count(".") <= DEEPEST and len(path) <= 400 else ""


def class_of(node: ir.Node, path: str) -> str:
    """Return the class of the module `path` around a node; "" if it is not told."""
    names = string_list(node.metadata_props.get(NAME_SCOPES)) or []
    classes = string_list(node.metadata_props.get(CLASSES)) or []
    for name, found in zip(names, classes, strict=False):
        if name == path:
            return found.rpartition(".")[2]
    return ""


def steps(path: str) -> list[str]:
    """Return a path as steps; what counts belongs to the container before it: `layer.0` is one step."""
    found: list[str] = []
    for part in path.split(".") if path else []:
        if part.isdigit() and found:
            found[-1] = f"{found[-1]}.{part}"
        else:
            found.append(part)
    return found
