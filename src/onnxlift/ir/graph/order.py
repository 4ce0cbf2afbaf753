"""Nodes before those that read their outputs.

A node that holds subgraphs also reads what these capture from outside. The order of a graph that is sorted already
does not change; otherwise each step takes the earliest node, in the file's order, that is ready.
"""

from __future__ import annotations

import heapq

import onnx_ir as ir

from onnxlift.errors import LoadError
from onnxlift.ir.reading.limits import quote

from .walk import subgraphs

Readers = dict[ir.Node, list[ir.Node]]
"""A node -> the nodes of the same graph that read its outputs."""


def sort_nodes(graph: ir.Graph) -> None:
    """Sort `graph` and its subgraphs, in place. Raises LoadError that names the nodes of a cycle, if there is one."""
    readers: dict[ir.Graph, Readers] = {}
    _collect(graph, {}, readers)
    for each, of_graph in readers.items():
        nodes = list(each)
        position = {node: index for index, node in enumerate(nodes)}
        if any(position[node] >= position[reader] for node, later in of_graph.items() for reader in later):
            each.extend(_sorted(nodes, position, of_graph))  # moves the nodes that it holds already


def _collect(graph: ir.Graph, holders: dict[ir.Graph, ir.Node], readers: dict[ir.Graph, Readers]) -> None:
    """Fill `readers`. `holders` has, for each graph around this one, its node that contains this one."""
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
    """The nodes of one cycle among `stuck`, each of which reads from another of them; at most ten are returned."""
    source = {reader: node for node in readers if node in stuck for reader in readers[node]}
    node = min(stuck, key=lambda each: each.name or "")
    visited: dict[ir.Node, None] = {}
    while node not in visited:
        visited[node] = None
        node = source[node]
    backwards = list(visited)[list(visited).index(node) :]
    return [node, *backwards[:0:-1], node][:10]
