"""Modules that the names of nodes leave out, because they are not called themselves.

    /decoder/fc/MatMul             with  model.decoder.fc.weight              ->  model.decoder.fc
    /encoder/attention/q/MatMul    with  encoder.layers.0.attention.q.weight  ->  encoder.layers.0.attention.q
    /encoder/attention/q_1/MatMul  with  encoder.layers.1.attention.q.weight  ->  encoder.layers.1.attention.q

The first is `self.model.decoder(x)`, the others `layer.forward(x)`: PyTorch's exporter writes the scopes of calls, and
counts those that it takes for one, while the names of weights have the whole path. All layers below a scope must agree
that it is incomplete. Where they name several modules, these are the items of one list, and each call of the scope,
which is a run of nodes in the order in which the model was traced, belongs to the item whose weights it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby, takewhile

Path = tuple[str, ...]
Gaps = dict[Path, list[Path]]


def find_gaps(layers: Iterable[tuple[Path, Path]]) -> Gaps:
    """`(encoder, attention)` -> [(encoder, layers, 0), (encoder, layers, 1)]: scopes that are incomplete, and the
    modules that they may be in, for layers of which the scope and the owner of the weights are given."""
    found: dict[Path, dict[Path, None]] = {}
    complete: set[Path] = set()
    for counted, owner in layers:
        scope = _uncounted(counted) if counted[-1:] != owner[-1:] else counted
        depth = len([*takewhile(lambda pair: pair[0] == pair[1], zip(scope, owner, strict=False))])
        missing = len(owner) - len(scope)
        if counted == owner:
            complete.update(scope[:end] for end in range(1, len(scope) + 1))
        elif missing > 0 and depth < len(scope) and scope[depth:] == owner[depth + missing :]:
            found.setdefault(scope[: depth + 1], {})[owner[: depth + missing]] = None
    return {scope: [*modules] for scope, modules in found.items() if scope not in complete and _are_items(modules)}


def _uncounted(scope: Path) -> Path:
    """`attention, q_1` -> attention, q"""
    return (*scope[:-1], re.sub(r"(?<=.)_\d+$", "", scope[-1])) if scope else scope


def _are_items(modules: Iterable[Path]) -> bool:
    """Whether this is one module, or these are some of one list."""
    return len({tuple("#" if part.isdigit() else part for part in module) for module in modules}) == 1


def fill(scopes: Sequence[tuple[Path, Path | None]], gaps: Gaps) -> list[Path]:
    """The complete paths of nodes in the order of the graph, of which the scope and the owner of the weights are given.
    A node without weights is where the node with weights before it is, or at the beginning of a call the one after."""
    filled: list[Path] = []
    for gap, run in groupby(scopes, key=lambda pair: _gap_of(pair[0], gaps)):
        call = [*run]
        modules = gaps[gap] if gap is not None else []
        owned = [next((m for m in modules if owner is not None and owner[: len(m)] == m), None) for _, owner in call]
        current = next((module for module in owned if module is not None), modules[0] if modules else ())
        for (scope, _), module in zip(call, owned, strict=True):
            current = module or current
            if gap is not None:
                number = modules.index(current)
                scope = scope if number == 0 or not scope[-1].endswith(f"_{number}") else _uncounted(scope)
                scope = (*current, *scope[len(gap) - 1 :])
            filled.append(scope)
    return filled


def _gap_of(scope: Path, gaps: Gaps) -> Path | None:
    """The incomplete scope that `scope` is in, of several the outermost."""
    for whole in (scope, _uncounted(scope)):
        for end in range(1, len(whole) + 1):
            if whole[:end] in gaps:
                return whole[:end]
    return None
