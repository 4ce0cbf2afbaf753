"""Reduce a graph to the nodes that some of its outputs need, so that the rest is not run."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from onnx import AttributeProto, GraphProto, NodeProto


def keep_only(graph: GraphProto, names: Collection[str]) -> None:
    """Drop the outputs that are not among `names`, and the nodes that these do not need. The graph is sorted."""
    needed = set(names)
    nodes: list[NodeProto] = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(reads(node))
            nodes.append(node)
    kept = [output for output in graph.output if output.name in names]
    initialisers = [tensor for tensor in graph.initializer if tensor.name in needed]
    for field, rest in ((graph.node, nodes[::-1]), (graph.output, kept), (graph.initializer, initialisers)):
        copies = list(rest)
        del field[:]
        field.extend(copies)


def reads(node: NodeProto) -> Iterator[str]:
    """Yield the names that a node and its subgraphs read. Names that a subgraph defines itself do no harm."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield from each.input
        for graph in subgraphs(each):
            yield from (output.name for output in graph.output)
            waiting.extend(graph.node)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs that a node holds as attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs
