"""A part of a model computes what the whole computes there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

import onnxlift
from fuzz.runtime import RefusedError
from onnxlift.errors import OnnxLiftError
from onnxlift.ir.load import load
from onnxlift.workbench.extract import ExtractReport, extract
from workbench.cutting import assert_equal, inputs_of, outputs_of, run
from workbench.models import X, branches, chain, functions, parsed, with_data_file


def part(source: object, **options: object) -> ExtractReport:
    return extract(source, verify=False, **options)


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_the_part_between_two_values() -> None:
    report = part(chain(), from_="a", to="c")
    model = report.proto()
    assert (inputs_of(model), outputs_of(model), operators(model)) == (["a"], ["c"], ["Add", "Relu"])
    assert [tensor.name for tensor in model.graph.initializer] == ["v"]
    np.testing.assert_array_equal(run(model, {"a": X})["c"], np.maximum(X + np.array([-1, 0, 1, 2], np.float32), 0))
    assert (report.nodes, str(report.inputs["a"])) == ((5, 2), "float32 (n, 4)")
    onnx.checker.check_model(model, full_check=True)


def test_the_part_is_verified_on_the_values_at_the_cut() -> None:
    report = extract(chain(), from_="a", to=["c", "z"])
    assert report.passed and report.verification is not None
    assert [comparison.name for comparison in report.verification.runs[0].outputs] == ["c", "z"]
    assert len(report.verification.runs) == 2  # n is open


def test_a_part_that_computes_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxlift.workbench import extract as module

    def cut_wrongly(model: ir.Model, *arguments: object) -> None:
        right(model, *arguments)
        next(node for node in model.graph if node.op_type == "Relu").op_type = "Neg"

    right = module.cut
    monkeypatch.setattr(module, "cut", cut_wrongly)
    report = module.extract(chain(), from_="a", to="c")
    assert not report.passed
    assert "DOES NOT MATCH: c" in str(report)


def test_without_an_end_the_part_goes_to_the_outputs_that_depend_on_it() -> None:
    report = part(chain(), from_="b")
    assert outputs_of(report.proto()) == ["y"]
    assert "left out, since they do not depend on 'b': the outputs 'z'" in report.notes
    with pytest.raises(OnnxLiftError, match="no output of the model depends on 'd'"):
        part(parsed("g (float[n] x) => (float[n] y) { d = Neg(x) y = Relu(x) }"), from_="d")


def test_an_input_of_the_model_that_is_needed_past_the_cut_is_added_and_told() -> None:
    report = part(chain(), from_="c", to="y")
    assert inputs_of(report.proto()) == ["c", "x"]
    assert any("the model's input 'x' is an input of the part as well" in note for note in report.notes)


def test_without_a_begin_only_inputs_that_are_needed_are_inputs() -> None:
    model = parsed("g (float[n] x, float[n] unused) => (float[n] y) { a = Neg(x) y = Relu(a) }")
    assert inputs_of(part(model, to="a").proto()) == ["x"]
    report = part(model, from_=["x", "unused"], to="a")
    assert inputs_of(report.proto()) == ["x", "unused"]
    assert any("nothing reads the input 'unused'" in note for note in report.notes)


@pytest.mark.parametrize("begin", ["a", "b", "k"])
def test_values_that_branches_and_loops_capture_can_be_cut(begin: str) -> None:
    model = branches()
    feeds = {"x": X, "go": np.array(True), "trips": np.array(2)}
    inner = run(part(model, to=[begin]).proto(), feeds)
    found = run(part(model, from_=begin, to="y").proto(), {**feeds, **inner})
    assert_equal(found, run(model, feeds))


def test_what_only_a_branch_reads_comes_along() -> None:
    model = part(branches(), from_=["a", "k"], to="b").proto()
    assert [tensor.name for tensor in model.graph.initializer] == ["v"]
    assert inputs_of(model) == ["a", "k", "go"]
    onnx.checker.check_model(model, full_check=True)


def test_one_output_of_a_node_is_an_input_and_another_is_computed() -> None:
    text = "g (float[4] x) => (float[4] y) { a, b = Split <num_outputs = 2> (x) y = Concat <axis = 0> (a, b) }"
    model = part(parsed(text), from_="a", to="y").proto()
    x, a = np.arange(4, dtype=np.float32), np.array([7, 8], np.float32)
    np.testing.assert_array_equal(run(model, {"x": x, "a": a})["y"], [7, 8, 2, 3])


def test_a_weight_may_become_an_input() -> None:
    model = part(chain(), from_=["x", "w"], to="a").proto()
    np.testing.assert_array_equal(run(model, {"x": X, "w": X[0]})["a"], X * X[0])
    assert not model.graph.initializer
    assert extract(chain(), from_=["x", "w"], to="a").passed


def test_functions_and_opsets_stay_as_far_as_they_are_needed() -> None:
    first, second = part(functions(), to="a").proto(), part(functions(), from_="a").proto()
    assert sorted(function.name for function in first.functions) == ["Plus", "Twice"]
    assert [function.name for function in second.functions] == ["Minus"]
    assert sorted(entry.domain for entry in first.opset_import) == ["", "local"]
    found = run(second, run(first, {"x": X}))
    np.testing.assert_allclose(found["y"], -(X + 2), rtol=1e-6)


def test_sizes_that_inference_computes_are_written_and_invented_ones_are_not() -> None:
    text = """g (float[n, 4] x) => (int64[k, m] i) { c = Concat <axis = 0> (x, x) d = Relu(c) i = NonZero(d) }"""
    model = part(parsed(text), from_=["c"], to="d").proto()
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "2*n"
    text = "g (float[n, 4] x) => (int64[k, m] y) { i = NonZero(x) y = Neg(i) }"
    (size, other) = part(parsed(text), to="i").proto().graph.output[0].type.tensor_type.shape.dim
    assert (size.dim_value, other.WhichOneof("value")) == (2, None)


def test_external_data_stays_outside_and_only_what_is_needed_is_written(tmp_path: Path) -> None:
    path = with_data_file(tmp_path)
    report = part(path, to="h")
    written = report.save(tmp_path / "half.onnx", external_data="half.data")
    assert [file.name for file in written] == ["half.onnx", "half.data"]
    assert written[1].stat().st_size == 64 * 64 * 4
    assert report.bytes == (2 * 64 * 64 * 4, 64 * 64 * 4)


def scoped(names: dict[str, str], metadata: bool) -> onnx.ModelProto:
    """A chain of nodes in modules: value -> path of its module."""
    nodes, former = [], "x"
    for number, (value, path) in enumerate(names.items()):
        name = f"node_{number}" if metadata or not path else "/" + "/".join(path.split(".")) + "/Neg"
        node = helper.make_node("Neg", [former], [value], name=name)
        if metadata and path:
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=repr(["", path, "neg"]))
        nodes.append(node)
        former = value
    model = parsed("g (float[n, 4] x) => (float[n, 4] y) { y = Neg(x) }")
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.output[0].name = former
    return model


@pytest.mark.parametrize("metadata", [True, False])
def test_a_module_is_found_by_its_path(metadata: bool) -> None:
    paths = {"a": "stem", "b": "layer.0.conv", "c": "layer.0.act", "d": "layer.1.conv", "e": "layer.10.conv"}
    model = scoped(paths, metadata)
    report = part(model, module="layer.0")
    assert (list(report.inputs), list(report.outputs), report.nodes[1]) == (["a"], ["c"], 2)
    assert list(part(model, module="layer.1").inputs) == ["c"]
    assert list(part(model, module="layer/1/conv").outputs) == ["d"]
    with pytest.raises(OnnxLiftError, match=r"no node is in a module 'layer\.2'; did you mean 'layer\.1'"):
        part(model, module="layer.2")


def test_nodes_without_a_module_between_nodes_of_one_come_along() -> None:
    report = part(scoped({"a": "stem", "b": "layer", "c": "", "d": "layer", "e": ""}, metadata=True), module="layer")
    assert (list(report.inputs), list(report.outputs), report.nodes[1]) == (["a"], ["d"], 3)
    assert any("1 node without the name of a module came along" in note for note in report.notes)


def test_a_module_whose_value_leaves_and_comes_back_has_it_as_output_and_input() -> None:
    report = part(scoped({"a": "layer", "b": "other", "c": "layer"}, metadata=True), module="layer")
    assert (list(report.inputs), list(report.outputs)) == (["x", "b"], ["a", "c"])


def test_constants_that_are_computed_outside_of_a_module_are_computed_inside() -> None:
    model = scoped({"a": "stem", "b": "layer"}, metadata=True)
    model.graph.node.insert(0, helper.make_node("Constant", [], ["k"], "k", value_floats=[1.0, 2.0, 3.0, 4.0]))
    model.graph.node.append(helper.make_node("Add", ["b", "k"], ["c"], "add"))
    entry = model.graph.node[-1].metadata_props.add(key="pkg.torch.onnx.name_scopes")
    entry.value = "['', 'layer', 'add']"
    model.graph.output[0].name = "c"
    assert list(part(model, module="layer").inputs) == ["a"]


def test_a_model_without_modules_says_so() -> None:
    with pytest.raises(OnnxLiftError, match="do not tell which modules they are in"):
        part(chain(), module="encoder")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "cc"}, "no value named 'cc'; did you mean 'c'"),
        ({"from_": "y", "to": "a"}, "nothing that leads to 'a' reads 'y', but only 'x'"),
        ({}, "say what to extract"),
        ({"to": "a", "module": "b"}, "either by values"),
    ],
)
def test_what_cannot_be_cut_is_said(options: dict[str, str], message: str) -> None:
    with pytest.raises(OnnxLiftError, match=message):
        part(chain(), **options)


@pytest.mark.parametrize("name", ["t1", "r", "s"])
def test_a_value_inside_a_branch_or_loop_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(
        OnnxLiftError, match=r"is inside node .* \((If|Loop)\), whose graph may run never, once or many"
    ):
        part(branches(), to=name)


def test_a_value_inside_a_function_is_refused_with_the_reason() -> None:
    with pytest.raises(OnnxLiftError, match="'one' is inside the function 'Plus'"):
        part(functions(), to="one")


def test_a_value_of_an_unknown_operator_cannot_be_an_input() -> None:
    head = '<ir_version: 10, opset_import: ["" : 20, "acme" : 1]>'
    model = parsed("g (float[n] x) => (float[n] y) { a = acme.Odd(x) y = Relu(a) }", head)
    with pytest.raises(OnnxLiftError, match="nothing tells the type of value 'a'"):
        part(model, from_="a")
    model.graph.value_info.append(helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, ["n"]))
    assert str(part(model, from_="a").inputs["a"]) == "float32 (n)"


def test_inputs_keep_default_values() -> None:
    model = chain()
    model.graph.input.append(helper.make_tensor_value_info("v", onnx.TensorProto.FLOAT, [4]))
    cut = part(model, from_=["a"], to="c").proto()
    assert inputs_of(cut) == ["a", "v"]
    assert [tensor.name for tensor in cut.graph.initializer] == ["v"]
    assert_equal(run(cut, {"a": X}), run(part(chain(), from_="a", to="c").proto(), {"a": X}))


def test_every_form_of_a_model_is_taken_and_none_is_changed() -> None:
    proto = chain()
    before = proto.SerializeToString(deterministic=True)
    model = load(proto)
    expected = part(proto, to="c").to_bytes()
    assert proto.SerializeToString(deterministic=True) == before
    assert part(before, to="c").to_bytes() == expected
    nodes = len(list(model.graph))
    again = part(model, to="c").proto()
    assert (len(list(model.graph)), operators(again)) == (nodes, ["Mul", "Add", "Relu"])
    assert operators(part(part(proto, to="c"), from_="a").proto()) == ["Add", "Relu"]
    assert onnxlift.lift(part(proto, to="c").model)


def test_a_value_that_is_input_and_output_of_the_part_passes_through() -> None:
    model = part(chain(), from_="a", to=["a", "b"]).proto()
    try:
        assert_equal(run(model, {"a": X}), {"a": X})
    except RefusedError as error:
        pytest.fail(str(error))


def test_names_of_the_model_cannot_control_the_terminal() -> None:
    model = parsed("g (float[n] x) => (float[n] y) { y = Relu(x) }")
    model.graph.node[0].output[0] = model.graph.output[0].name = "y\x1b[31m"
    assert "\x1b" not in str(part(model, to="y\x1b[31m"))


def test_the_report_is_plain_data() -> None:
    facts = part(chain(), from_="a", to="c").to_dict()
    assert facts["inputs"] == [{"name": "a", "kind": "tensor", "dtype": "float32", "shape": ["n", 4]}]
    assert facts["nodes"] == {"before": 5, "after": 2}
    assert facts["bytes"] == {"before": 32, "after": 16}
    assert (facts["passed"], facts["verification"]) == (True, None)
