"""Find the values that a node reads, with those of its subgraphs."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.graph.walk import subgraphs


def outer_reads(node: ir.Node) -> list[ir.Value]:
    """Return what a node reads, in the order of use: its inputs, and what its subgraphs take from outside."""
    reads: list[ir.Value] = []
    made: set[ir.Value] = set()
    _collect(node, reads, made)
    return [value for value in reads if value not in made] if made else reads


def _collect(node: ir.Node, reads: list[ir.Value], made: set[ir.Value]) -> None:
    """Add to `reads` what a node and the nodes of its subgraphs read, and to `made` what the subgraphs make."""
    reads.extend(value for value in node.inputs if value is not None)
    for graph in subgraphs(node) if node.attributes.data else ():
        made.update(graph.inputs, graph.initializers.values())
        for inner in graph:
            _collect(inner, reads, made)
            made.update(inner.outputs)
        reads.extend(graph.outputs)
