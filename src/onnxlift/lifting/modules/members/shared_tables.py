"""Bring back an embedding that several modules use, and that its owner never calls.

    self.shared = nn.Embedding(50, 32)        and tied: self.encoder.embed_tokens.weight = self.shared.weight

Models with an encoder and a decoder make one table and hand it to both. Its owner computes nothing in the graph, so the
lifted owner would have no such layer. A checkpoint of the original, which has the key, would not load. Applies
1. to a table that is stored under the name of a module's parameter, if no layer of the model has this name;
2. to a table that two embeddings use, if PyTorch's list of parameters (`origin/exported.py`) has exactly one layer in
   the innermost module around both that is missing so far, and it has a weight and nothing else, like an embedding;
3. to a table that a single embedding uses, if that list has a layer called `shared` in a module around it.

The table is tied to the others (`ties.py`), so that no number is there twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import onnx_ir as ir

from onnxlift.ir.origin.exported import parameters_in_order
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.modules.module import Module, state_entries
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.paths import Path, owner_of_weight


def add_shared_tables(root: Module, model: ir.Model) -> int:
    """Give modules the tables that they hold and do not call; return how many."""
    changes = 0
    tables: dict[ir.Value, list[tuple[Path, Layer]]] = {}
    for path, layer in _embeddings(root):
        tables.setdefault(layer.weights["weight"].value, []).append((path, layer))
    known = {key for key, _ in state_entries(root)}
    lost = [name for name in parameters_in_order(model.graph) if name not in known]
    for value, uses in tables.items():
        paths = [path for path, _ in uses]
        owner = _owner(value) if value.name not in known else None
        owner = owner or (_lost_owner(paths, lost) if len(paths) > 1 else _called_shared(paths[0], lost))
        holder = _module_at(root, owner[:-1]) if owner else None
        if owner and holder is not None and holder.free(owner[-1:]) == owner[-1:]:
            layer = uses[0][1]
            shared = Layer(layer.kind, dict(layer.arguments), dict(layer.weights), layer.node)
            others = dict(holder.members)
            holder.members.clear()
            holder.add(owner[-1:], shared)
            holder.members.update(others)
            changes += 1
    return changes


def _embeddings(module: Module, path: Path = ()) -> Iterator[tuple[Path, Layer]]:
    for name, member in module.members.items():
        if isinstance(member, Module):
            yield from _embeddings(member, (*path, *name))
        elif isinstance(member, Layer) and member.kind.name == "Embedding":
            yield (*path, *name), member


def _owner(value: ir.Value) -> Path | None:
    """Return the owner by rule 1."""
    return (
        owner_of_weight(value) if (value.name or "").endswith(".weight") and not origin_of(value).is_nameless else None
    )


def _lost_owner(paths: list[Path], lost: list[str]) -> Path | None:
    """Return the owner by rule 2."""
    around = tuple(parts[0] for parts in takewhile(lambda parts: len({*parts}) == 1, zip(*paths, strict=False)))
    owners = [tuple(name.split(".")[:-1]) for name in lost]
    inside = [owner for owner in owners if owner[:-1] == around]
    names = [name.rpartition(".")[2] for name, owner in zip(lost, owners, strict=True) if owner[:-1] == around]
    return inside[0] if names == ["weight"] else None


def _called_shared(path: Path, lost: list[str]) -> Path | None:
    """Return the owner by rule 3."""
    around = [path[:depth] for depth in range(len(path))]
    return next(((*outer, "shared") for outer in around if ".".join((*outer, "shared.weight")) in lost), None)


def _module_at(root: Module, path: Path) -> Module | None:
    return next((module for module in root.walk() if module.path == path), None)
