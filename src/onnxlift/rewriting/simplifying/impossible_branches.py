"""Replace an If by a branch if the other one can only end in an error.

    x = If(Shape(r)[2] == 1, then: Squeeze(r, 2), else: r)    LSTM(Unsqueeze(x, 0))   ->   x = Squeeze(r, 2)

An LSTM takes three axes, so x must have two; the other branch gives three. Exporters write such branches for
`x.squeeze(axis)`, and after them others that ask for the number of axes, which is known once the first is gone.

What is needed is found from the readers of the If in its own graph, which always run when it does: recurrent layers,
products of matrices (Gemm), and convolutions, through nodes that add or remove axes. What a branch gives is what
inference knows of it, where an If inside stands for all that its branches give. Sound for every input on which the
model gives a result: where the branch was taken, it did not give one. So this is for files, and not for source.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import rank
from onnxlift.stages import step

from .constant_if import take_branch

_BRANCHES = ("then_branch", "else_branch")
_FARTHEST = 8
"""So many nodes are looked through."""


@step("impossible-branches", repeats=True)
def run(model: ir.Model, *, for_runtime: bool = False) -> int:
    """Inline the branches beside those that can only fail; return how many."""
    return sweep(model, {"If": _visit}) if for_runtime else 0


def _visit(edit: Edit, node: ir.Node) -> None:
    graphs = [attribute(node, name, None) for name in _BRANCHES]
    if not all(isinstance(graph, ir.Graph) for graph in graphs):
        return
    for place, output in enumerate(node.outputs):
        needed = _needed(output, _FARTHEST)
        if needed is None:
            continue
        given = [_ranks(graph.outputs[place], _FARTHEST) for graph in graphs]
        possible = [ranks is None or needed in ranks for ranks in given]
        if sum(possible) == 1:
            take_branch(edit, node, _BRANCHES[possible.index(True)])
            return


def _needed(value: ir.Value, steps: int) -> int | None:
    """Return how many axes a value must have; None if nothing tells."""
    maker = value.producer()
    for user, place in value.uses():
        if maker is None or user.graph is not maker.graph:
            continue  # a branch that may not be taken
        needed = _needed_by(user, place, steps)
        if needed is not None:
            return needed
    return None


def _needed_by(user: ir.Node, place: int, steps: int) -> int | None:
    if is_standard(user, "LSTM", "GRU", "RNN") and place in (0, 1, 2):
        return 3
    if is_standard(user, "Gemm") and place in (0, 1):
        return 2
    if is_standard(user, "Conv", "ConvTranspose") and place == 0:
        return rank(user.inputs[1])
    added = _added_axes(user) if place == 0 else None
    if added is None or not steps:
        return None
    needed = _needed(user.outputs[0], steps - 1)
    return None if needed is None else needed - added


def _ranks(value: ir.Value, steps: int) -> set[int] | None:
    """Return all numbers of axes that a value may have; None if that is not known."""
    known = rank(value)
    if known is not None:
        return {known}
    node, place = value.producer(), value.index()
    if node is None or place is None or not steps:
        return None
    if is_standard(node, "If"):
        graphs = [attribute(node, name, None) for name in _BRANCHES]
        if not all(isinstance(graph, ir.Graph) for graph in graphs):
            return None
        found = [_ranks(graph.outputs[place], steps - 1) for graph in graphs]
        return None if found[0] is None or found[1] is None else found[0] | found[1]
    added = _added_axes(node)
    source = node.inputs[0] if added is not None else None
    before = _ranks(source, steps - 1) if source is not None else None
    return None if before is None or added is None else {each + added for each in before}


def _added_axes(node: ir.Node) -> int | None:
    """Return how many more axes the output of a node has than its first input; None if that is not known."""
    if is_standard(node, "Identity", "Relu", "Cast"):
        return 0
    if not is_standard(node, "Unsqueeze", "Squeeze"):
        return None
    axes = axes_of(node)
    if axes is None:
        return None
    return len(axes) if node.op_type == "Unsqueeze" else -len(axes)
