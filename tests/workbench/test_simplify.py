"""`simplify`: fewer nodes, the same numbers, the same interface."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

import onnxlift
from fuzz.generate import generate
from models.handmade import beam_step, lstm_classifier, tiny_resnet, transformer_block
from onnxlift.errors import InvalidModelError, OnnxLiftError, OutputError

from .running import assert_same, model_of, operators

RANDOM = np.random.default_rng(0)
W = RANDOM.standard_normal((4, 3)).astype(np.float32)
X = {"x": RANDOM.standard_normal((5, 4)).astype(np.float32)}


@pytest.mark.parametrize("make", [tiny_resnet, transformer_block, lstm_classifier, beam_step])
def test_handmade_models_match_at_two_sizes(make) -> None:  # type: ignore[no-untyped-def]
    model = make()
    before = model.SerializeToString()
    report = onnxlift.simplify(model)
    assert report.passed and report.verification is not None and report.verification.runs
    assert report.nodes[1] <= report.nodes[0]
    onnx.checker.check_model(report.proto(), full_check=True)
    assert model.SerializeToString() == before


def test_weights_are_folded_too() -> None:
    model = model_of("(float[n, 4] x) => (float[n, 3] y) { t = Transpose(w) y = MatMul(x, t) }", {"w": W.T.copy()})
    result = onnxlift.simplify(model, verify=False).proto()
    assert operators(result) == ["MatMul"]
    assert_same(model, result, X)


def test_equal_expressions_of_different_modules_are_one() -> None:
    model = model_of("(float[n, 4] x) => (float[n, 4] y) { a = Exp(x) b = Exp(x) y = Add(a, b) }")
    for node, name in zip(model.graph.node, ("/left/Exp", "/right/Exp", "/Add"), strict=True):
        node.name = name
    result = onnxlift.simplify(model, verify=False).proto()
    assert operators(result) == ["Exp", "Add"]
    assert_same(model, result, X)


def test_every_node_has_a_name_of_its_own() -> None:
    model = model_of("(float[n, 4] x) => (float[n, 4] y) { a = Exp(x) b = Sin(a) y = Add(a, b) }")
    for node in model.graph.node:
        node.name = "same"
    names = [node.name for node in onnxlift.simplify(model, verify=False).proto().graph.node]
    assert len({*names}) == 3


def test_sizes_are_fixed_and_what_follows_is_folded() -> None:
    body = """(float[batch, 4] x) => (float[batch, k] y) {
        s = Shape(x) zero = Constant <value_ints = [0]> () n = Gather(s, zero) minus = Constant <value_ints = [-1]> ()
        shape = Concat <axis = 0> (n, minus) e = Exp(x) y = Reshape(e, shape) }"""
    model = model_of(body)
    for options in ({"dims": {"batch": 5}}, {"shapes": {"x": (5, 4)}}):
        report = onnxlift.simplify(model, **options)  # type: ignore[arg-type]
        assert report.passed
        result = report.proto()
        assert operators(result) == ["Exp"]
        (size, other) = result.graph.input[0].type.tensor_type.shape.dim
        assert (size.dim_value, other.dim_value) == (5, 4)
        assert result.graph.output[0].type.tensor_type.shape.dim[0].dim_value == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shapes": {"z": (1, 4)}}, "no input named 'z'; its inputs are x"),
        ({"shapes": {"x": (1, 5)}}, r"declared as \(batch, 4\), which \(1, 5\) does not fit"),
        ({"dims": {"b": 5}}, "no input has a dimension named b; they are batch"),
        ({"dims": {"batch": 5}, "shapes": {"x": (6, 4)}}, "'batch' cannot be both 5 and 6"),
        ({"keep": ["nothing"]}, "no value 'nothing' in the main graph"),
        ({"skip_passes": ["bogus"]}, "there is no step 'bogus'"),
    ],
)
def test_mistakes_are_told(options: dict[str, object], message: str) -> None:
    model = model_of("(float[batch, 4] x) => (float[batch, 4] y) { y = Exp(x) }")
    with pytest.raises(OnnxLiftError, match=message):
        onnxlift.simplify(model, verify=False, **options)  # type: ignore[arg-type]


def test_an_invalid_model_is_refused() -> None:
    model = model_of("(float[n, 4] x) => (float[n, 4] y) { y = Exp(x) }")
    model.graph.node[0].input[0] = "nothing"
    with pytest.raises(InvalidModelError, match="'nothing'"):
        onnxlift.simplify(model)


def test_kept_values_stay_under_their_names() -> None:
    model = model_of(
        "(float[n, 4] x) => (float[n, 4] y) { a = Identity(x) b = Exp(a) c = Neg(b) d = Neg(c) y = Sin(d) }"
    )
    kept = onnxlift.simplify(model, verify=False, keep=["c", "a"]).proto()
    assert {"a", "c"} <= {name for node in kept.graph.node for name in node.output}
    assert [value.name for value in kept.graph.output] == ["y"]
    assert_same(model, kept, X)


def test_constant_branches_are_decided_and_others_stay() -> None:
    body = """(float[n, 4] x, bool go) => (float[n, 4] y) {{
        yes = Constant <value = bool {{1}}> ()
        y = If ({}) <then_branch = a () => (float[n, 4] p) {{ p = Exp(x) }},
                     else_branch = b () => (float[n, 4] q) {{ q = Neg(x) }}> }}"""
    for condition, expected in (("yes", ["Exp"]), ("go", ["If"])):
        model = model_of(body.format(condition))
        result = onnxlift.simplify(model, verify=False).proto()
        assert operators(result) == expected
        assert_same(model, result, *({**X, "go": np.array(go)} for go in (True, False)))


def test_functions_are_inlined() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
        net (float[n, 4] x) => (float[n, 4] y) { a = local.Twice(x) y = local.Twice(a) }
        <domain: "local", opset_import: ["" : 20]>
        Twice (u) => (v) { w = Identity(u) v = Add(w, w) }"""
    )
    result = onnxlift.simplify(model, verify=False).proto()
    assert operators(result) == ["Add", "Add"] and not result.functions
    assert [entry.domain for entry in result.opset_import] == [""]
    assert_same(model, result, X)


def test_functions_of_another_opset_are_inlined_if_their_nodes_mean_the_same() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
        net (float[n, 4, 5] x) => (float[n, 4, 5] y) { a = local.Soft(x) b = local.Twice(a) y = Exp(b) }
        <domain: "local", opset_import: ["" : 12]>
        Soft (u) => (v) { w = Relu(u) v = Clip(w) }
        <domain: "local", opset_import: ["" : 15]>
        Twice (u) => (v) { v = Add(u, u) }"""
    )
    result = onnxlift.simplify(model, verify=False).proto()
    assert not result.functions and operators(result)[-2:] == ["Add", "Exp"]
    assert_same(model, result, {"x": RANDOM.standard_normal((2, 4, 5)).astype(np.float32)})


def test_a_function_of_another_opset_stays_where_its_operators_mean_something_else() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
        net (float[n, 4, 5] x) => (float[n, 4, 5] y) { a = local.Soft(x) b = local.Twice(a) y = Exp(b) }
        <domain: "local", opset_import: ["" : 11]>
        Soft (u) => (v) { v = Softmax <axis = 1> (u) }
        <domain: "local", opset_import: ["" : 15]>
        Twice (u) => (v) { v = Add(u, u) }"""
    )
    result = onnxlift.simplify(model, verify=False).proto()
    assert operators(result) == ["Soft", "Add", "Exp"] and [each.name for each in result.functions] == ["Soft"]
    assert_same(model, result, {"x": RANDOM.standard_normal((2, 4, 5)).astype(np.float32)})


def test_a_function_that_cannot_come_to_the_opset_of_the_model_stays() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 13, "local" : 1]>
        net (float[1, 1, 4, 4] x, float[1, 2, 2, 2] g) => (float[1, 1, 2, 2] y) { a = local.Sample(x, g) y = Exp(a) }
        <domain: "local", opset_import: ["" : 20]>
        Sample (u, g) => (v) { v = GridSample(u, g) }"""
    )
    result = onnxlift.simplify(model, verify=False).proto()
    assert operators(result) == ["Sample", "Exp"] and [each.name for each in result.functions] == ["Sample"]


@pytest.mark.parametrize("seed", range(400, 440))
def test_random_graphs_compute_the_same(seed: int) -> None:
    case = generate(seed)
    result = onnxlift.simplify(case.model, verify=False).proto()
    assert_same(
        case.model, result, case.feeds[0], rtol=1e-2 if "float16" in str(case.feeds[0]) else 1e-4, is_declared=False
    )


def test_a_report_can_be_lifted_verified_and_simplified_again() -> None:
    report = onnxlift.simplify(tiny_resnet(), verify=False)
    again = onnxlift.simplify(report, verify=False)
    assert again.nodes == (report.nodes[1], report.nodes[1])
    assert "nn.Conv2d" in onnxlift.lift(report).source
    assert onnxlift.verify(tiny_resnet(), against=report).passed
    assert isinstance(report.model, ir.Model) and bool(report)


def test_external_data_stays_outside(tmp_path: Path) -> None:
    model = model_of("(float[n, 4] x) => (float[n, 3] y) { p = MatMul(x, w) q = Identity(p) y = Relu(q) }", {"w": W})
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    report = onnxlift.simplify(tmp_path / "m.onnx")
    assert report.passed and report.nodes == (3, 2)
    report.save(tmp_path / "out" / "m.onnx")
    np.testing.assert_array_equal(numpy_helper.to_array(onnx.load(tmp_path / "out" / "m.onnx").graph.initializer[0]), W)
    with pytest.raises(OutputError, match="already holds"):
        report.save(tmp_path / "out" / "m.onnx")


def test_the_report_tells_what_fired_and_what_it_saved() -> None:
    report = onnxlift.simplify(tiny_resnet(), verify=False)
    assert report.steps["fusing"]["batch-norms"] == 9
    assert "BatchNormalization       9 ->      0  -9" in str(report)
    facts = report.to_dict()
    assert facts["nodes"] == {"before": 37, "after": 28}
    assert facts["operators"]["BatchNormalization"] == {"before": 9, "after": 0}
    assert facts["passed"] is True and facts["verification"] is None


def test_a_wrong_result_is_found() -> None:
    """Hold that the verification can fail: a model with another weight does not match."""
    model = model_of("(float[n, 4] x) => (float[n, 3] y) { y = MatMul(x, w) }", {"w": W})
    other = onnx.ModelProto.FromString(model.SerializeToString())
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(W + 1, "w"))
    report = onnxlift.verify(model, against=other)
    assert not report.passed and "too far off" in str(report)


def test_models_of_another_interface_do_not_match() -> None:
    one = model_of("(float[n, 4] x) => (float[n, 4] y) { y = Exp(x) }")
    two = model_of("(float[n, 4] x) => (float[n, 4] y, float[n, 4] z) { y = Exp(x) z = Neg(x) }")
    assert "it has 2 outputs (y, z), and should have 1 (y)" in str(onnxlift.verify(one, against=two))
    renamed = model_of("(float[n, 4] a) => (float[n, 4] b) { b = Exp(a) }")
    report = onnxlift.verify(one, against=renamed)
    assert report.passed and "inputs are matched by their order" in str(report)


def test_inputs_with_default_values_stay_inputs() -> None:
    model = model_of(
        "(float[n, 4] x, float[4] k) => (float[n, 4] y) { y = Mul(x, k) }", {"k": np.full(4, 2, np.float32)}
    )
    result = onnxlift.simplify(model).proto()
    assert [value.name for value in result.graph.input] == ["x", "k"]
    assert [tensor.name for tensor in result.graph.initializer] == ["k"]


def test_a_dead_input_stays() -> None:
    model = model_of("(float[n, 4] x, float[n] unused) => (float[n, 4] y) { y = Exp(x) }")
    assert [value.name for value in onnxlift.simplify(model, verify=False).proto().graph.input] == ["x", "unused"]


def test_a_model_that_gives_its_input_back() -> None:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, ["n"])],
        [helper.make_tensor_value_info("y", 1, ["n"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert operators(onnxlift.simplify(model).proto()) == ["Identity"]
