"""The nodes of a model-local function take the place of its call.

    y = com.acme::Block(x, w)   ->   the nodes of Block, y for its output

1. Calls inside functions, and inside subgraphs, are inlined as well; loading has made sure that this ends.
2. A reference to an attribute of the function becomes the attribute that the call passes, or else the function's
   default, or else is left out: that is how ONNX spells an optional attribute.
3. A node keeps the operator set of its function: where that differs from the model's, `node.version` says so.
4. The copy of node `matmul` for the call `block1` is named `/block1/matmul`: a function is a module to be, and this
   is how exporters write that a node belongs to one.

Not inlined is a function for which the user has registered an operator of their own: `keep` answers for those.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.stages import step

from .expansion import Expansion, Operators


@step("inline-functions", optional=False)
def run(model: ir.Model, *, keep: Operators | None = None) -> int:
    """Inline the calls of functions, except those that `keep(domain, name)` answers for; gives how many."""
    functions = dict(model.functions)
    model.functions.clear()  # their names are free, and nobody need look at their bodies
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
    return expansion.changes


def _name(call: ir.Node, node: ir.Node) -> str:
    return f"/{(call.name or call.op_type).strip('/')}/{(node.name or node.op_type).strip('/')}"
