"""Replace each call of a model-local function by the nodes of the function.

    y = com.acme::Block(x, w)   ->   the nodes of Block, y for its output

1. Calls inside functions and inside subgraphs are inlined too. The loader has checked that this ends.
2. A reference to an attribute of the function becomes the attribute that the call passes, or else the function's
   default. If there is neither, it is left out: this is how ONNX writes an optional attribute.
3. A node keeps the opset of its function. If that differs from the model's, `node.version` says so.
4. The copy of node `matmul` for the call `block1` is named `/block1/matmul`. Exporters name the nodes of a module so,
   and a function is to become a module.

A call may leave out an input or an attribute; whether the nodes of the body can do without is checked afterwards.

A function stays a call if the user has registered an operator of their own for it; `keep` tells which.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.checking.gate import check_nodes
from onnxlift.stages import step

from .expansion import Expansion, Operators


@step("inline-functions", optional=False)
def run(model: ir.Model, *, keep: Operators | None = None) -> int:
    """Inline the calls of functions, except those for which `keep(domain, name)` is true; return how many."""
    functions = dict(model.functions)
    model.functions.clear()  # frees their names, and nobody needs to look at their bodies
    kept: set[ir.OperatorIdentifier] = set()

    def body_of(node: ir.Node) -> ir.Function | None:
        identifier = node.op_identifier()
        if identifier in functions and keep is not None and keep(node.domain, node.op_type):
            kept.add(identifier)
            return None
        return functions.get(identifier)

    if not functions:
        return 0
    expansion = Expansion(model, body_of, _name)
    expansion.expand(model.graph)
    if kept:
        model.functions.update(functions)
    if expansion.changes:
        check_nodes(model)  # a node of a body may need what the call leaves out
    return expansion.changes


def _name(call: ir.Node, node: ir.Node) -> str:
    return f"/{(call.name or call.op_type).strip('/')}/{(node.name or node.op_type).strip('/')}"
