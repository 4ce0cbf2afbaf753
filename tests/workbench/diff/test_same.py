"""Models that are the same although their files differ."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper, parser

from onnxlift.workbench.diff import diff
from onnxlift.workbench.simplify import simplify

from .graphs import changed, network, parsed, renamed


def assert_same(a: object, b: object) -> None:
    report = diff(a, b)
    assert report.same and report.passed and bool(report), str(report)
    assert report.matched == report.sizes[0].nodes == report.sizes[1].nodes


def test_a_renamed_and_reordered_model_is_the_same_and_the_report_says_what_was_renamed() -> None:
    report = diff(network(), renamed(network()))
    assert report.same
    assert report.counts == dict.fromkeys(report.counts, 0)
    assert {each.what: each.count for each in report.renamed} == {"node": 9, "weight": 6}
    assert "9 nodes renamed: '/layers.0/MatMul' -> 'node_" in str(report)
    assert str(report).startswith("network and network are the same\n")


def test_constants_in_nodes_are_the_same_as_initialisers() -> None:
    def as_nodes(model: onnx.ModelProto) -> None:
        nodes = [helper.make_node("Constant", [], [t.name], value=t) for t in model.graph.initializer]
        nodes += model.graph.node
        del model.graph.initializer[:], model.graph.node[:]
        model.graph.node.extend(nodes)

    assert_same(network(), changed(network(), as_nodes))
    assert_same(
        parsed("two = Constant <value_float = 2.0> () y = Mul(x, two)"),
        parsed("two = Constant <value = float {2.0}> () y = Mul(x, two)"),
    )


@pytest.mark.parametrize(
    ("a", "b", "opset"),
    [
        ("y = LeakyRelu(x)", "y = LeakyRelu <alpha = 0.01> (x)", 20),
        ("y = Softmax(x)", "y = Softmax <axis = -1> (x)", 20),
        ("y = Softmax(x)", "y = Softmax <axis = 1> (x)", 11),
        ("y = Add(x, z)", "y = Add(z, x)", 20),
        ("y = Sum(x, z, x)", "y = Sum(x, x, z)", 20),
        ("y = Clip(x, , )", "y = Clip(x)", 20),
        ("y = Dropout(x)", "y, mask = Dropout(x)", 20),
        ("a = Exp(x) b = Exp(z) y = Mul(a, b)", "b = Exp(x) a = Exp(z) y = Mul(a, b)", 20),
    ],
)
def test_other_spellings_are_the_same(a: str, b: str, opset: int) -> None:
    inputs = "float[n, 4] x, float[n, 4] z"
    assert_same(parsed(a, opset=opset, inputs=inputs), parsed(b, opset=opset, inputs=inputs))


def test_a_convolution_that_spells_out_what_is_implied_is_the_same() -> None:
    def conv(**attributes: object) -> onnx.ModelProto:
        weight = numpy_helper.from_array(np.ones((2, 3, 3, 3), np.float32), "w")
        node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
        ports = [helper.make_tensor_value_info(n, 1, ["n", c, "h", "w"]) for n, c in (("x", 3), ("y", 2))]
        graph = helper.make_graph([node], "conv", ports[:1], ports[1:], [weight])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    assert_same(conv(), conv(strides=[1, 1], dilations=[1, 1], pads=[0, 0, 0, 0], kernel_shape=[3, 3], group=1))
    assert not diff(conv(), conv(strides=[2, 2]))


def test_twins_that_cross_in_the_file_are_the_same() -> None:
    inputs = "float[n, 4] x"
    a = "a = Relu(x) b = Relu(x) c = Neg(a) d = Neg(b) y = Add(c, d)"
    b = "b = Relu(x) d = Neg(b) a = Relu(x) c = Neg(a) y = Add(d, c)"
    assert_same(parsed(a, inputs=inputs), parsed(b, inputs=inputs))


CALLS = """<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
net (float[n, 4] x) => (float[n, 4] y) {{ a = local.{outer}(x) y = local.{inner}(a) }}
<domain: "local", opset_import: ["" : 20, "local" : 1]> {outer} (u) => (w) {{ v = local.{inner}(u) w = Neg(v) }}
<domain: "local", opset_import: ["" : 20]> {inner} (u) => (w) {{ w = Exp(u) }}"""


def test_renamed_functions_are_the_same() -> None:
    a = parser.parse_model(CALLS.format(outer="First", inner="Second"))
    b = parser.parse_model(CALLS.format(outer="Outer", inner="Inner"))
    assert_same(a, b)
    assert "2 functions renamed" in str(diff(a, b))


def test_subgraphs_with_other_names_are_the_same() -> None:
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]> net (float[n, 4] x, bool go, int64 trips) => (float[n, 4] y) {
        a = Exp(x) b = Neg(x)
        c = If (go) <then_branch = t () => (float[n, 4] t1) { t0 = Sub(a, b) t1 = Relu(t0) },
                     else_branch = e () => (float[n, 4] e1) { e1 = Sub(b, a) }>
        y = Loop (trips, go, c) <body = l (int64 i, bool k, float[n, 4] s) => (bool m, float[n, 4] r)
                                 { m = Identity(k) r = Mul(s, a) }> }"""
    )
    for seed in range(5):
        assert_same(model, renamed(model, seed))


def test_any_form_of_a_model_can_be_compared(tmp_path: Path) -> None:
    model = network()
    path = tmp_path / "a.onnx"
    onnx.save(model, path)
    forms = [str(path), path, path.read_bytes(), io.BytesIO(path.read_bytes()), model, ir.from_proto(model)]
    for form in forms:
        assert_same(path, form)
    before = model.SerializeToString()
    report = simplify(model, verify=False)
    assert diff(report, report.model).same
    assert model.SerializeToString() == before


def test_weights_in_external_files_are_the_same_as_weights_in_the_model(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "a.onnx")
    onnx.save(network(), tmp_path / "b.onnx", save_as_external_data=True, location="b.data", size_threshold=0)
    assert_same(tmp_path / "a.onnx", tmp_path / "b.onnx")


def test_equal_files_are_answered_at_once_but_their_external_data_may_differ(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        onnx.save(
            network(), tmp_path / folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
        )
    a, b = tmp_path / "a" / "m.onnx", tmp_path / "b" / "m.onnx"
    assert a.read_bytes() == b.read_bytes()
    assert "byte by byte" in str(diff(a, a))
    assert "byte by byte" not in str(diff(a, b)) and diff(a, b).same
    data = bytearray((tmp_path / "b" / "m.data").read_bytes())
    data[3] ^= 1
    (tmp_path / "b" / "m.data").write_bytes(data)
    assert diff(a, b).counts["weights"] == 1
    assert str(diff(a, b)).startswith(f"{a} and {b} differ: 1 weight")


def test_nan_equals_nan_and_minus_zero_is_not_zero() -> None:
    def weights(*numbers: float) -> onnx.ModelProto:
        array = np.array([*numbers, 1], np.float32)
        return changed(
            parsed("y = Add(x, w)", inputs="float[n, 2] x", outputs="float[n, 2] y"),
            lambda model: model.graph.initializer.append(numpy_helper.from_array(array, "w")),
        )

    other = np.array([0x7FC00001], np.uint32).view(np.float32)[0]
    assert diff(weights(np.nan), weights(other)).same
    assert not diff(weights(0.0), weights(-0.0))
    assert not diff(weights(np.nan), weights(1.0))
    assert diff(weights(0.0), weights(-0.0), atol=1e-9).same


def test_weights_within_the_tolerance_are_the_same() -> None:
    def nudge(model: onnx.ModelProto) -> None:
        for tensor in model.graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1 + 1e-6), tensor.name))

    a, b = network(), changed(network(), nudge)
    assert diff(a, b).counts["weights"] == 6
    assert diff(a, b, rtol=1e-5).same
    assert diff(a, b, atol=1e-4).same
    assert not diff(a, b, rtol=1e-9)
