"""Walking a model by region: the main graph, the bodies of functions, and the subgraphs inside either."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True)
class Region:
    """A graph, and the opset versions that are in force in it (a function body has its own)."""

    graph: ir.Graph
    opsets: Mapping[str, int]
    depth: int = 0

    def opset(self, node: ir.Node) -> int:
        """The version of the operator set that `node` is of."""
        return opset_of(node, self.opsets)


def opset_of(node: ir.Node, opsets: Mapping[str, int]) -> int:
    """The version of the operator set that `node` is of: its own where a function's body has brought one along, else
    that of the graph around it; 1 where none is imported."""
    if node.version is not None:
        return node.version
    return opsets.get(node.domain, 1)


FLAT = "flat"  # the key in `graph.meta` of a graph that is known to have no graphs inside, and never will


def mark_flat(model: ir.Model) -> None:
    """Note whether the main graph has no subgraphs, so that `regions` need not look for them again and again. For when
    functions are inlined and operators expanded: no pass after that adds a node that holds a graph."""
    model.graph.meta.pop(FLAT, None)
    if not any(subgraphs(node) for node in model.graph if node.attributes.data):
        model.graph.meta[FLAT] = True


def regions(model: ir.Model) -> Iterator[Region]:
    """Every graph of the model, an outer one before those inside it: the main graph first, then each function."""
    yield from _within(model.graph, model.opset_imports)
    for function in model.functions.values():
        yield from _within(function.graph, {**model.opset_imports, **function.opset_imports})


def subgraphs(node: ir.Node) -> list[ir.Graph]:
    """The graphs that `node` holds as attributes."""
    graphs: list[ir.Graph] = []
    for attribute in node.attributes.data.values():  # `data`: the mapping's own iteration is slow, and this is hot
        if attribute.type is ir.AttributeType.GRAPH and not attribute.is_ref():
            graphs.append(attribute.as_graph())
        elif attribute.type is ir.AttributeType.GRAPHS and not attribute.is_ref():
            graphs.extend(attribute.as_graphs())
    return graphs


def all_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """Go through the nodes of `graph`, each followed by those inside it, at any depth. (onnx-ir's own method does not
    expect an attribute that refers to a graph which the caller of a function gives.)"""
    for node in graph:
        yield node
        if node.attributes.data:
            yield from inner_nodes(node)


def inner_nodes(node: ir.Node) -> Iterator[ir.Node]:
    """Go through all nodes in the graphs that `node` holds, at any depth."""
    for graph in subgraphs(node):
        yield from all_nodes(graph)


def _within(graph: ir.Graph, opsets: Mapping[str, int]) -> Iterator[Region]:
    # A stack rather than recursion: the depth comes from the model.
    stack = [Region(graph, opsets)]
    while stack:
        region = stack.pop()
        yield region
        if FLAT in region.graph.meta:
            continue
        # Most nodes have no attributes, and asking is cheaper than a call.
        inner = [
            Region(body, opsets, region.depth + 1)
            for node in region.graph
            if node.attributes.data
            for body in subgraphs(node)
        ]
        stack.extend(reversed(inner))
