"""Exposed values are outputs as well, with their types, and the model computes what it did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxlift.errors import OnnxLiftError
from onnxlift.workbench.expose import ExposeReport, expose
from workbench.cutting import assert_equal, outputs_of, run
from workbench.models import X, branches, chain, functions, parsed, with_data_file


def exposed(source: object, values: object = (), **options: object) -> ExposeReport:
    return expose(source, values, verify=False, **options)


def test_values_are_outputs_after_the_models_own_in_the_order_of_the_graph() -> None:
    model = exposed(chain(), ["c", "a"]).proto()
    assert outputs_of(model) == ["y", "z", "a", "c"]
    found = run(model, {"x": X})
    assert_equal(found, run(chain(), {"x": X}))
    np.testing.assert_array_equal(found["a"], X * np.array([1, 2, 3, 4], np.float32))
    onnx.checker.check_model(model, full_check=True)


def test_types_are_those_that_inference_finds() -> None:
    text = """g (float[n, 4] x) => (float[k] y) {
        c = Concat <axis = 0> (x, x) i = NonZero(c) s = Shape(i) y = Cast <to = 1> (s) }"""
    report = exposed(parsed(text), all=True)
    assert {name: str(type_) for name, type_ in report.exposed.items()} == {
        "c": "float32 (2*n, 4)",
        "i": "int64 (2, ?)",
        "s": "int64 (2)",
    }
    dims = [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in report.proto().graph.output]
    assert dims == [["k"], ["2*n", 4], [2, 0], [2]]


def test_the_result_is_verified() -> None:
    report = expose(chain(), all=True)
    assert report.passed and report.verification is not None
    assert [each.name for each in report.verification.runs[0].outputs] == ["y", "z", "a", "b", "c"]


@pytest.mark.parametrize(
    ("values", "expected"), [("*", ["a", "b", "c"]), ("[ab]", ["a", "b"]), (["c", "?"], ["a", "b", "c"])]
)
def test_globs_stand_for_all_values_that_they_match(values: object, expected: list[str]) -> None:
    assert list(exposed(chain(), values).exposed) == expected


def test_a_name_goes_before_a_glob_of_the_same_spelling() -> None:
    model = parsed("g (float[n] x) => (float[n] y) { a = Neg(x) b = Neg(a) y = Relu(b) }")
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = "[b]"
    assert list(exposed(model, "[b]").exposed) == ["[b]"]


def test_an_output_stays_where_it_is() -> None:
    report = exposed(chain(), ["z", "a"])
    assert outputs_of(report.proto()) == ["y", "z", "a"]
    assert report.notes == ("'z' is an output already",)


def test_what_is_inside_of_branches_is_left_out_and_said() -> None:
    report = exposed(branches(), all=True)
    assert list(report.exposed) == ["a", "k", "b"]
    assert any("what is inside the subgraphs of 2 nodes" in note for note in report.notes)
    with pytest.raises(
        OnnxLiftError, match=r"'t1' is inside node .* \(If\).*What leaves it are the node's outputs: 'b'"
    ):
        exposed(branches(), "t1")


def test_calls_of_functions_have_outputs_too() -> None:
    model = exposed(functions(), "a").proto()
    np.testing.assert_allclose(run(model, {"x": X})["a"], X + 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ("x", {}, "'x' is an input of the model"),
        ("w", {}, "'w' is an initialiser of the model"),
        ("bb", {}, "no value named 'bb'; did you mean 'b'"),
        ("q*", {}, r"no value .* matches 'q\*'"),
        ((), {}, "say which values"),
        ("a", {"all": True}, "and not both"),
    ],
)
def test_what_cannot_be_exposed_is_said(values: object, options: dict[str, bool], message: str) -> None:
    with pytest.raises(OnnxLiftError, match=message):
        exposed(chain(), values, **options)


def test_values_of_unknown_types_are_left_out_and_said() -> None:
    head = '<ir_version: 10, opset_import: ["" : 20, "acme" : 1]>'
    model = parsed("g (float[n] x) => (float[n] y) { a = acme.Odd(x) b = Relu(x) y = Add(a, b) }", head)
    report = exposed(model, all=True)
    assert list(report.exposed) == ["b"]
    assert "not exposed, since their types are not known: 'a'" in report.notes
    with pytest.raises(OnnxLiftError, match="nothing tells the type of value 'a'"):
        exposed(model, "a")


def test_external_data_is_streamed(tmp_path: Path) -> None:
    report = exposed(with_data_file(tmp_path), "h")
    report.save(tmp_path / "out.onnx", external_data="out.data")
    assert outputs_of(onnx.load(tmp_path / "out.onnx")) == ["y", "h"]


def test_the_same_input_gives_the_same_bytes() -> None:
    assert exposed(chain(), all=True).to_bytes() == exposed(chain(), all=True).to_bytes()


def test_values_of_unknown_rank_are_exposed_and_it_is_said() -> None:
    text = "g (float[n, m] x) => (float[n, m] y) { s = Squeeze(x) y = Neg(x) }"
    report = exposed(parsed(text), "s")
    assert "not even the number of axes is known of 's'" in report.notes[0]
    assert run(report.proto(), {"x": X})["s"].shape == (3, 4)
