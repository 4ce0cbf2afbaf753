"""Rules on what a model does when it runs: training mode, and numbers that are drawn."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import static_elements
from onnxlift.ir.graph.walk import Region
from onnxlift.workbench.lint.rule import Found, lint_rule
from onnxlift.workbench.lint.subject import Graph

_DRAWING = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial")


@lint_rule("OL411", "training-mode", "warning", "graph")
def nodes_in_training_mode(graph: Graph) -> Iterable[Found]:
    """A BatchNormalization or a Dropout is in training mode.

    The norm takes mean and variance of the batch at hand, so that a sample's result depends on the other samples; a
    dropout draws at random. Hardly anybody wants that of a model that is shipped.

    Export in evaluation mode: in PyTorch, call model.eval() before, and leave `training` at its default."""
    for region, node in graph.nodes("BatchNormalization", "Dropout"):
        if node.op_type == "BatchNormalization" and _norm_trains(region, node):
            yield Found(graph.place(region, node), "it normalises by the batch at hand: it is in training mode.")
        elif node.op_type == "Dropout" and _dropout_trains(region, node):
            yield Found(graph.place(region, node), "it drops numbers at random: it is in training mode.")


def _norm_trains(region: Region, node: ir.Node) -> bool:
    opset = region.opset(node)
    if opset >= 14:
        return bool(attribute(node, "training_mode", 0))
    return len([value for value in node.outputs if value.name]) > 1 or (opset < 7 and not attribute(node, "is_test", 0))


def _dropout_trains(region: Region, node: ir.Node) -> bool:
    opset = region.opset(node)
    if opset < 7:
        return not attribute(node, "is_test", 0)
    return opset >= 12 and len(node.inputs) > 2 and static_elements(node.inputs[2]) == (1,)


@lint_rule("OL412", "random", "info", "graph")
def numbers_drawn_at_random(graph: Graph) -> Iterable[Found]:
    """A node draws numbers at random.

    The model gives something else in every run, and a comparison of two runs says little. Generative models are meant
    so.

    To make runs comparable, make the numbers an input of the model."""
    for region, node in graph.nodes(*_DRAWING):
        if any(value.uses() or value.is_graph_output() for value in node.outputs):
            yield Found(graph.place(region, node), "it draws its numbers at random.")
