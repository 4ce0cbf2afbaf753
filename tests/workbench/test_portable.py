"""`simplify --portable`: files of ONNX Runtime's optimiser become standard ONNX again, at their own opset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from models.handmade import tiny_resnet, transformer_block
from onnxlift.workbench.portable import PortableError
from onnxlift.workbench.simplify import simplify

from .running import assert_same, model_of, operators

RANDOM = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(shape).astype(np.float32)


def optimised(model: onnx.ModelProto, folder: Path) -> Path:
    """The file that ONNX Runtime's extended optimisations write."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return folder / "optimised.onnx"


def foreign(nodes: list[onnx.NodeProto], inputs: dict[str, list[Any]], opset: int, **weights: Any) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_empty_tensor_value_info(nodes[-1].output[0])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    domains = {"": opset, **{node.domain: 1 for node in nodes if node.domain}}
    opsets = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def node(op_type: str, inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(
        op_type, inputs.split(), [output], name=f"n_{op_type}", domain="com.microsoft", **attributes
    )


@pytest.mark.parametrize("make", [tiny_resnet, transformer_block])
def test_files_of_the_optimiser_become_standard(make: Any, tmp_path: Path) -> None:
    file = optimised(make(), tmp_path)
    assert any(node.domain == "com.microsoft" for node in onnx.load(file).graph.node)
    report = simplify(file, portable=True)
    assert report.passed and report.verification is not None and report.verification.runs
    result = report.proto()
    assert {node.domain for node in result.graph.node} == {""}
    assert [(entry.domain, entry.version) for entry in result.opset_import] == [("", 17)]
    onnx.checker.check_model(result, full_check=True)


SINGLE = [
    (node("BiasGelu", "x b"), {"b": normal(8)}),
    (node("FastGelu", "x b"), {"b": normal(8)}),
    (node("QuickGelu", "x"), {}),
    (node("SkipLayerNormalization", "x x g b"), {"g": normal(8), "b": normal(8)}),
    (node("SkipSimplifiedLayerNormalization", "x x g"), {"g": normal(8)}),
    (node("FusedMatMul", "x x", transB=1, alpha=0.5), {}),
    (node("Attention", "x w b", num_heads=2), {"w": normal(8, 24), "b": normal(24)}),
    (
        node("Attention", "x w b m", num_heads=2, unidirectional=1),
        {"w": normal(8, 24), "b": normal(24), "m": np.array([3, 5], np.int32)},
    ),
    (node("MultiHeadAttention", "x x x", num_heads=2), {}),
    (node("RotaryEmbedding", "x p c s", num_heads=2), {"p": np.array([0]), "c": normal(9, 2), "s": normal(9, 2)}),
]


@pytest.mark.parametrize("opset", [13, 17, 23])
@pytest.mark.parametrize(("single", "weights"), SINGLE, ids=[f"{n.op_type}{len(n.input)}" for n, _ in SINGLE])
def test_bodies_come_to_the_opset_of_the_model(single: onnx.NodeProto, weights: dict[str, Any], opset: int) -> None:
    model = foreign([single], {"x": [2, 5, 8]}, opset, **weights)
    result = simplify(model, portable=True, verify=False).proto()
    assert {each.domain for each in result.graph.node} == {""}
    assert [(entry.domain, entry.version) for entry in result.opset_import] == [("", opset)]
    assert_same(model, result, {"x": normal(2, 5, 8)}, rtol=1e-3, is_declared=False)


def test_without_the_option_fused_operators_stay() -> None:
    model = foreign([node("QuickGelu", "x")], {"x": ["n", 4]}, 17)
    assert operators(simplify(model, verify=False).proto()) == ["QuickGelu"]


def test_fused_operators_in_branches_and_functions() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1, "local" : 1]>
        net (float[n, 4] x, bool c) => (float[n, 4] y) {
            h = local.Act(x)
            y = If (c) <then_branch = t () => (float[n, 4] p) { p = com.microsoft.QuickGelu(h) },
                        else_branch = e () => (float[n, 4] q) { q = com.microsoft.Gelu(h) }> }
        <domain: "local", opset_import: ["" : 17, "com.microsoft" : 1]>
        Act (u) => (v) { v = com.microsoft.FastGelu(u) }"""
    )
    result = simplify(model, portable=True, verify=False).proto()
    assert not result.functions and "com.microsoft" not in str(result)
    for condition in (True, False):
        assert_same(model, result, {"x": normal(3, 4), "c": np.array(condition)})


def test_every_node_that_cannot_go_is_listed_with_the_reason() -> None:
    nodes = [
        node("CDist", "x x", "d", metric="euclidean"),
        node("Inverse", "d", "i"),
        node("Inverse", "i", "j"),
        node("QuickGelu", "j", "k"),
        node("BiasSoftmax", "k x", axis=0, is_inner_broadcast=0),
    ]
    with pytest.raises(PortableError) as found:
        simplify(foreign(nodes, {"x": [4, 4]}, 17), portable=True)
    assert [each.op_type for each in found.value.nodes] == ["CDist", "Inverse", "Inverse", "BiasSoftmax"]
    text = str(found.value)
    assert "4 nodes cannot go" in text and "'n_Inverse' and 1 more" in text and "more than the last axis" in text


def test_a_body_that_needs_a_newer_opset_is_told_which() -> None:
    model = foreign([node("GridSample", "x g")], {"x": [1, 1, 4, 4], "g": [1, 2, 2, 2]}, 13)
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT32
    with pytest.raises(PortableError, match=r"linear interpolation of integers is not defined") as found:
        simplify(model, portable=True)
    assert "onnxlift opset 16 net -o OUT" in str(found.value)


def test_nodes_for_one_processor_are_told_apart() -> None:
    model = model_of("(float[1, 8, 4, 4] x) => (float[1, 8, 4, 4] y) { y = Relu(x) }")
    model.graph.node[0].op_type, model.graph.node[0].domain = "ReorderInput", "com.microsoft.nchwc"
    model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    with pytest.raises(PortableError, match="ORT_ENABLE_EXTENDED instead of ORT_ENABLE_ALL"):
        simplify(model, portable=True)


def test_hostile_names_do_not_reach_the_terminal() -> None:
    model = model_of("(float[4] x) => (float[4] y) { y = Relu(x) }")
    model.graph.node[0].op_type, model.graph.node[0].domain = "Evil\x1b[31m", "bad\nline"
    model.opset_import.append(helper.make_opsetid("bad\nline", 1))
    with pytest.raises(PortableError) as found:
        simplify(model, portable=True)
    assert "\x1b" not in str(found.value) and "bad\nline" not in str(found.value)
