"""The modules around a node by the exporters' own scopes, as one path."""

from __future__ import annotations

import onnx_ir as ir

from .metadata import NAME_SCOPES, NO_MODULE, string_list

Path = tuple[str, ...]


def joined(path: Path, parts: Path) -> Path:
    """`layer1` + `layer1.0` -> layer1, 0: a scope repeats the names of the containers that it lies in."""
    for overlap in range(min(len(path), len(parts) - 1), 0, -1):
        if path[-overlap:] == parts[:overlap]:
            return path + parts[overlap:]
    return path + parts


def told_module(node: ir.Node) -> str | None:
    """The module of PyTorch's that a node is in, by its name in the state dict ("" is the model); None if no exporter
    of PyTorch tells."""
    scopes = string_list(node.metadata_props.get(NAME_SCOPES))
    if scopes and scopes[0] != NO_MODULE:
        return scopes[-2] if len(scopes) > 1 else ""  # the last one is the operation itself
    name = node.name or ""
    if not name.startswith("/"):
        return None
    path: Path = ()
    for component in name.split("/")[1:-1]:
        path = joined(path, tuple(component.split(".")))
    return ".".join(path)
