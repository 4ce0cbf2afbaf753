"""Weights that are one: an embedding and the output head that shares its matrix.

A constant that two layers hold is tied if it is a matrix or larger, in the same layout in both. A vector is not:
exporters merge equal values, and two layers' zero biases are not one parameter. The tied tensor is stored once, under
the first of its names (exporters disagree on which to keep), and `tie_weights` of the root makes the other attributes
the same parameter.
"""

from __future__ import annotations

from collections.abc import Mapping

from .module import Entry


def find_ties(entries: Mapping[str, Entry]) -> dict[str, str]:
    """Key of the state dict -> the key whose tensor it shares."""
    owners: dict[tuple[int, tuple[int, ...]], list[str]] = {}
    for key, entry in entries.items():
        weight = entry.weight
        if entry.is_parameter and weight.transform is None and len(weight.shape) >= 2:
            owners.setdefault((id(weight.value), weight.shape), []).append(key)
    ties: dict[str, str] = {}
    for owner, *others in owners.values():
        ties.update((key, owner) for key in others)
    return ties
