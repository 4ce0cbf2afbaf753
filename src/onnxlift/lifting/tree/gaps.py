"""Find modules that the names of nodes leave out, because nobody called them.

    /decoder/fc/MatMul             with  model.decoder.fc.weight              ->  model.decoder.fc
    /encoder/attention/q/MatMul    with  encoder.layers.0.attention.q.weight  ->  encoder.layers.0.attention.q
    /encoder/attention/q_1/MatMul  with  encoder.layers.1.attention.q.weight  ->  encoder.layers.1.attention.q

The first is `self.model.decoder(x)`, the others are `layer.forward(x)`. PyTorch's exporter writes the scopes of calls,
and adds a number to those that it takes for the same, while the names of weights have the whole path.

A scope is incomplete only if all layers below it agree. If they name several modules, these must be the items of one
list. Each call of the scope is a run of nodes in the order in which the model was traced. It belongs to the item whose
weights it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby, takewhile

Path = tuple[str, ...]
Gaps = dict[Path, list[Path]]


def find_gaps(layers: Iterable[tuple[Path, Path]]) -> Gaps:
    """Return the incomplete scopes, each with the modules that it may be in: `(encoder, attention)` -> [(encoder,
    layers, 0), (encoder, layers, 1)]. Each layer is given by its scope and the owner of its weights."""
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
    """Remove the number of a further call: `attention, q_1` -> attention, q."""
    return (*scope[:-1], re.sub(r"(?<=.)_\d+$", "", scope[-1])) if scope else scope


def _are_items(modules: Iterable[Path]) -> bool:
    """Tell whether this is one module, or several items of one list."""
    return len({tuple("#" if part.isdigit() else part for part in module) for module in modules}) == 1


def fill(scopes: Sequence[tuple[Path, Path | None]], gaps: Gaps) -> list[Path]:
    """Return the complete paths of nodes, which are given in the order of the graph, by scope and owner of the weights.

    A node without weights is in the module of the last node with weights before it. At the beginning of a call, it is
    in that of the first one after it.
    """
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
    """Return the outermost incomplete scope that `scope` is in."""
    for whole in (scope, _uncounted(scope)):
        for end in range(1, len(whole) + 1):
            if whole[:end] in gaps:
                return whole[:end]
    return None
