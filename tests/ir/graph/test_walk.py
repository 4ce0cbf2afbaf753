"""Walking through a model, and the opset that is in force for a node."""

from __future__ import annotations

import onnx
import pytest

import onnxlift
from onnxlift.ir.graph.walk import all_nodes, opset_of, regions
from onnxlift.ir.load import load
from onnxlift.workbench.inspect import inspect

MISH = """<ir_version: 8, opset_import: ["{imported}": 18]> g (float[n] x) => (float[n] y) { y = {written}Mish(x) }"""
BOTH_SPELLINGS = pytest.mark.parametrize(
    ("imported", "written"), [("", "ai.onnx."), ("ai.onnx", ""), ("ai.onnx", "ai.onnx.")]
)


def mish(imported: str, written: str) -> onnx.ModelProto:
    text = MISH.replace("{imported}", imported).replace("{written}", written)
    return onnx.parser.parse_model(text)


@BOTH_SPELLINGS
def test_a_node_of_the_default_domain_has_its_opset_in_either_spelling(imported: str, written: str) -> None:
    model = load(mish(imported, written))
    (node,) = model.graph
    assert opset_of(node, model.opset_imports) == 18


@BOTH_SPELLINGS
def test_an_operator_of_the_default_domain_is_lifted_in_either_spelling(imported: str, written: str) -> None:
    assert onnxlift.lift(mish(imported, written)).source == onnxlift.lift(mish("", "")).source


@BOTH_SPELLINGS
def test_an_operator_with_a_body_is_inspected_in_either_spelling(imported: str, written: str) -> None:
    model = mish(imported, written)
    model.graph.node[0].op_type = "CenterCropPad"
    model.graph.node[0].input.append("size")
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("axes", [0]))
    model.graph.initializer.append(onnx.helper.make_tensor("size", onnx.TensorProto.INT64, [1], [2]))
    (use,) = inspect(model).operators
    assert use.lifted_by


IN_A_FUNCTION = """
<ir_version: 8, opset_import: ["": 18, "local": 1]>
g (bool c, float[n] x) => (y) { y = local.choose <body = b () => (float[n] z) { z = Neg(x) }> (c, x) }
<domain: "local", opset_import: ["": 18]>
choose <body> (c, x) => (y) {
    y = If <then_branch: graph = @body, else_branch = e () => (z) { z = Abs(x) }> (c)
}
"""


def test_a_graph_that_the_caller_of_a_function_gives_is_not_looked_into() -> None:
    model = load(onnx.parser.parse_model(IN_A_FUNCTION))
    nodes = [node.op_type for region in regions(model) if not region.depth for node in all_nodes(region.graph)]
    assert nodes == ["choose", "Neg", "If", "Abs"]
    assert sum(use.count for use in inspect(onnx.parser.parse_model(IN_A_FUNCTION)).operators) == 4


def test_a_graph_that_is_given_to_a_function_is_lifted() -> None:
    assert "-x" in onnxlift.lift(onnx.parser.parse_model(IN_A_FUNCTION)).source
