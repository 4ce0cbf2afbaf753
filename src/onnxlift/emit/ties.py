"""Weights that are one: an embedding and the output head that shares its matrix, a block that two modules hold.

    self.head.weight = self.embed.weight

1. A constant that two layers hold is tied if it is a matrix or larger, in the same layout in both. A vector is not:
   exporters merge equal values, and two layers' zero biases are not one parameter.
2. A matrix that layers store in another layout than the model is tied if these have all their weights in common. Not if
   they are one member of different blocks of a list: these are copies of one block, as they are before training.
3. If all matrices of two modules are tied, each to the one of the same name, then so are the vectors that the modules
   have in common: the biases and norms of a block that several modules hold.

The tied tensor is stored once, under the first of its names (exporters disagree on which to keep), and `tie_weights` of
the root makes the other attributes the same parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..tree.scopes import Path
from .module import Entry


def find_ties(entries: Mapping[str, Entry]) -> dict[str, str]:
    """Key of the state dict -> the key whose tensor it shares."""
    matrices: dict[tuple[object, ...], list[str]] = {}
    vectors: dict[int, list[str]] = {}
    for key, entry in entries.items():
        weight = entry.weight
        if entry.is_parameter and len(weight.shape) >= 2:
            layout = None if weight.transform is None else (entry.layer, key.rpartition(".")[2])
            matrices.setdefault((id(weight.value), weight.shape, layout), []).append(key)
        elif entry.is_parameter:
            vectors.setdefault(id(weight.value), []).append(key)
    ties: dict[str, str] = {}
    for owner, *others in matrices.values():
        is_as_stored = entries[owner].weight.transform is None
        ties.update((key, owner) for key in others if is_as_stored or not _are_copies(key, owner))
    if ties:
        inside = _matrices_of_modules(key for keys in matrices.values() for key in keys)
        for owner, *others in vectors.values():
            ties.update((key, owner) for key in others if _are_of_one_module(key, owner, inside, ties))
    return {key: ties[key] for key in entries if key in ties}


def _are_copies(key: str, other: str) -> bool:
    """`layers.0.fc.weight` and `layers.1.fc.weight`: whether the numbers of lists are all that differs."""
    parts, others = key.split("."), other.split(".")
    differing = [(a, b) for a, b in zip(parts, others, strict=False) if a != b]
    return len(parts) == len(others) and all(a.isdigit() and b.isdigit() for a, b in differing)


def _matrices_of_modules(keys: Iterable[str]) -> dict[Path, list[Path]]:
    """The paths of all matrices in each module."""
    inside: dict[Path, list[Path]] = {}
    for key in keys:
        path = tuple(key.split("."))
        for depth in range(len(path)):
            inside.setdefault(path[:depth], []).append(path)
    return inside


def _are_of_one_module(key: str, owner: str, inside: Mapping[Path, list[Path]], ties: Mapping[str, str]) -> bool:
    """Rule 3, for a vector: whether the innermost module that holds it and matrices is tied to the owner's."""
    path, other = tuple(key.split(".")), tuple(owner.split("."))
    for depth in range(1, min(len(path), len(other)) + 1):
        if path[-depth:] != other[-depth:]:
            return False
        module, counterpart = path[:-depth], other[:-depth]
        if module in inside:
            tied = ((".".join(m), ".".join((*counterpart, *m[len(module) :]))) for m in inside[module])
            return all(ties.get(matrix) == expected for matrix, expected in tied)
    return False
