"""Remove everything that no output depends on.

1. A node is removed if none of its outputs is read or is a graph output. Then the nodes that it read from may go in
   turn.
2. An initialiser that nobody reads is removed.
3. A function that nobody calls is removed.

Sound because no ONNX operator has side effects. Random ones have none either: each draws from its own seed. So nobody
can observe a node whose outputs are not read. Inputs of the main graph stay, read or not.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.graph.walk import Region, all_nodes, regions, subgraphs
from onnxlift.stages import step


@step("dead-code", after={"identities": "weights that only an Identity read are left over"}, optional=False)
def run(model: ir.Model) -> int:
    """Remove what is dead; return the number of nodes, initialisers and functions."""
    # Inner graphs first: a node removed inside may be the last reader of a value outside.
    removed = sum(_sweep(region) for region in reversed(list(regions(model))))
    return removed + remove_functions(model)


def _sweep(region: Region) -> int:
    graph = region.graph
    dead: list[ir.Node] = []
    for node in reversed(graph):
        if any(output.uses() or output.is_graph_output() for output in node.outputs):
            continue
        dead.append(node)
        release(node)
    if dead:
        graph.remove(dead)
    unused = [
        name
        for name, value in graph.initializers.items()
        if not value.uses() and not value.is_graph_output() and not value.is_graph_input()
    ]
    for name in unused:
        del graph.initializers[name]
    return len(dead) + len(unused)


def release(node: ir.Node) -> None:
    """Disconnect all inputs of the node and of all nodes in its subgraphs."""
    stack = [node]
    while stack:
        current = stack.pop()
        for index in range(len(current.inputs)):
            current.replace_input_with(index, None)
        for body in subgraphs(current):
            stack.extend(body)


def remove_functions(model: ir.Model) -> int:
    """Remove functions that nobody calls; return how many."""
    called: set[ir.OperatorIdentifier] = set()
    pending = [model.graph]
    while pending:
        for node in all_nodes(pending.pop()):
            identifier = node.op_identifier()
            if identifier in model.functions and identifier not in called:
                called.add(identifier)
                pending.append(model.functions[identifier].graph)
    unused = [identifier for identifier in model.functions if identifier not in called]
    for identifier in unused:
        del model.functions[identifier]
    return len(unused)
