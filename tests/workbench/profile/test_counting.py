"""Rows and sums: functions, branches, loops, shared and quantised weights, modules, and sizes that are open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import onnxlift
from models.handmade import lstm_classifier, tiny_resnet
from onnxlift.demo import transformer_block
from onnxlift.errors import OnnxLiftError
from onnxlift.workbench.profile.rows import GroupCosts
from workbench.models import branches, functions, parsed, with_data_file


def group(groups: tuple[GroupCosts, ...], name: str) -> GroupCosts:
    return next(each for each in groups if each.name == name)


@pytest.mark.parametrize("model", [tiny_resnet, transformer_block, lstm_classifier, functions, branches])
def test_formulas_are_the_numbers_that_fixed_sizes_give(model: Callable[[], onnx.ModelProto]) -> None:
    """Row by row, at other sizes than those that examples have."""
    opened = onnxlift.profile(model())
    values = {name: 3 + place for place, name in enumerate(opened.dimensions)}
    fixed = onnxlift.profile(model(), dims=values)
    assert len(opened.nodes) == len(fixed.nodes) > 0
    for one, other in zip((opened.total, *opened.nodes), (fixed.total, *fixed.nodes), strict=True):
        for name in ("macs", "flops", "read", "written", "parameters"):
            assert getattr(one.costs, name).at(values) == getattr(other.costs, name), (one.name, name)
    assert opened.peak.at(values) == fixed.peak


def test_a_graph_counts_as_often_as_it_runs() -> None:
    text = """g (float[n, 4] x) => (float[n, 4] y, float[5, n, 4] z) {
        trips = Constant <value_int = 5> ()
        y, z = Loop (trips, , x) <body = l (int64 i, bool c, float[n, 4] s) => (bool d, float[n, 4] r, float[n, 4] k) {
            d = Identity(c) r = Add(s, s) k = Sqrt(r) }> }"""
    report = onnxlift.profile(parsed(text))
    assert report.total.costs.flops.plain() == "40*n"
    rows = {row.operator: row for row in report.nodes}
    assert rows["Add"].costs.flops.plain() == "4*n" and rows["Add"].times.plain() == 5
    assert rows["Loop"].costs.flops.plain() == "40*n" and rows["Loop"].holds_graphs
    assert group(report.operators, "Sqrt").costs.flops.plain() == "20*n"
    assert group(report.operators, "Loop").costs.flops.plain() == 0  # the work is that of the nodes inside
    assert report.total.nodes == 4


def test_a_scan_runs_once_for_each_element_of_what_it_scans() -> None:
    text = """g (float[4] s, float[n, 4] x) => (float[4] y, float[n, 4] z) {
        y, z = Scan <num_scan_inputs = 1, body = b (float[4] a, float[4] e) => (float[4] c, float[4] k) {
            c = Add(a, e) k = Identity(c) }> (s, x) }"""
    report = onnxlift.profile(parsed(text))
    assert report.total.costs.flops.plain() == "4*n"


def test_iterations_that_data_ends_are_a_symbol_or_a_number_that_is_given() -> None:
    report = onnxlift.profile(branches())
    (symbol,) = report.iterations
    loop = report.iterations[symbol]
    assert symbol == "iterations" and loop
    assert report.total.costs.flops.plain() == {"least": "n*(4*iterations + 12)", "most": "n*(4*iterations + 16)"}
    given = onnxlift.profile(branches(), iterations={loop: 10})
    assert given.total.costs.flops.plain() == {"least": "52*n", "most": "56*n"} and not given.iterations
    with pytest.raises(OnnxLiftError, match=r"no Loop or Scan is named 'loop'; .*"):
        onnxlift.profile(branches(), iterations={"loop": 10})
    with pytest.raises(OnnxLiftError, match="cannot run -1 times"):
        onnxlift.profile(branches(), iterations={loop: -1})


def test_an_if_costs_what_one_of_its_branches_costs() -> None:
    """By operator, too: where a branch has none of an operator, the least is zero."""
    report = onnxlift.profile(branches())
    assert group(report.operators, "Relu").costs.flops.plain() == {"least": 0, "most": "4*n"}
    (row,) = [row for row in report.nodes if row.operator == "If"]
    assert row.costs.flops.plain() == {"least": "4*n", "most": "8*n"}


def test_a_branch_that_never_runs_costs_nothing() -> None:
    text = """g (float[n, 4] x) => (float[n, 4] y) {
        s = Shape(x) two = Constant <value_ints = [2]> () r = Shape(s) go = Equal(r, two)
        y = If (go) <then_branch = t () => (float[n, 4] a) { a = Neg(x) },
                     else_branch = e () => (float[n, 4] b) { c = Sqrt(x) b = Exp(c) }> }"""
    report = onnxlift.profile(parsed(text))
    assert report.total.costs.flops.plain() == "4*n"


def test_functions_are_counted_node_by_node_in_modules_of_their_calls() -> None:
    report = onnxlift.profile(functions())
    assert [row.operator for row in report.nodes] == ["Add", "Add", "Neg"]
    assert report.total.costs.flops.plain() == "12*n"
    assert report.total.costs.parameters.plain() == 0  # the ones are constants of the code


def test_a_weight_that_two_nodes_read_counts_once() -> None:
    model = parsed("g (float[n, 4] x) => (float[n, 4] y) { a = MatMul(x, w) y = MatMul(a, w) }", w=np.eye(4))
    report = onnxlift.profile(model)
    assert report.total.costs.parameters.plain() == 16 and report.total.costs.weight_bytes.plain() == 64
    assert [row.costs.parameters.plain() for row in report.nodes] == [16, 16]
    assert report.total.costs.read.plain() == "32*n + 128"  # but it is read twice


def test_modules_hold_what_is_below_them() -> None:
    model = transformer_block()
    for node in model.graph.node:
        node.name = f"/layers.0/{'attention' if 'attn' in node.output[0] else 'rest'}/{node.op_type}"
    report = onnxlift.profile(model)
    names = [each.name for each in report.modules]
    assert names[:2] == ["layers", "layers.0"] and set(names[2:]) == {"layers.0.attention", "layers.0.rest"}
    parts = [group(report.modules, name).costs.flops for name in names[2:]]
    assert parts[0] + parts[1] == group(report.modules, "layers").costs.flops == report.total.costs.flops
    assert group(report.modules, "layers.0").nodes == report.total.nodes


def test_where_nodes_tell_nothing_weights_tell_the_modules() -> None:
    text = "g (float[n, 4] x) => (float[n, 4] y) { a = MatMul(x, u) b = Relu(a) c = MatMul(b, v) y = Neg(c) }"
    model = parsed(text, u=np.eye(4), v=np.eye(4))
    for weight, name in zip(model.graph.initializer, ("mlp.fc1.weight", "mlp.fc2.weight"), strict=True):
        for node in model.graph.node:
            node.input[:] = [name if value == weight.name else value for value in node.input]
        weight.name = name
    rows = onnxlift.profile(model).nodes
    assert [row.module for row in rows] == ["mlp.fc1", "mlp", "mlp.fc2", ""]


def test_quantised_weights_have_their_real_size() -> None:
    """Four bits each; scales and zero points are no parameters."""
    weight = helper.make_tensor("w", TensorProto.INT4, [8, 6], [0] * 48)
    scale = numpy_helper.from_array(np.ones(6, np.float32), "s")
    zero = helper.make_tensor("z", TensorProto.INT4, [6], [0] * 6)
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[n, 8] x) => (float[n, 6] y) '
    model = parser.parse_model(text + "{ d = DequantizeLinear<axis = 1>(w, s, z) y = MatMul(x, d) }")
    model.graph.initializer.extend([weight, scale, zero])
    report = onnxlift.profile(model)
    first = report.nodes[0].costs
    assert first.parameters.plain() == 48 and first.weight_bytes.plain() == 24 + 24 + 3
    assert first.read.plain() == 51 and first.written.plain() == 192
    assert report.total.costs.macs.plain() == "48*n"


def test_packed_weights_count_every_number_in_them() -> None:
    text = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> g (float[n, 64] x) => (float[n, 6] y) '
    body = "{ y = com.microsoft.MatMulNBits<K = 64, N = 6, bits = 4, block_size = 32>(x, w, s) }"
    model = parser.parse_model(text + body)
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((6, 2, 16), np.uint8), "w"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones(12, np.float32), "s"))
    costs = onnxlift.profile(model).total.costs
    assert (costs.macs.plain(), costs.parameters.plain()) == ("384*n", 384)
    assert costs.weight_bytes.plain() == 6 * 2 * 16 + 48


def test_weights_in_a_file_of_their_own_are_not_read(tmp_path: Path) -> None:
    """Also if the file is not there: their shapes are all that is needed."""
    path = with_data_file(tmp_path)
    whole = onnxlift.profile(path)
    assert whole.total.costs.parameters.plain() == 2 * 64 * 64
    for file in tmp_path.iterdir():
        if file != path:
            file.unlink()
    without = onnxlift.profile(path)
    assert without.total == whole.total
    assert without.notes[0].startswith("counted without the numbers of the weights: ")
    with pytest.raises(OnnxLiftError, match="cannot run"):
        onnxlift.profile(path, measure=True)


def test_arithmetic_on_sizes_is_no_work_on_data() -> None:
    text = """g (float[n, 4] x) => (float[m, k] y) {
        s = Shape(x) zero = Constant <value_int = 0> () n0 = Gather(s, zero) two = Constant <value_int = 2> ()
        twice = Mul(n0, two) axes = Constant <value_ints = [0]> () a = Unsqueeze(twice, axes)
        b = Constant <value_ints = [2]> () t = Concat<axis = 0>(a, b) y = Reshape(x, t) }"""
    assert onnxlift.profile(parsed(text)).total.costs.flops.plain() == 0
