"""Replace an If whose condition is known by the branch that it takes.

    y = If(True, then, else)   ->   the nodes of `then`, and its output for y

The condition is a constant, or inference knows it (`Shape(x)[1] == 12` with a static shape). Nodes, initialisers and
outputs of the branch move into the enclosing graph, in front of the node. They get new names if other values have
theirs (two branches may use the same names). Sound because a branch reads the enclosing graph only at the place of the
If, and the other branch would never run.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import static_elements
from onnxlift.rewriting.normal_form.dead_code import release
from onnxlift.stages import step


@step("constant-if", repeats=True)
def run(model: ir.Model) -> int:
    """Inline the branches that are taken; return how many."""
    return sweep(model, {"If": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    condition = static_elements(node.inputs[0])
    if condition is None or len(condition) != 1:
        return
    take_branch(edit, node, "then_branch" if condition[0] else "else_branch")


def take_branch(edit: Edit, node: ir.Node, name: str) -> None:
    """Replace an If by one of its branches."""
    taken = node.attributes[name]
    if taken.is_ref():
        return
    branch = taken.as_graph()
    results = list(branch.outputs)
    moved = _move(edit, branch, node)
    for output, result in zip(node.outputs, results, strict=True):
        if not edit.redirect(output, result):
            _connect(edit, node, output, result)
    release(node)
    edit.drop(node)
    edit.changes += 1
    for inner in moved:
        if is_standard(inner, "If"):
            _visit(edit, inner)


def _move(edit: Edit, branch: ir.Graph, place: ir.Node) -> list[ir.Node]:
    """Move everything out of `branch` to the front of `place`; return the nodes."""
    branch.outputs.clear()
    edit.adopt_weights(branch)
    nodes = list(branch)
    branch.remove(nodes)
    for node in nodes:
        for output in node.outputs:
            if output.name:
                output.name = edit.names.distinct(output.name)
    edit.graph.insert_before(place, nodes)
    return nodes


def _connect(edit: Edit, place: ir.Node, output: ir.Value, result: ir.Value) -> None:
    """Give a graph output a value that cannot take its name: an initialiser, or a value from outside."""
    copy = ir.Node("", "Identity", [result], name=place.name, metadata_props=dict(place.metadata_props))
    copy.outputs[0].type, copy.outputs[0].shape = output.type, output.shape
    edit.graph.insert_before(place, copy)
    edit.redirect(output, copy.outputs[0])
