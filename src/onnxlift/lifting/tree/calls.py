"""The calls of a module that is called several times.

    query, key, attend, norm, query, key, attend, norm   ->   [query, key, attend, norm], [query, key, attend, norm]

Exporters tell the module that a node belongs to, not the call of it: ALBERT's one layer has the nodes of its whole
depth, and the encoder of a Siamese network those for both images. Rules:
1. The weights tell how many calls there are: each is read that many times, or a multiple of it if a layer is called
   several times in one. The n-th call has the n-th readers.
2. What is computed from one call's layers belongs to this call; what comes before the layers belongs to the call that
   reads it. If several do, it is no part of them: exporters merge equal expressions (the masks of all calls).
3. What stands between the layers of two calls is the end of one or the beginning of the other: as much is the end as
   follows the layers of the last call.
4. All calls must have the same nodes. Whether they also compute the same is seen when they are lowered
   (`modules/repeated.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

import onnx_ir as ir

from .paths import LAYER_WEIGHTS, Path, owner_of, weights_of
from .reads import outer_reads


@dataclass
class Calls:
    """The nodes of each call, and those that several calls read, all in the order of execution."""

    calls: list[list[ir.Node]]
    shared: list[ir.Node]


def find_calls(nodes: Sequence[ir.Node], paths: Mapping[ir.Node, Path]) -> Calls | None:
    """The calls of a module with these nodes; None if there is but one, or if they cannot be told apart."""
    layers = _number_layers(nodes)
    if not layers:
        return None
    count = max(layers.values()) + 1
    number = _number_all(nodes, layers, count)
    if number is None:
        return None
    calls: list[list[ir.Node]] = [[] for _ in range(count)]
    for node in nodes:
        if node in number:
            calls[number[node]].append(node)
    kinds = [Counter((node.domain, node.op_type, paths.get(node)) for node in call) for call in calls]
    if any(kind != kinds[0] for kind in kinds):
        return None
    return Calls(calls, [node for node in nodes if node not in number])


def _number_layers(nodes: Iterable[ir.Node]) -> dict[ir.Node, int]:
    """Rule 1: in which call each of the nodes that hold weights is; nothing if there are no several calls."""
    readers: dict[tuple[object, ...], list[ir.Node]] = {}
    for node in nodes:
        weights = [v for v in weights_of(node) if node.op_type in LAYER_WEIGHTS or owner_of(v.name) is not None]
        if weights:
            readers.setdefault((node.op_type, *weights), []).append(node)
    count = gcd(*map(len, readers.values()))
    if count < 2:
        return {}
    return {n: index * count // len(group) for group in readers.values() for index, n in enumerate(group)}


def _number_all(nodes: Sequence[ir.Node], layers: Mapping[ir.Node, int], count: int) -> dict[ir.Node, int] | None:
    """Rules 2 and 3: the call of each node, but for those that several calls read; None if there is no telling."""
    earliest: dict[ir.Node, int] = {}  # of what is computed from layers: the last call that they are in
    readers: dict[ir.Node, list[ir.Node]] = {}
    inside = set(nodes)
    for node in nodes:
        sources = [p for v in outer_reads(node) if (p := v.producer()) is not None and p in inside]
        for source in sources:
            readers.setdefault(source, []).append(node)
        after = [earliest[source] for source in sources if source in earliest]
        if node in layers or after:
            earliest[node] = layers.get(node, max(after, default=0))
        if any(call > earliest[node] for call in after):
            return None
    latest: dict[ir.Node, int] = {}  # of what layers are computed from: the first call that they are in
    number: dict[ir.Node, int] = {}
    between: list[list[ir.Node]] = [[] for _ in range(count)]
    ends = begins = 0
    for node in reversed(nodes):
        calls = {latest[reader] for reader in readers.get(node, ()) if reader in latest}
        if node in layers:
            number[node] = latest[node] = layers[node]
        elif calls and (node in earliest or len(calls) == 1):
            latest[node] = min(calls)
            begins += node not in earliest and latest[node] == 0
        if node in earliest and latest.get(node, earliest[node]) == earliest[node]:
            number[node] = earliest[node]
            ends += node not in latest and earliest[node] == count - 1
        elif node in earliest:
            between[earliest[node]].append(node)
    for call, following in enumerate(between):
        for place, node in enumerate(reversed(following)):
            number[node] = call if not begins or place < ends else latest[node]
    for node in reversed(nodes):
        if node not in earliest:
            read_in = {number.get(reader) for reader in readers.get(node, ())}
            call_of_all = read_in.pop() if len(read_in) == 1 else None
            if call_of_all is not None:
                number[node] = call_of_all
    return number
