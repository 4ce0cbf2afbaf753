"""Find weights that are one: an embedding and the output head that shares its matrix, a block that two modules hold.

    self.head.weight = self.embed.weight

1. A constant that two layers hold is tied if it is a matrix or larger, in the same layout in both. A vector is not:
   exporters merge equal values, and two layers' zero biases are not one parameter.
2. A matrix that linear layers hold as its transpose is tied, too: the exporters fold the transpose into a constant, and
   the older exporter makes one constant for each layer. Several constants with the same numbers are not tied if some
   are matrices of the same member in different blocks of a list, or if the layers' biases are two parameters with the
   same numbers: these are copies, as they are before training. They are not tied either if all numbers are the same.
3. A matrix that layers hold in yet another layout is tied if these layers have all their weights in common.
4. If all matrices of two modules are tied, each to the one of the same name, then the vectors that both modules have
   are tied, too: the biases and norms of a block that several modules hold.

The tied tensor is stored once, under the first of its names (exporters disagree on which to keep). `tie_weights` of the
root makes the other attributes the same parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from onnxlift.ir.graph.constants import stored_tensor
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.modules.module import Entry
from onnxlift.lifting.ops.layers import turned
from onnxlift.lifting.tree.paths import Path


def find_ties(entries: Mapping[str, Entry]) -> dict[str, str]:
    """Return the keys of the state dict that share a tensor with an earlier key, each with that key."""
    matrices: dict[tuple[object, ...], list[str]] = {}
    vectors: dict[ir.Value, list[str]] = {}
    for key, entry in entries.items():
        if entry.is_parameter and len(entry.weight.shape) >= 2:
            matrices.setdefault(_matrix(key, entry), []).append(key)
        elif entry.is_parameter:
            vectors.setdefault(entry.weight.value, []).append(key)
    ties: dict[str, str] = {}
    for keys in matrices.values():
        ties.update((key, keys[0]) for key in _tied(keys, entries))
    if ties:
        inside = _matrices_of_modules(key for keys in matrices.values() for key in keys)
        for owner, *others in vectors.values():
            ties.update((key, owner) for key in others if _are_of_one_module(key, owner, inside, ties))
    return {key: ties[key] for key in entries if key in ties}


def _matrix(key: str, entry: Entry) -> tuple[object, ...]:
    """Return a key that is equal for matrices that may be one: those with the same numbers in the same layout."""
    weight = entry.weight
    if weight.transform is None:
        return weight.value, weight.shape
    if weight.transform is not turned:
        return weight.value, weight.shape, entry.layer, key.rpartition(".")[2]
    stored = stored_tensor(weight.value) if origin_of(weight.value).has_made_up_name else weight.value
    return stored, weight.shape, turned


def _tied(keys: Sequence[str], entries: Mapping[str, Entry]) -> Sequence[str]:
    """Return the keys, among those of equal matrices, that are tied to the first one."""
    owner, *others = keys
    weight = entries[owner].weight
    if weight.transform is None or all(entries[key].weight.value is weight.value for key in others):
        return others
    numbers = weight.array()
    if (numbers == numbers.flat[0]).all() or len({*map(_in_any_block, keys)}) < len(keys):
        return []
    return [key for key in others if not _have_equal_biases(key, owner, entries)]


def _in_any_block(key: str) -> Path:
    """Return a path that is the same for `layers.0.fc.weight` and `layers.1.fc.weight`."""
    return tuple("0" if part.isdigit() else part for part in key.split("."))


def _have_equal_biases(key: str, other: str, entries: Mapping[str, Entry]) -> bool:
    """Tell whether the biases beside two matrices are two parameters with the same numbers, and not by chance."""
    mine, theirs = (entries.get(f"{name.rpartition('.')[0]}.bias") for name in (key, other))
    if mine is None or theirs is None or stored_tensor(mine.weight.value) is not stored_tensor(theirs.weight.value):
        return False
    numbers = mine.weight.array()
    return bool((numbers != numbers.flat[:1]).any())


def _matrices_of_modules(keys: Iterable[str]) -> dict[Path, list[Path]]:
    """Return the paths of all matrices in each module."""
    inside: dict[Path, list[Path]] = {}
    for key in keys:
        path = tuple(key.split("."))
        for depth in range(len(path)):
            inside.setdefault(path[:depth], []).append(path)
    return inside


def _are_of_one_module(key: str, owner: str, inside: Mapping[Path, list[Path]], ties: Mapping[str, str]) -> bool:
    """Tell by rule 4 whether the innermost module around a vector that holds matrices is tied to that of the owner."""
    path, other = tuple(key.split(".")), tuple(owner.split("."))
    for depth in range(1, min(len(path), len(other)) + 1):
        if path[-depth:] != other[-depth:]:
            return False
        module, counterpart = path[:-depth], other[:-depth]
        if module in inside:
            tied = ((".".join(m), ".".join((*counterpart, *m[len(module) :]))) for m in inside[module])
            return all(ties.get(matrix) == expected for matrix, expected in tied)
    return False
