"""`opset` on whole models: subgraphs, functions, external data, IR versions, runtimes, and what it is given."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from fuzz.generate import generate
from fuzz.runtime import RefusedError, run_model
from onnxlift.errors import LoadError, OnnxLiftError
from onnxlift.ir.writing.proto import to_proto
from onnxlift.rewriting.normal_form import inline_functions
from onnxlift.workbench.opset import NEWEST, OpsetError, align_versions, opset
from onnxlift.workbench.opset.ir_versions import LATER_TYPES
from onnxlift.workbench.report import open_model
from onnxlift.workbench.runtimes import RUNTIMES, runtime_for
from workbench.opset.test_adapters import X, assert_same_at, model, outputs, types

SQUEEZE = model(13, "g (float[2, 1, n] x) => (float[2, n] y) <int64[1] axes = {1}> { y = Squeeze (x, axes) }")


def test_the_report_says_what_was_done_and_is_a_model_for_other_verbs() -> None:
    report = opset(SQUEEZE, 11, verify=False)
    assert report.passed
    assert report.to_dict()["opsets"] == {"before": {"ai.onnx": 13}, "after": {"ai.onnx": 11}}
    assert report.to_dict()["steps"] == {"Squeeze": 1}
    assert "ai.onnx        13 -> 11" in str(report)
    assert opset(report, 13, verify=False).to_dict()["opsets"]["before"] == {"ai.onnx": 11}


def test_the_result_is_compared_with_the_original() -> None:
    report = opset(SQUEEZE, 11)
    assert report.verification is not None and report.passed


def test_it_takes_all_that_lift_takes_and_changes_none_of_it(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(SQUEEZE, path)
    before = SQUEEZE.SerializeToString()
    held = ir.from_proto(SQUEEZE)
    sources: list[Any] = [path, str(path), path.read_bytes(), io.BytesIO(path.read_bytes()), SQUEEZE]
    results = {opset(source, 11, verify=False).to_bytes() for source in sources}
    assert len(results) == 1
    assert types(opset(held, 11, verify=False).proto()) == ["Squeeze"]
    assert SQUEEZE.SerializeToString() == before
    assert held.opset_imports[""] == 13


def test_a_constant_that_becomes_an_attribute_is_gone() -> None:
    assert not opset(SQUEEZE, 11, verify=False).proto().graph.initializer


def test_names_types_and_sizes_of_the_interface_stay() -> None:
    result = opset(SQUEEZE, 11, verify=False).proto()
    assert result.graph.input == SQUEEZE.graph.input
    assert result.graph.output == SQUEEZE.graph.output


def test_subgraphs_go_too() -> None:
    proto = model(
        13,
        """g (bool c, float[2, 3, 4] x) => (float[2, 3, 4] y) {
          y = If (c) <then_branch = a () => (float[2, 3, 4] p) { p = Softmax <axis = 1> (x) },
                      else_branch = b () => (float[2, 3, 4] q) { axes = Constant <value_ints = [2]> ()
                          r = ReduceSum (x, axes) q = Add (x, r) }>
        }""",
    )
    for flag in (True, False):
        assert_same_at(proto, [11, 12, 18, 28], c=np.array(flag), x=X)


FUNCTIONS = """
<opset_import: ["" : 18], domain: "acme">
Center (x) => (y) { axes = Constant <value_ints = [-1]> () m = ReduceMean (x, axes) y = Sub (x, m) }
"""


def functions_model() -> onnx.ModelProto:
    text = "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = acme.Center (x) }"
    return model(18, text, functions=FUNCTIONS, domains=', "acme" : 1')


def test_functions_go_too_and_stay_functions() -> None:
    results = assert_same_at(functions_model(), [28, 17, 13, 11], x=X)
    function = results[11].functions[0]
    assert [node.op_type for node in function.node] == ["ReduceMean", "Sub"]
    assert {each.domain: each.version for each in function.opset_import}[""] == 11


def test_nodes_of_inlined_functions_are_brought_to_the_opset_of_the_model() -> None:
    proto = functions_model()
    proto.opset_import[0].version = 13
    opened = open_model(proto)
    inline_functions.run(opened)
    align_versions(opened)
    result = to_proto(opened)
    np.testing.assert_allclose(outputs(result, x=X)[0], X - X.mean(-1, keepdims=True), atol=1e-6)


def test_below_ir_version_8_functions_are_inlined() -> None:
    report = opset(functions_model(), 13, ir_version=7, verify=False)
    result = report.proto()
    assert (result.ir_version, len(result.functions)) == (7, 0)
    assert "inlined" in report.notes[0]
    np.testing.assert_allclose(outputs(result, x=X)[0], X - X.mean(-1, keepdims=True), atol=1e-6)


def test_external_data_stays_on_disk_until_it_is_written(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.arange(4000, dtype=np.float32).reshape(1, 4000), "w")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Softmax", ["a"], ["y"], axis=1)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4000])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4000])],
        [weight],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    report = opset(tmp_path / "m.onnx", 11, verify=False)
    report.save(tmp_path / "out.onnx", external_data="out.data")
    loaded = onnx.load(tmp_path / "out.onnx")
    assert (tmp_path / "out.data").stat().st_size >= 16000
    np.testing.assert_array_equal(numpy_helper.to_array(loaded.graph.initializer[0]), np.arange(4000).reshape(1, 4000))


def test_a_runtime_brings_down_only_what_is_too_new() -> None:
    report = opset(SQUEEZE, runtime="onnxruntime==1.5", verify=False)
    assert (report.after[""], report.ir_version[1]) == (12, 7)
    same = opset(SQUEEZE, runtime="onnxruntime==1.17.3", verify=False)
    assert (same.after[""], same.ir_version[1]) == (13, 8)


def test_the_table_of_runtimes_only_grows() -> None:
    rows = list(RUNTIMES["onnxruntime"].values())
    for older, newer in pairwise(rows):
        assert older.ir_version <= newer.ir_version
        assert all(older.opsets[domain] <= newer.opsets[domain] for domain in older.opsets)


@pytest.mark.parametrize("text", ["onnxruntime", "onnxruntime==9.9", "tensorrt==8.6", "onnxruntime>=1.17", ""])
def test_a_runtime_that_nobody_knows_is_an_error(text: str) -> None:
    with pytest.raises(OnnxLiftError):
        runtime_for(text)


@pytest.mark.parametrize(
    "options",
    [{"version": 0}, {"version": 999}, {"domains": {"com.microsoft": 1}}, {"ir_version": 99}, {"ir_version": 2}, {}],
)
def test_a_target_that_there_is_not_is_an_error(options: dict[str, Any]) -> None:
    text = "g (float[2] x) => (float[2] y) { y = com.microsoft.Gelu (x) }"
    proto = model(13, text, domains=', "com.microsoft" : 1')
    with pytest.raises(OnnxLiftError):
        opset(proto, **options, verify=False)


def test_a_broken_model_is_a_load_error() -> None:
    with pytest.raises(LoadError):
        opset(b"no model", 13, verify=False)


def test_float8_needs_its_ir_version() -> None:
    proto = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 19]> g (float[2] x) => (float[2] y) '
        "{ a = Cast <to = 17> (x) y = Cast <to = 1> (a) }"
    )
    with pytest.raises(OnnxLiftError, match="float8e4m3fn, which IR version 8 does not have"):
        opset(proto, ir_version=8, verify=False)


def test_every_type_that_came_with_a_later_ir_version_is_known() -> None:
    """Each element type beyond bfloat16, which is as old as ONNX's own domain."""
    assert {kind for kind in ir.DataType if kind > ir.DataType.BFLOAT16} == LATER_TYPES.keys()


def test_operators_of_other_domains_stay_as_they_are() -> None:
    proto = model(13, "g (float[2] x) => (float[2] y) { y = com.microsoft.Gelu (x) }", domains=', "com.microsoft" : 1')
    assert types(opset(proto, 17, verify=False).proto()) == ["Gelu"]


def test_label_encoders_go_through_all_revisions() -> None:
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13, "ai.onnx.ml" : 1]> g (string[n] x) => (int64[n] y) '
        '{ y = ai.onnx.ml.LabelEncoder <classes_strings = ["a", "b"]> (x) }'
    )
    words = np.array(["b", "a", "c"], object)
    for version in (2, 4, 5):
        result = opset(proto, domains={"ai.onnx.ml": version}, verify=False)
        assert outputs(result.proto(), x=words)[0].tolist() == [1, 0, -1]
        back = opset(result, domains={"ai.onnx.ml": 1}, verify=False).proto()
        assert back.graph.node[0].attribute[0].name == "classes_strings"


def test_hostile_names_are_escaped_in_errors() -> None:
    proto = model(20, "g (string[2] a) => (string[2] s) { s = StringConcat (a, a) }")
    proto.graph.node[0].name = "evil\x1b[31m"
    with pytest.raises(OpsetError) as caught:
        opset(proto, 13, verify=False)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_give_the_same_numbers_at_the_newest_opset_and_at_17(seed: int) -> None:
    case = generate(seed)
    feeds = case.feeds[0]
    expected = run_model(case.model, feeds)
    for target in (min(NEWEST[""], 24), 17):
        try:
            result = opset(case.model, target, verify=False).proto()
        except OpsetError as error:
            assert target == 17 and "before opset" in str(error)
            continue
        try:
            actuals = run_model(result, feeds)
        except RefusedError:  # ONNX Runtime has no kernel for some new revisions
            assert target > 17
            continue
        for actual, wanted in zip(actuals, expected, strict=True):
            np.testing.assert_allclose(
                np.asarray(actual, np.float64), np.asarray(wanted, np.float64), rtol=2e-2, atol=2e-3
            )
