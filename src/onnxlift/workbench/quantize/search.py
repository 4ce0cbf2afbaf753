"""Find which nodes to keep in float so that the outputs are good enough, with few tries.

A product is kept or quantised together with what follows it up to the next product: between two nodes that are
quantised, one in float would win nothing. These groups are tried in the order of the noise that each adds by itself:
the first 1, 2, 4, ... of them are kept, then the number is bisected. Noise of one group may not reach the outputs at
all, so at the end some are given back: a group that is not needed is quantised after all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import onnx_ir as ir

MOST_GIVEN_BACK = 12

PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN", "Gather", "Einsum", "Attention"})

Reaches = Callable[[frozenset[str]], bool]
"""Tell whether the outputs are good enough if these groups are kept."""


def groups_of(graph: ir.Graph, names: Collection[str]) -> dict[str, list[str]]:
    """Return the nodes that are kept or quantised together, by the name of the first of each group."""
    groups: dict[str, list[str]] = {}
    leader: dict[ir.Node, str] = {}
    for node in graph:
        name = node.name or ""
        if name not in names:
            continue
        before = next((value.producer() for value in node.inputs if value is not None and value.producer()), None)
        follows = node.op_type not in PRODUCTS and before is not None and before in leader
        leader[node] = leader[before] if follows and before is not None else name
        groups.setdefault(leader[node], []).append(name)
    return groups


def find_kept(ranking: Sequence[str], reaches: Reaches) -> frozenset[str] | None:
    """Return the groups to keep, from a ranking with the noisiest first; None if that would have to be all of them."""
    enough = _first_enough(ranking, reaches)
    if enough is None:
        return None
    kept = set(ranking[:enough])
    for name in list(reversed(ranking[:enough]))[1 : MOST_GIVEN_BACK + 1]:
        # The last of the ranking is needed: without it, it was not enough.
        if reaches(frozenset(kept - {name})):
            kept.remove(name)
    return frozenset(kept)


def _first_enough(ranking: Sequence[str], reaches: Reaches) -> int | None:
    """Return the smallest number of groups from the front of the ranking that is enough; None if it is all."""
    low, high = 0, 1
    while high < len(ranking) and not reaches(frozenset(ranking[:high])):
        low, high = high, high * 2
    high = min(high, len(ranking))
    while high - low > 1:
        middle = (low + high) // 2
        if reaches(frozenset(ranking[:middle])):
            high = middle
        else:
            low = middle
    return None if high == len(ranking) else high
