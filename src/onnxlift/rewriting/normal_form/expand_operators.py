"""Replace an operator that we do not support by the body that defines it.

    y = AffineGrid(theta, size)   ->   the nodes by which the operator's schema defines it

Many schemas of ONNX have such a body: one for all uses, or one that is built for the types and attributes of the node.
Operators in a body may have to be expanded in turn. The operators of ONNX Runtime have no schema here; their bodies are
in bodies/. If there is no body for the way an operator is used, `node.meta["reason"]` says why.

Types must have been inferred before; they are inferred again afterwards. Sound because the body is the operator's
definition. The nodes of a body keep the opset that it is written for (`node.version`).
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnxlift.ir.graph.walk import all_nodes, opset_of
from onnxlift.ir.inference.infer import infer
from onnxlift.rewriting import bodies
from onnxlift.stages import step

from .expansion import Expansion, Operators
from .schema_bodies import has_schema_body, schema_body

# The operators in a body are simpler, and have simpler bodies. No body of ONNX is nested more than four deep.
_MAX_ROUNDS = 8


@step("expand-operators", after={"types": "a body is built for the types of its inputs"}, optional=False, repeats=True)
def run(model: ir.Model, *, supported: Operators | None = None, takes: Callable[[ir.Node], bool] | None = None) -> int:
    """Expand the operators that are not `supported(domain, op_type)` and have a body; return how many.

    With `takes`, expand also those nodes of supported operators of which it says no."""
    if supported is None:
        return 0

    def stays(node: ir.Node) -> bool:
        return supported(node.domain, node.op_type) and (takes is None or takes(node))

    changes = 0
    for _ in range(_MAX_ROUNDS):
        waiting = [n for n in all_nodes(model.graph) if _has_body(model, n) and not stays(n)]
        if not waiting:
            break
        bodies = {node: body for node in waiting if (body := _body(model, node)) is not None}
        expansion = Expansion(model, bodies.get, _name)
        expansion.expand(model.graph)
        if not expansion.changes:
            break
        changes += expansion.changes
        infer(model)
    return changes


def _has_body(model: ir.Model, node: ir.Node) -> bool:
    if "reason" in node.meta:
        return False
    if bodies.has_body(node):
        return True
    return has_schema_body(node, opset_of(node, model.opset_imports))


def _name(call: ir.Node, node: ir.Node) -> str:
    if bodies.has_body(call):
        return bodies.name_of(call, node)
    return f"{call.name or call.op_type}_{node.name or node.op_type}"


def _body(model: ir.Model, node: ir.Node) -> ir.Function | None:
    try:
        if bodies.has_body(node):
            return bodies.body_of(node, model.opset_imports.get("", 1))
        return schema_body(node, opset_of(node, model.opset_imports))
    except bodies.NoBody as error:
        node.meta["reason"] = str(error)
        return None
