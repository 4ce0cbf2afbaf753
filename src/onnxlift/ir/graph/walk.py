"""Walk through a model by region: the main graph, the bodies of functions, and the subgraphs inside either."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True)
class Region:
    """A graph, the opset versions that are in force in it (a function's body has its own), and its depth of nesting.

    `function` is the function whose body it is, or is in; None in the main graph."""

    graph: ir.Graph
    opsets: Mapping[str, int]
    depth: int = 0
    function: ir.Function | None = None

    def opset(self, node: ir.Node) -> int:
        """Return the version of the opset that `node` is of."""
        return opset_of(node, self.opsets)


def opset_of(node: ir.Node, opsets: Mapping[str, int]) -> int:
    """Return the version of the opset that `node` is of.

    It is the node's own version, if it has one (from a function's body that was inlined), else the version that the
    region imports for its domain, else 1."""
    if node.version is not None:
        return node.version
    return opsets.get(node.domain, 1)


FLAT = "flat"  # the key in `graph.meta` that says: this graph has no subgraphs, and will never have any


def mark_flat(model: ir.Model) -> None:
    """Note it if the main graph has no subgraphs, so that `regions` need not look for them again and again.

    Call this when functions are inlined and operators expanded: no pass after that adds a node that holds a graph."""
    model.graph.meta.pop(FLAT, None)
    if not any(subgraphs(node) for node in model.graph if node.attributes.data):
        model.graph.meta[FLAT] = True


def regions(model: ir.Model) -> Iterator[Region]:
    """Yield every graph of the model, an outer one before those inside it: the main graph first, then each function."""
    yield from _within(model.graph, model.opset_imports)
    for function in model.functions.values():
        yield from _within(function.graph, {**model.opset_imports, **function.opset_imports}, function)


def subgraphs(node: ir.Node) -> list[ir.Graph]:
    """Return the graphs that `node` holds as attributes."""
    graphs: list[ir.Graph] = []
    for attribute in node.attributes.data.values():  # `data` for speed: iterating over the mapping itself is slow
        if attribute.type is ir.AttributeType.GRAPH and not attribute.is_ref():
            graphs.append(attribute.as_graph())
        elif attribute.type is ir.AttributeType.GRAPHS and not attribute.is_ref():
            graphs.extend(attribute.as_graphs())
    return graphs


def all_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield the nodes of `graph`, each followed by the nodes of its subgraphs, at any depth.

    (onnx-ir's own method fails on an attribute that refers to an attribute of the function around it.)"""
    # A stack rather than recursion: generators in generators hand each node through all depths.
    stack = [iter(graph)]
    while stack:
        for node in stack[-1]:
            yield node
            inner = subgraphs(node) if node.attributes.data else []
            if inner:
                stack.extend(iter(body) for body in reversed(inner))
                break
        else:
            stack.pop()


def inner_nodes(node: ir.Node) -> Iterator[ir.Node]:
    """Yield all nodes in the subgraphs of `node`, at any depth."""
    for graph in subgraphs(node):
        yield from all_nodes(graph)


def _within(graph: ir.Graph, opsets: Mapping[str, int], function: ir.Function | None = None) -> Iterator[Region]:
    # A stack rather than recursion: the depth comes from the model.
    stack = [Region(graph, opsets, function=function)]
    while stack:
        region = stack.pop()
        yield region
        if FLAT in region.graph.meta:
            continue
        # Most nodes have no attributes, and asking is cheaper than a call.
        inner = [
            Region(body, opsets, region.depth + 1, function)
            for node in region.graph
            if node.attributes.data
            for body in subgraphs(node)
        ]
        stack.extend(reversed(inner))
