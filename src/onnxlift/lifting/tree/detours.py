"""Find modules that the names of nodes go through, although the layers in them have another path.

    /net/conv1/Conv with conv1.weight, /net/relu1/Relu   ->   conv1, relu1
    /net/net.2/Conv with net.2.weight                    ->   net.2, as it is

This is `self.net = nn.Sequential(self.conv1, self.relu1, nn.Conv1d(...))`. PyTorch's older exporter calls a module, and
its weights, by the attribute that held it first. But the scopes of its nodes follow the calls, so they have a
`net.conv1` which is not in the model. The weights have the right key of the state dict.

A module is such a detour if, for each layer with weights that is called in it, one of two things holds. The weights lie
in the module around it, under the same path without this one step. Or the layer is an item of this module by its
number. A module with other layers of its own is no detour. Nor is it one if the layer is also called under the path of
its weights: two modules may share a layer that has the same name in both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import takewhile

from .gaps import Path


def find_detours(layers: Iterable[tuple[Path, Path]]) -> set[Path]:
    """Return the scopes of detours. Each layer is given by its scope and the owner of its weights."""
    pairs = [*layers]
    at_home = {owner for scope, owner in pairs if scope == owner}
    found: set[Path] = set()
    others: set[Path] = set()
    for scope, owner in pairs:
        detour = _detour(scope, owner) if owner not in at_home else None
        if detour is not None:
            found.add(detour)
        others.update(
            scope[:end]
            for end in range(1, len(scope) + 1)
            if scope[:end] != detour and not (scope == owner and scope[end : end + 1] and scope[end].isdigit())
        )
    return found - others


def _detour(scope: Path, owner: Path) -> Path | None:
    depth = len([*takewhile(lambda pair: pair[0] == pair[1], zip(scope, owner, strict=False))])
    return scope[: depth + 1] if depth < len(owner) and scope[depth + 1 :] == owner[depth:] else None


def without_detours(path: Path, detours: Collection[Path]) -> Path:
    """Return the path as the names of the weights have it."""
    for end in range(1, len(path)):
        if path[:end] in detours and not path[end].isdigit():
            return path[: end - 1] + path[end:]
    return path
