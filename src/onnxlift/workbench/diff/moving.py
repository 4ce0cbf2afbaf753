"""Find the nodes that have moved: if one is thought away, the others read what they did before.

    Conv -> Relu -> Norm -> Gemm   is, with the Relu moved,   Conv -> Norm -> Relu -> Gemm

Three nodes read another value there. One move says it all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def moved_items(wrong: Mapping[Node, Sequence[tuple[Node, ...]]]) -> set[Node]:
    """Return the nodes that have moved.

    `wrong` has the nodes that read other values than before, and for each such value the nodes that made it in the one
    model and in the other. A node has moved if it reads other values itself and is, with that, the reason for at least
    two others. Those that explain most are taken first."""
    left = {(node, place): sources for node, found in wrong.items() for place, sources in enumerate(found)}
    by_source: dict[Node, set[tuple[Node, int]]] = {}
    for edge, sources in left.items():
        for node in {edge[0], *sources}:
            by_source.setdefault(node, set()).add(edge)
    scores = Counter({node: len(by_source[node]) for node in wrong})
    order = {node: place for place, node in enumerate(wrong)}
    moved: set[Node] = set()
    for node, _ in sorted(scores.items(), key=lambda each: (-each[1], order[each[0]])):
        explained = [edge for edge in by_source[node] if edge in left]
        own = [edge for edge in explained if edge[0] == node]
        if own and len(explained) - len(own) >= 2:
            moved.add(node)
            for edge in explained:
                del left[edge]
    return moved
