"""Find the values that a node reads, with those of its subgraphs."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxlift.ir.graph.walk import subgraphs


def outer_reads(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values that a node reads: its inputs, and the values that its subgraphs take from outside."""
    for value in node.inputs:
        if value is not None:
            yield value
    for graph in subgraphs(node):
        yield from captured(graph)


def captured(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the values of outer scopes that a subgraph reads, in the order of use."""
    own: set[ir.Value] = {*graph.inputs, *graph.initializers.values()}
    for node in graph:
        for value in outer_reads(node):
            if value not in own:
                yield value
        own.update(node.outputs)
    for value in graph.outputs:
        if value not in own:
            yield value
