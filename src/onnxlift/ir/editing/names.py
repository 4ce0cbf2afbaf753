"""Give every node of a model a name of its own."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.graph.walk import all_nodes


def name_apart(model: ir.Model) -> int:
    """Add numbers to names that several nodes have, so that ONNX Runtime takes the model; return how many.

    Steps that put copies of nodes into a graph leave them with the name of the original. Names are unique in the main
    graph with its subgraphs, and in each function."""
    changes = 0
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        nodes = list(all_nodes(graph))
        taken = {node.name for node in nodes}
        seen: set[str] = set()
        numbers: dict[str, int] = {}
        for node in nodes:
            base = name = node.name or node.op_type
            while name in seen or (name != node.name and name in taken):
                numbers[base] = numbers.get(base, 0) + 1
                name = f"{base}_{numbers[base]}"
            if name != node.name:
                node.name = name
                changes += 1
            seen.add(name)
    return changes
