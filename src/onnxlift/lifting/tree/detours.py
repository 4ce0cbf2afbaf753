"""Modules that the names of nodes go through, although the layers in them are known by another path.

    /net/conv1/Conv with conv1.weight, /net/relu1/Relu   ->   conv1, relu1
    /net/net.2/Conv with net.2.weight                    ->   net.2, as it is

This is `self.net = nn.Sequential(self.conv1, self.relu1, nn.Conv1d(...))`. PyTorch's older exporter calls a module, and
its weights, by the attribute that held it first; but the scopes of its nodes are those of the calls, so that they speak
of a `net.conv1` which is not in the model. The weights have a key of the state dict.

It applies to a module if each layer with weights that is called in it has them in the module around it, under the same
path without this one step, or is an item of this module by its number. Not to one with other layers of its own, nor if
the layer is called under the path of its weights as well: two modules may share a layer that has the same name in both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import takewhile

from .gaps import Path


def find_detours(layers: Iterable[tuple[Path, Path]]) -> set[Path]:
    """The scopes of such modules, for layers of which the scope and the owner of the weights are given."""
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
    """The path as the weights' names have it."""
    for end in range(1, len(path)):
        if path[:end] in detours and not path[end].isdigit():
            return path[: end - 1] + path[end:]
    return path
