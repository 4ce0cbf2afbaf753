"""Walk through the graphs and nodes of a proto."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import onnx
from onnx import AttributeProto


def graphs_of(attribute: AttributeProto) -> Sequence[onnx.GraphProto]:
    """Return the graphs that an attribute holds; none if it refers to an attribute of the function around it."""
    if attribute.ref_attr_name:
        return ()
    if attribute.type == AttributeProto.GRAPH:
        return (attribute.g,)
    return attribute.graphs if attribute.type == AttributeProto.GRAPHS else ()


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that a node holds as attributes."""
    for attribute in node.attribute:
        yield from graphs_of(attribute)


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield `nodes`, each followed by the nodes of its subgraphs, at any depth."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from all_nodes(graph.node)
