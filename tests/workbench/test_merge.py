"""Two models as one compute what the first and then the second compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnxlift.errors import OnnxLiftError
from onnxlift.workbench.merge import MergeReport, merge
from workbench.cutting import inputs_of, outputs_of, run
from workbench.models import X, branches, chain, functions, parsed, with_data_file


def merged(first: object, second: object, **options: object) -> MergeReport:
    return merge(first, second, verify=False, **options)


def simple(
    operator: str, output: str = "y", input_: str = "x", shape: str = "n, 4", **weights: object
) -> onnx.ModelProto:
    model = parsed(f"g (float[{shape}] i) => (float[{shape}] o) {{ o = {operator} }}".replace("x)", "i)"), **weights)
    model.graph.input[0].name = model.graph.node[0].input[0] = input_
    model.graph.output[0].name = model.graph.node[0].output[0] = output
    return model


def test_outputs_go_to_inputs_of_the_same_name() -> None:
    model = merged(simple("Neg(x)", "h"), simple("Relu(x)", "y", "h")).proto()
    assert (inputs_of(model), outputs_of(model)) == (["x"], ["y"])
    np.testing.assert_array_equal(run(model, {"x": X})["y"], np.maximum(-X, 0))
    onnx.checker.check_model(model, full_check=True)


def test_the_result_is_verified_against_running_one_after_the_other() -> None:
    report = merge(chain(), chain(), map={"z": "x"})
    assert report.passed and report.verification is not None
    assert len(report.verification.runs) == 2
    assert [each.name for each in report.verification.runs[0].outputs] == ["y", "b_y", "z"]


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxlift.workbench import merge as module

    right = module._Join.run

    def run_wrongly(self: module._Join, *arguments: object) -> object:
        pieces = right(self, *arguments)
        next(node for node in self.one.graph if node.op_type == "Relu").op_type = "Abs"
        return pieces

    monkeypatch.setattr(module._Join, "run", run_wrongly)
    assert not module.merge(simple("Neg(x)", "h"), simple("Relu(x)", "y", "h")).passed


@pytest.mark.parametrize("pairs", [{"y": "x"}, ["y=x"], [("y", "x")]])
def test_a_map_says_what_belongs_together(pairs: object) -> None:
    report = merged(simple("Neg(x)"), simple("Relu(x)"), map=pairs)
    assert report.connected == (("y", "x"),)
    np.testing.assert_array_equal(run(report.proto(), {"x": X})["y"], np.maximum(-X, 0))


def test_names_in_a_map_may_hold_an_equals_sign() -> None:
    report = merged(simple("Neg(x)", "a=b"), simple("Relu(x)", "y", "c=d"), map=["a=b=c=d"])
    assert report.connected == (("a=b", "c=d"),)


def test_one_output_may_go_to_several_inputs() -> None:
    second = parsed("g (float[n, 4] p, float[n, 4] q) => (float[n, 4] r) { r = Mul(p, q) }")
    model = merged(simple("Neg(x)"), second, map=["y=p", "y=q"]).proto()
    np.testing.assert_array_equal(run(model, {"x": X})["r"], X * X)


def test_connected_outputs_leave_unless_they_are_kept() -> None:
    options = {"map": {"y": "x"}}
    assert outputs_of(merged(chain(), simple("Relu(x)", "r"), **options).proto()) == ["z", "r"]
    assert outputs_of(merged(chain(), simple("Relu(x)", "r"), keep=True, **options).proto()) == ["y", "z", "r"]


def test_only_names_that_collide_change_and_inner_ones_give_way() -> None:
    first = parsed("g (float[n, 4] x) => (float[n, 4] h) { y = Neg(x) t = Abs(y) h = Relu(t) }")
    second = parsed("g (float[n, 4] h) => (float[n, 4] y) { t = Exp(h) y = Sin(t) }")
    report = merged(first, second)
    model = report.proto()
    assert [list(node.output) for node in model.graph.node] == [["a_y"], ["t"], ["h"], ["b_t"], ["y"]]
    assert report.renamed == 2
    assert len({node.name for node in model.graph.node}) == 5


def test_if_both_outputs_are_seen_the_second_gives_way_and_it_is_said() -> None:
    report = merged(chain(), chain(), map={"z": "x"})
    assert outputs_of(report.proto()) == ["y", "b_y", "z"]
    assert any("'y' of the second model is called 'b_y'" in note for note in report.notes)


def test_a_prefix_that_is_asked_for_goes_before_all_names() -> None:
    report = merged(chain(), chain(), map={"y": "x"}, prefix_a="one/", prefix_b="two/")
    model = report.proto()
    names = {name for node in model.graph.node for name in (node.name, *node.input, *node.output)}
    assert all(name.startswith(("one/", "two/")) for name in names)
    assert (inputs_of(model), outputs_of(model)) == (["one/x"], ["one/z", "two/y", "two/z"])
    expected = run(chain(), {"x": run(chain(), {"x": X})["y"]})
    np.testing.assert_array_equal(run(model, {"one/x": X})["two/y"], expected["y"])


def test_inputs_of_one_name_and_type_are_one_input() -> None:
    first = parsed("g (float[n, 4] x, float[n, 4] m) => (float[n, 4] h) { h = Add(x, m) }")
    second = parsed("g (float[k, 4] h, float[k, 4] m) => (float[k, 4] y) { y = Mul(h, m) }")
    report = merged(first, second)
    assert inputs_of(report.proto()) == ["x", "m"]
    assert any("both models take 'm'" in note for note in report.notes)
    np.testing.assert_array_equal(run(report.proto(), {"x": X, "m": X})["y"], (X + X) * X)


def test_inputs_of_one_name_and_other_types_stay_apart() -> None:
    first = parsed("g (float[n, 4] x, float[n, 4] m) => (float[n, 4] h) { h = Add(x, m) }")
    second = parsed("g (float[k, 4] h, float m) => (float[k, 4] y) { y = Mul(h, m) }")
    assert inputs_of(merged(first, second).proto()) == ["x", "m", "b_m"]


def dims(value: onnx.ValueInfoProto) -> list[int | str]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_named_sizes_become_one_where_values_are_connected() -> None:
    second = parsed("g (float[rows, 4] h) => (float[rows, 4] y) { y = Relu(h) }")
    assert dims(merged(simple("Neg(x)", "h"), second).proto().graph.output[0]) == ["n", 4]


def test_named_sizes_of_one_name_that_are_not_connected_stay_apart() -> None:
    second = parsed("g (float[4, 4] h, float[n] other) => (float[4, 4] y, float[n] z) { y = Relu(h) z = Neg(other) }")
    first = parsed("g (float[n, 4] x, float[4, 4] w) => (float[4, 4] h, float[n, 4] k) { h = Neg(w) k = Neg(x) }")
    model = merged(first, second).proto()
    assert {value.name: dims(value) for value in (*model.graph.input, *model.graph.output)} == {
        "x": ["n", 4],
        "w": [4, 4],
        "other": ["b_n"],
        "k": ["n", 4],
        "y": [4, 4],
        "z": ["b_n"],
    }


def test_a_size_that_must_be_a_number_is_told() -> None:
    report = merged(simple("Neg(x)", "h"), simple("Relu(x)", "y", "h", shape="2, 4"))
    assert any("fits only if the size n is 2" in note for note in report.notes)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("float[n, 5]", "4 is not 5"),
        ("float[n, 4, 1]", "has 2 axes"),
        ("double[n, 4]", "the output is float32"),
    ],
)
def test_types_that_contradict_each_other_are_refused(declared: str, message: str) -> None:
    second = parsed(f"g ({declared} h) => ({declared} y) {{ y = Neg(h) }}")
    with pytest.raises(OnnxLiftError, match=f"'h' -> 'h' cannot be connected.*{message}"):
        merged(simple("Neg(x)", "h"), second)


def test_one_name_cannot_be_two_numbers() -> None:
    first = parsed("g (float[3] x, float[4] z) => (float[3] h, float[4] k) { h = Neg(x) k = Neg(z) }")
    second = parsed("g (float[n] h, float[n] k) => (float[n] y) { y = Add(h, k) }")
    with pytest.raises(OnnxLiftError, match="4 is not 3"):
        merged(first, second)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (None, r"outputs 'y'; inputs 'x'\. Say which belong together"),
        (["yx"], "not of the form OUTPUT=INPUT"),
        (["h=x"], "first model has no output named 'h'"),
        (["y=h"], "second model has no input named 'h'"),
        (["y=x", "y=x"], "can take one output only"),
    ],
)
def test_what_cannot_be_connected_is_said(pairs: list[str] | None, message: str) -> None:
    with pytest.raises(OnnxLiftError, match=message):
        merged(simple("Neg(x)"), simple("Relu(x)"), map=pairs)


def test_equal_weights_are_stored_once_whatever_their_names() -> None:
    first = simple("Mul(x, w)", "h", w=[1, 2, 3, 4])
    second = simple("Add(x, v)", "y", "h", v=[1, 2, 3, 4], w=[4, 3, 2, 1])
    report = merged(first, second)
    model = report.proto()
    assert sorted(tensor.name for tensor in model.graph.initializer) == ["b_w", "w"]
    assert (report.shared, report.shared_bytes) == (1, 16)
    w = np.array([1, 2, 3, 4], np.float32)
    np.testing.assert_array_equal(run(model, {"x": X})["y"], X * w + w)


def test_values_inside_of_branches_keep_names_of_their_own() -> None:
    options = {"map": {"y": "x"}}
    model = merged(branches(), branches(), **options).proto()
    onnx.checker.check_model(model, full_check=True)
    feeds = {"x": X, "go": np.array(True), "trips": np.array(2)}
    expected = run(branches(), {**feeds, "x": run(branches(), feeds)["y"]})
    assert inputs_of(model) == ["x", "go", "trips"]
    np.testing.assert_array_equal(run(model, feeds)["y"], expected["y"])


def test_equal_functions_are_shared_and_others_renamed() -> None:
    other = functions()
    minus = next(function for function in other.functions if function.name == "Minus")
    minus.node[0].op_type = "Exp"
    model = merged(functions(), other, map={"y": "x"}).proto()
    assert sorted(function.name for function in model.functions) == ["Minus", "Plus", "Twice", "b_Minus"]
    np.testing.assert_allclose(run(model, {"x": X})["y"], np.exp(-(X + 2) + 2), rtol=1e-5)


def test_a_function_that_calls_another_one_of_its_name_is_not_shared() -> None:
    other = functions()
    plus = next(function for function in other.functions if function.name == "Plus")
    plus.node[1].op_type = "Mul"
    model = merged(functions(), other, map={"y": "x"}).proto()
    assert sorted(function.name for function in model.functions) == ["Minus", "Plus", "Twice", "b_Plus", "b_Twice"]
    np.testing.assert_allclose(run(model, {"x": X})["y"], X + 2, rtol=1e-5)


def test_an_operator_is_not_mistaken_for_the_others_function() -> None:
    head = '<ir_version: 10, opset_import: ["" : 20, "local" : 1]>'
    first = parsed("g (float[n, 4] x) => (float[n, 4] h) { h = local.Minus(x) }", head)
    first.graph.value_info.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, ["n", 4]))
    model = merged(first, functions(), map={"h": "x"}).proto()
    assert [node.op_type for node in model.graph.node] == ["Minus", "Twice", "b_Minus"]


def test_opsets_in_which_all_operators_mean_the_same_become_the_newer_one() -> None:
    first, second = simple("Neg(x)", "h"), simple("Relu(x)", "y", "h")
    first.opset_import[0].version = 14
    model = merged(first, second).proto()
    assert [entry.version for entry in model.opset_import] == [20]


@pytest.mark.parametrize("older_first", [True, False])
def test_operators_that_changed_between_the_opsets_are_converted(older_first: bool) -> None:
    old = parsed("g (float[n, 4, 4] x) => (float[n, 4, 4] h) { h = Softmax <axis = 1> (x) }")
    new = parsed("g (float[n, 4, 4] h) => (float[n, 4, 4] y) { y = Softmax <axis = 1> (h) }")
    (old if older_first else new).opset_import[0].version = 11
    report = merge(old, new)
    assert report.passed and any("was brought from opset 11 to 20" in note for note in report.notes)
    assert [entry.version for entry in report.proto().opset_import] == [20]


def test_versions_of_a_domain_that_nobody_knows_are_refused() -> None:
    heads = [f'<ir_version: 10, opset_import: ["" : 20, "acme" : {version}]>' for version in (1, 2)]
    first = parsed("g (float[n, 4] x) => (float[n, 4] h) { h = acme.Twist(x) }", heads[0])
    second = parsed("g (float[n, 4] h) => (float[n, 4] y) { y = acme.Twist(h) }", heads[1])
    with pytest.raises(OnnxLiftError, match=r"of opset 1 of the domain 'acme', .* of opset 2, .*: Twist\."):
        merged(first, second)


def test_functions_keep_the_opset_that_they_are_of() -> None:
    first = functions()
    first.opset_import[0].version = 19
    model = merged(first, functions(), map={"y": "x"}).proto()
    np.testing.assert_allclose(run(model, {"x": X})["y"], -(-(X + 2) + 2), rtol=1e-5, atol=1e-6)


def test_an_input_of_the_second_that_is_an_output_of_it_passes_through() -> None:
    second = parsed("g (float[n, 4] h) => (float[n, 4] h, float[n, 4] y) { y = Relu(h) }")
    report = merge(simple("Neg(x)", "h"), second)
    assert report.passed
    np.testing.assert_array_equal(run(report.proto(), {"x": X})["h"], -X)


def test_inputs_with_default_values_keep_them() -> None:
    first, second = chain(), chain()
    second.graph.input.append(helper.make_tensor_value_info("v", TensorProto.FLOAT, [4]))
    model = merged(first, second, map={"y": "x"}).proto()
    assert inputs_of(model) == ["x", "v"]
    expected = run(chain(), {"x": run(chain(), {"x": X})["y"]})
    np.testing.assert_array_equal(run(model, {"x": X})["b_z" if "b_z" in outputs_of(model) else "z"], expected["z"])


def test_external_data_of_both_is_streamed_and_shared(tmp_path: Path) -> None:
    one, other = with_data_file(tmp_path), with_data_file(tmp_path, "other.onnx", factor=2.0)
    report = merge(one, other, map={"y": "x"})
    assert report.passed
    assert report.shared == 1
    written = report.save(tmp_path / "both.onnx", external_data="both.data")
    assert written[1].stat().st_size == 3 * 64 * 64 * 4


def test_the_same_input_gives_the_same_bytes() -> None:
    results = {merged(branches(), branches(), map={"y": "x"}).to_bytes() for _ in range(3)}
    assert len(results) == 1


def test_the_report_is_plain_data() -> None:
    facts = merged(simple("Neg(x)", "h"), simple("Relu(x)", "y", "h")).to_dict()
    assert facts["connected"] == [{"output": "h", "input": "h"}]
    assert facts["outputs"] == [{"name": "y", "kind": "tensor", "dtype": "float32", "shape": ["n", 4]}]
    assert (facts["nodes"], facts["renamed"]) == ({"first": 1, "second": 1}, 0)
    assert facts["shared"] == {"initialisers": 0, "bytes": 0}


def test_a_weight_may_be_an_output() -> None:
    second = parsed("g (float[n, 4] h) => (float[n, 4] y, float[4] v) { y = Add(h, v) }", v=[1, 2, 3, 4])
    model = merged(simple("Mul(x, w)", "h", w=[1, 2, 3, 4]), second).proto()
    assert outputs_of(model) == ["y", "v"]
    np.testing.assert_array_equal(run(model, {"x": X})["v"], [1, 2, 3, 4])
