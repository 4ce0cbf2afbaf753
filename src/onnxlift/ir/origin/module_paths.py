"""Find the module path of a node from the name scopes that exporters note."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from .metadata import NAME_SCOPES, NO_MODULE, string_list
from .tensors import folded_from

_SCOPE_KEYS = ("pkg.torch.onnx.name_scopes", "namespace")

LONGEST_NAME = 1000  # characters of a node's name in which we look for modules; a longer one is not taken apart

_PARAMETRISED = ".parametrizations."

Path = tuple[str, ...]


def joined(path: Path, parts: Path) -> Path:
    """Append `parts` to `path`, without the parts that both share: `layer1` and `layer1.0` give `layer1.0`.

    A name scope repeats the names of the containers that it lies in."""
    for overlap in range(min(len(path), len(parts) - 1), 0, -1):
        if path[-overlap:] == parts[:overlap]:
            return path + parts[overlap:]
    return path + parts


def told_module(node: ir.Node) -> str | None:
    """Return the path of the module that a node is in, as PyTorch's exporters note it; "" is the whole model.

    None if the node has no such note."""
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
    """Return the paths of all modules that have modules with parameters below them; "" is the whole model.

    `encoder.layer.weight` shows that `encoder` is one, and "" as well."""
    found: set[str] = set()
    for value in graph.initializers.values():
        for name in (value.name or "", *folded_from(value)):
            module = name.partition(_PARAMETRISED)[0] if _PARAMETRISED in name else name.rpartition(".")[0]
            while module and (module := module.rpartition(".")[0]) not in found:
                found.add(module)
    return found


def reads_layer(module: str | None, layer: str, parents: Collection[str]) -> bool:
    """Tell whether a node in `module` that has a weight of `layer` only reads that weight, and is not the layer's own.

    That is so if `module` is another module and no layer: it is one of `parents`, which have modules below them, or the
    layer lies in it. False if `module` is None."""
    if module is None or module == layer:
        return False
    return module == "" or module in parents or layer.startswith(f"{module}.")


def module_of(node: ir.Node) -> str:
    """Return the module that the node belongs to, in the exporter's own spelling; "" if it does not tell.

    The spelling differs between exporters: use it to tell modules apart, not as a path."""
    for key in _SCOPE_KEYS:
        if key in node.metadata_props:
            return node.metadata_props[key].rpartition(",")[0]
    return (node.name or "").rpartition("/")[0]
