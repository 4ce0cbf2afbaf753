"""Divide the nodes of a module that is called several times among its calls.

    query, key, attend, norm, query, key, attend, norm   ->   [query, key, attend, norm], [query, key, attend, norm]

Exporters tell the module that a node belongs to, but not the call: ALBERT's one layer has the nodes of its whole depth,
and the encoder of a Siamese network has those for both images. Rules:
1. The weights tell how many calls there are. Each weight is read that many times, or a multiple of it if a layer is
   called several times in one call. The n-th call has the n-th readers.
2. A node that is computed from one call's layers belongs to this call. A node before the layers belongs to the call
   that reads it. If several calls read it, it belongs to none of them: exporters merge equal expressions (the masks of
   all calls).
3. A node between the layers of two calls is part of the end of one or of the beginning of the other. The end has as
   many nodes as follow the layers of the last call.
4. All calls must have the same nodes. Lowering finds out later whether they also compute the same
   (`modules/repeated.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

import onnx_ir as ir

from onnxlift.lifting.ops.layer_nodes import is_weighted

from .paths import Path, owner_of_weight, weights_of
from .reads import outer_reads


@dataclass
class Calls:
    """The nodes of each call, and the nodes that several calls read, all in the order of execution."""

    calls: list[list[ir.Node]]
    shared: list[ir.Node]


def find_calls(nodes: Sequence[ir.Node], paths: Mapping[ir.Node, Path]) -> Calls | None:
    """Return the calls of a module with these nodes; None if there is only one, or if they cannot be told apart."""
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
    """Return the call of each node that holds weights, by rule 1; nothing if there is only one call."""
    readers: dict[tuple[object, ...], list[ir.Node]] = {}
    for node in nodes:
        weights = [v for v in weights_of(node) if is_weighted(node) or owner_of_weight(v) is not None]
        if weights:
            readers.setdefault((node.op_type, *weights), []).append(node)
    count = gcd(*map(len, readers.values()))
    if count < 2:
        return {}
    return {n: index * count // len(group) for group in readers.values() for index, n in enumerate(group)}


def _number_all(nodes: Sequence[ir.Node], layers: Mapping[ir.Node, int], count: int) -> dict[ir.Node, int] | None:
    """Return the call of each node by rules 2 and 3. Nodes that several calls read are left out.

    Return None if the calls cannot be told apart, because a layer is computed from layers of a later call.
    """
    sources = _sources(nodes)
    readers: dict[ir.Node, list[ir.Node]] = {}
    for node, read in sources.items():
        for source in read:
            readers.setdefault(source, []).append(node)
    before = _last_call_before(nodes, layers, sources)
    if before is None:
        return None
    after = _first_call_after(nodes, layers, readers, before)
    number = {node: call for node, call in before.items() if after.get(node, call) == call}
    _number_between(before, after, number, count)
    for node in reversed(nodes):
        if node not in before:
            read_in = {number.get(reader) for reader in readers.get(node, ())}
            call = read_in.pop() if len(read_in) == 1 else None
            if call is not None:
                number[node] = call
    return number


def _sources(nodes: Sequence[ir.Node]) -> dict[ir.Node, list[ir.Node]]:
    """Return, for each node, the nodes among these that it reads from."""
    inside = set(nodes)
    return {n: [p for v in outer_reads(n) if (p := v.producer()) is not None and p in inside] for n in nodes}


def _last_call_before(
    nodes: Sequence[ir.Node], layers: Mapping[ir.Node, int], sources: Mapping[ir.Node, Sequence[ir.Node]]
) -> dict[ir.Node, int] | None:
    """Return the call of each layer, and for each node computed from layers the last call that those layers are in.

    Return None if a layer is computed from one of a later call.
    """
    found: dict[ir.Node, int] = {}
    for node in nodes:
        calls = [found[source] for source in sources[node] if source in found]
        if node in layers or calls:
            found[node] = layers.get(node, max(calls, default=0))
        if any(call > found[node] for call in calls):
            return None
    return found


def _first_call_after(
    nodes: Sequence[ir.Node],
    layers: Mapping[ir.Node, int],
    readers: Mapping[ir.Node, Sequence[ir.Node]],
    before: Mapping[ir.Node, int],
) -> dict[ir.Node, int]:
    """Return the call of each layer, and for each node that layers are computed from the first call that those layers
    are in.

    A node that comes before all layers and is read in several calls is left out.
    """
    found: dict[ir.Node, int] = {}
    for node in reversed(nodes):
        calls = {found[reader] for reader in readers.get(node, ()) if reader in found}
        if node in layers:
            found[node] = layers[node]
        elif calls and (node in before or len(calls) == 1):
            found[node] = min(calls)
    return found


def _number_between(
    before: Mapping[ir.Node, int], after: Mapping[ir.Node, int], number: dict[ir.Node, int], count: int
) -> None:
    """Add the nodes between the layers of two calls to `number`, by rule 3."""
    starts = sum(call == 0 for node, call in after.items() if node not in before)
    ends = sum(call == count - 1 for node, call in before.items() if node not in after)
    between: list[list[ir.Node]] = [[] for _ in range(count)]
    for node, call in before.items():
        if node not in number:
            between[call].append(node)
    for call, following in enumerate(between):
        for place, node in enumerate(following):
            number[node] = call if not starts or place < ends else after[node]
