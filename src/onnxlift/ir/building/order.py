"""Sort the nodes, so that each comes before the nodes that read its outputs.

A node that holds subgraphs also reads the outer values that these use. A graph that is sorted already keeps its order.
In others, the next node is always the first in the file's order whose inputs are all computed.
"""

from __future__ import annotations

import heapq

import onnx_ir as ir

from onnxlift.errors import LoadError, quote
from onnxlift.ir.graph.walk import subgraphs
from onnxlift.ir.reading.draft import Draft
from onnxlift.stages import step

Readers = dict[ir.Node, list[ir.Node]]
"""A node -> the nodes of the same graph that read its outputs."""


@step("order", optional=False, after={"graph": "it sorts the nodes of the built graph"})
def run(draft: Draft) -> int:
    """Sort the main graph and the functions; return the number of graphs that were out of order."""
    assert draft.model is not None
    functions = (function.graph for function in draft.model.functions.values())
    return sum(sort_nodes(graph) for graph in (draft.model.graph, *functions))


def sort_nodes(graph: ir.Graph) -> int:
    """Sort `graph` and its subgraphs in place; return how many were out of order.

    If there is a cycle, raises a LoadError that names its nodes."""
    changes = 0
    readers: dict[ir.Graph, Readers] = {}
    _collect(graph, {}, readers)
    for each, of_graph in readers.items():
        nodes = list(each)
        position = {node: index for index, node in enumerate(nodes)}
        if any(position[node] >= position[reader] for node, later in of_graph.items() for reader in later):
            each.extend(_sorted(nodes, position, of_graph))  # moves the nodes that it holds already
            changes += 1
    return changes


def _collect(graph: ir.Graph, holders: dict[ir.Graph, ir.Node], readers: dict[ir.Graph, Readers]) -> None:
    """Fill `readers` for `graph` and its subgraphs.

    `holders` says, for each graph around this one, which of its nodes contains this one."""
    readers[graph] = {}
    for node in graph:
        holders[graph] = node
        for value in node.inputs:
            producer = None if value is None else value.producer()
            if producer is not None and producer.graph in holders:
                readers[producer.graph].setdefault(producer, []).append(holders[producer.graph])
        for subgraph in subgraphs(node):
            _collect(subgraph, holders, readers)
    holders.pop(graph, None)


def _sorted(nodes: list[ir.Node], position: dict[ir.Node, int], readers: Readers) -> list[ir.Node]:
    waiting = dict.fromkeys(nodes, 0)
    for later in readers.values():
        for reader in later:
            waiting[reader] += 1
    ready = [position[node] for node in nodes if not waiting[node]]
    heapq.heapify(ready)
    done: list[ir.Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        done.append(node)
        for reader in readers.get(node, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, position[reader])
    if len(done) < len(nodes):
        cycle = " -> ".join(
            quote(node.name or "") for node in _cycle({node for node in nodes if waiting[node]}, readers)
        )
        raise LoadError(f"nodes wait for each other's outputs in a circle, so that none can run first: {cycle}.")
    return done


def _cycle(stuck: set[ir.Node], readers: Readers) -> list[ir.Node]:
    """Return the nodes of one cycle, at most ten. Each node in `stuck` reads from another one in `stuck`."""
    source = {reader: node for node in readers if node in stuck for reader in readers[node]}
    node = min(stuck, key=lambda each: each.name or "")
    visited: dict[ir.Node, None] = {}
    while node not in visited:
        visited[node] = None
        node = source[node]
    backwards = list(visited)[list(visited).index(node) :]
    return [node, *backwards[:0:-1], node][:10]
