"""The modules around a node by the exporters' own scopes, as one path."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from .metadata import NAME_SCOPES, NO_MODULE, string_list
from .tensors import folded_from

_SCOPE_KEYS = ("pkg.torch.onnx.name_scopes", "namespace")

LONGEST_NAME = 1000  # of a node that tells of modules: it is a stranger's

_PARAMETRISED = ".parametrizations."

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
    if not name.startswith("/") or len(name) > LONGEST_NAME:
        return None
    path: Path = ()
    for component in name.split("/")[1:-1]:
        path = joined(path, tuple(component.split(".")))
    return ".".join(path)


def modules_with_modules(graph: ir.Graph) -> set[str]:
    """The modules with others below them, by the parameters of these; "" is the model."""
    found: set[str] = set()
    for value in graph.initializers.values():
        for name in (value.name or "", *folded_from(value)):
            module = name.partition(_PARAMETRISED)[0] if _PARAMETRISED in name else name.rpartition(".")[0]
            while module and (module := module.rpartition(".")[0]) not in found:
                found.add(module)
    return found


def reads_layer(module: str | None, layer: str, parents: Collection[str]) -> bool:
    """Whether code in `module` that has a weight of `layer` only reads it: it is another module, and no layer itself,
    since there are modules below it."""
    if module is None or module == layer:
        return False
    return module == "" or module in parents or layer.startswith(f"{module}.")


def module_of(node: ir.Node) -> str:
    """Return the module that the node belongs to, as far as the exporter tells, in its own spelling."""
    for key in _SCOPE_KEYS:
        if key in node.metadata_props:
            return node.metadata_props[key].rpartition(",")[0]
    return (node.name or "").rpartition("/")[0]
