"""Give each Gradient node the graph that it differentiates.

    g = Gradient(a, b, xs=["x"], zs=["z"], y="y")   ->   g = Gradient(a, b, xs=["x"], body=graph (x, z) => y)

In ONNX the node only names values of the graph around it: the result `y`, and the variables `xs` and `zs`. The new body
is a copy of the nodes that compute `y` from the variables. It reads everything else that `y` depends on from outside.
Later steps may then rename values, and remove `y` if nobody else reads it.

Sound because the body gets the values of the same variables, and so computes the same `y`. It does not apply if one of
the names is not found in the graph of the node; the operator function refuses such a node. A Gradient inside a body is
marked (`create_graph`), because its result will be differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxlift.errors import LoadError, quote
from onnxlift.ir.editing.edit import Names
from onnxlift.ir.graph.walk import all_nodes, inner_nodes, regions
from onnxlift.stages import step

DOMAIN = "ai.onnx.preview.training"
MOST_COPIES = 100_000  # each Gradient of a Gradient copies what the one before it copied
HIGHEST_ORDER = 10


@step(
    "gradients",
    after={"inline-functions": "the values that it names are all in one graph when functions are inlined"},
    optional=False,
)
def run(model: ir.Model) -> int:
    """Give every Gradient node its body; return how many."""
    copied = changes = 0
    names = Names(model)
    for region in list(regions(model)):
        outside = (*region.graph.initializers.values(), *region.graph.inputs)
        found: dict[object, ir.Value] = {value.name: value for value in outside}
        for node in region.graph:
            if node.domain == DOMAIN and node.op_type == "Gradient" and "body" not in node.attributes:
                bounds = [found.get(name) for name in (*_names(node, "xs"), *_names(node, "zs"))]
                target = found.get(next(iter(_names(node, "y")), None))
                if target is not None and None not in bounds and len(bounds) == len(node.inputs):
                    body = _cut_out([value for value in bounds if value is not None], target)
                    copied += _prepare(body, names)
                    if copied > MOST_COPIES or _order(body) > HIGHEST_ORDER:
                        raise LoadError(
                            f"gradients of gradients are nested too deep at node {quote(node.name or '')}: only up to "
                            f"order {HIGHEST_ORDER}, and {MOST_COPIES} differentiated nodes in all, are supported."
                        )
                    node.attributes["body"] = ir.AttrGraph("body", body)
                    changes += 1
            found |= {value.name: value for value in node.outputs if value.name}
    return changes


def _names(node: ir.Node, attribute: str) -> Sequence[object]:
    """Return the names in an attribute. One that is no text (bytes) is that of no value."""
    given = node.attributes.get(attribute)
    if given is None or given.is_ref():
        return ()
    return (given.value,) if attribute == "y" else tuple(given.value)


def _cut_out(bounds: list[ir.Value], target: ir.Value) -> ir.Graph:
    """Return a copy of the nodes that compute `target` from `bounds`. They read everything else from outside."""
    needed: set[ir.Node] = set()
    outside: dict[ir.Value, None] = {}
    waiting, seen = [target], set(bounds)
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        node = value.producer()
        if node is None or node.graph is not target.graph:
            outside[value] = None
        elif node not in needed:
            needed.add(node)
            waiting += _read_by(node)
    ordered = [node for node in target.graph or () if node in needed]
    body = ir.GraphView([*bounds, *outside], [target], nodes=ordered, name="body").clone()
    for value in reversed(outside):
        body.inputs.pop().replace_all_uses_with(value)
    return body


def _read_by(node: ir.Node) -> list[ir.Value]:
    """Return the values that a node and its subgraphs read."""
    read = [value for value in node.inputs if value is not None]
    for inner in inner_nodes(node):
        read += [value for value in inner.inputs if value is not None and value.graph is not inner.graph]
    return read


def _prepare(body: ir.Graph, names: Names) -> int:
    """Give the values of a copy names of their own, and mark the gradients in it; return the number of nodes."""
    count = 0
    for value in body.inputs:
        value.name = names.fresh(value.name or "x")
        value.const_value = None  # an initialiser to differentiate by is a variable in the body
    for node in all_nodes(body):
        count += 1
        for value in node.outputs:
            value.name = names.fresh(value.name) if value.name else value.name
        if node.domain == DOMAIN and node.op_type == "Gradient":
            node.attributes["create_graph"] = ir.AttrInt64("create_graph", 1)
    return count


def _order(body: ir.Graph) -> int:
    """Return the order of the derivative if `body` is differentiated: 1, and 1 more for each Gradient nested in it."""
    inner = [n.attributes["body"].as_graph() for n in body if n.op_type == "Gradient" and "body" in n.attributes]
    return 1 + max(map(_order, inner), default=0)
