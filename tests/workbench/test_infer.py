"""Types and sizes that are inferred are those that ONNX Runtime finds, and are written as ONNX has them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from fuzz.generate import generate
from fuzz.runtime import RefusedError
from onnxlift.errors import OnnxLiftError
from onnxlift.verification.fitting import size_in
from onnxlift.workbench.expose import expose
from onnxlift.workbench.infer import InferReport, infer
from workbench.cutting import Values, assert_equal, run
from workbench.models import X, branches, chain, functions, parsed, with_data_file

SIZES = """g (float[n, 4] x) => (float[k, m] y) {
    c = Concat <axis = 0> (x, x) i = NonZero(c) f = Cast <to = 1> (i) y = Relu(f) }"""


def types(report: InferReport) -> dict[str, str]:
    return {value.name: str(value.type) for value in report.values}


def dims(value: onnx.ValueInfoProto) -> list[int | str | None]:
    return [
        dim.dim_param or (dim.dim_value if dim.HasField("dim_value") else None)
        for dim in value.type.tensor_type.shape.dim
    ]


def test_sizes_are_numbers_formulas_or_unknown() -> None:
    assert types(infer(parsed(SIZES))) == {
        "x": "float32 (n, 4)",
        "c": "float32 (2*n, 4)",
        "i": "int64 (2, ?)",
        "f": "float32 (2, ?)",
        "y": "float32 (2, m)",
    }


def test_what_is_inferred_is_written_and_generated_names_are_not() -> None:
    report = infer(parsed(SIZES))
    model = report.proto()
    assert {value.name: dims(value) for value in model.graph.value_info} == {
        "c": ["2*n", 4],
        "i": [2, None],
        "f": [2, None],
    }
    assert dims(model.graph.output[0]) == [2, "m"]
    assert report.sharpened == ("y",)
    assert b"unk__" not in report.to_bytes()
    onnx.checker.check_model(model, full_check=True)


def check_sizes(model: onnx.ModelProto, feeds: Values) -> None:
    """The sizes that are inferred are those that the values have."""
    report = infer(model)
    shapes = {value.name: value.type.shape for value in report.values if value.role == "input" and value.type.shape}
    arrays = {name: feeds[name] for name in shapes if isinstance(feeds[name], np.ndarray)}
    sizes = {size: real for name, array in arrays.items() for size, real in zip(shapes[name], array.shape, strict=True)}
    found = run(expose(model, all=True, verify=False).proto(), feeds)
    for value in report.values:
        actual = found.get(value.name)
        if value.type.shape is not None and isinstance(actual, np.ndarray):
            expected = [size_in(size, sizes) for size in value.type.shape]
            assert len(expected) == actual.ndim, value
            assert [size if e is not None else None for e, size in zip(expected, actual.shape, strict=True)] == expected


@pytest.mark.parametrize("seed", range(80))
def test_sizes_of_random_graphs_are_those_that_onnx_runtime_finds(seed: int) -> None:
    case = generate(seed)
    for feeds in case.feeds[:2]:
        try:
            check_sizes(case.model, dict(feeds))
        except RefusedError:
            continue  # other sizes than it was built for, or bfloat16 inside


@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_what_is_written_is_taken_by_onnx_runtime_and_computes_the_same(seed: int) -> None:
    case = generate(seed)
    assert_equal(run(infer(case.model).proto(), case.feeds[0]), run(case.model, case.feeds[0]))


def test_sizes_can_be_fixed() -> None:
    assert types(infer(parsed(SIZES), dims={"n": 3}))["c"] == "float32 (6, 4)"
    report = infer(parsed(SIZES), shapes={"x": (5, 4)})
    assert types(report)["c"] == "float32 (10, 4)"
    assert dims(report.proto().graph.input[0]) == [5, 4]
    with pytest.raises(OnnxLiftError, match="no input has a dimension named q"):
        infer(parsed(SIZES), dims={"q": 3})


@pytest.mark.parametrize(
    ("wanted", "expected"), [("c", ["c"]), (["f", "c"], ["c", "f"]), ("[cf]", ["c", "f"]), (["x", "y"], ["x", "y"])]
)
def test_single_values_can_be_asked_for(wanted: object, expected: list[str]) -> None:
    assert [value.name for value in infer(parsed(SIZES), values=wanted).values] == expected


def test_initialisers_are_told_if_they_are_asked_for() -> None:
    (value,) = infer(chain(), values="w").values
    assert (str(value.type), value.role) == ("float32 (4)", "initialiser")


def test_an_unknown_name_is_answered_with_those_that_are_near() -> None:
    with pytest.raises(OnnxLiftError, match="no value named 'cc'; did you mean 'c'"):
        infer(parsed(SIZES), values="cc")
    with pytest.raises(OnnxLiftError, match=r"no value of the model matches 'q\*'"):
        infer(parsed(SIZES), values="q*")


def test_what_a_loop_gives_to_its_body_is_told_with_the_loop() -> None:
    lines = {line.split()[0]: line for line in str(infer(branches())).splitlines() if line.strip()}
    assert lines["s"].endswith("given by Loop_6") and lines["r"].endswith("Add in Loop_6"), lines


def test_values_inside_of_branches_are_told_with_their_place() -> None:
    report = infer(branches())
    inner = {value.name: (str(value.type), value.place) for value in report.values if value.place}
    holders = [node.name for node in report.model.graph if node.op_type in ("If", "Loop")]
    assert inner["t1"] == ("float32 (n, 4)", holders[0])
    assert inner["r"][1] == holders[1]
    (branch, *_) = (
        each.g for node in report.proto().graph.node for each in node.attribute if each.name == "then_branch"
    )
    assert [(value.name, dims(value)) for value in branch.value_info] == [("t1", ["n", 4])]


def test_calls_of_functions_have_types() -> None:
    report = infer(functions())
    assert types(report)["a"] == "float32 (n, 4)"
    np.testing.assert_allclose(run(report.proto(), {"x": X})["y"], -(X + 2), rtol=1e-6)
    old = functions()
    old.ir_version = 8
    np.testing.assert_allclose(run(infer(old).proto(), {"x": X})["y"], -(X + 2), rtol=1e-6)


ODD = '<ir_version: 10, opset_import: ["" : 20, "acme" : 1]>'


def test_strict_fails_if_the_type_or_rank_of_a_value_is_unknown() -> None:
    model = parsed("g (float[n] x) => (float[n] y) { a = acme.Odd(x) y = Relu(a) }", ODD)
    report = infer(model, strict=True)
    assert (report.passed, report.unknown) == (False, ("a",))
    assert "unknown        1: a" in str(report)
    assert infer(model).passed
    assert infer(parsed(SIZES), strict=True).passed


def test_what_the_file_tells_of_an_unknown_operator_counts() -> None:
    model = parsed("g (float[n] x) => (float[n] y) { a = acme.Odd(x) y = Relu(a) }", ODD)
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n"]))
    assert infer(model, strict=True).passed


def declared(*shape: int | str | None, element: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """A model that gives (n, 4), and declares something else."""
    model = parsed("g (float[n, 4] x, float[m] z) => (float[n, 4] y) { a = Neg(x) y = Relu(a) }")
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", element, shape))
    return model


@pytest.mark.parametrize("shape", [(None, None), ("rows", 4), ("unk__7", "cols")])
def test_declared_outputs_are_made_more_exact_without_a_note(shape: tuple[int | str | None, ...]) -> None:
    report = infer(declared(*shape))
    assert (report.sharpened, report.notes) == (("y",), ())
    assert dims(report.proto().graph.output[0]) == ["n", 4]


def test_what_is_declared_stays_where_inference_knows_less() -> None:
    report = infer(parsed(SIZES))
    assert dims(report.proto().graph.output[0])[1] == "m"


@pytest.mark.parametrize(
    ("model", "note"),
    [
        (declared("n", 5), r"'y' is declared as float32 \(n, 5\), and inference finds float32 \(n, 4\)"),
        (declared("n"), r"declared as float32 \(n\)"),
        (declared(1, 4), r"declared as float32 \(1, 4\)"),
        (declared("m", 4), r"declared as float32 \(m, 4\)"),
        (declared("n", 4, element=TensorProto.DOUBLE), "declared as float64"),
    ],
)
def test_contradictions_are_told_and_inference_is_believed(model: onnx.ModelProto, note: str) -> None:
    report = infer(model)
    (found,) = report.notes
    assert re.search(note, found), found
    assert dims(report.proto().graph.output[0]) == ["n", 4]


def test_contradictions_inside_are_told_too() -> None:
    model = declared("n", 4)
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 3]))
    report = infer(model)
    assert report.notes == ("'a' is declared as float32 (n, 3), and inference finds float32 (n, 4)",)
    assert dims(report.proto().graph.value_info[0]) == ["n", 4]


def test_numbers_in_constant_nodes_are_known() -> None:
    text = """g (float[n, 6] x) => (float[a, b, c] y) {
        shape = Constant <value_ints = [0, 2, 3]> () r = Reshape(x, shape)
        axis = Constant <value = int64[1] {1}> () u = Unsqueeze(r, axis) y = Squeeze(u, axis) }"""
    assert types(infer(parsed(text)))["u"] == "float32 (n, 1, 2, 3)"


def test_external_data_is_not_read(tmp_path: Path) -> None:
    report = infer(with_data_file(tmp_path))
    assert types(report)["h"] == "float32 (n, 64)"
    report.save(tmp_path / "out.onnx", external_data="out.data")
    assert [value.name for value in onnx.load(tmp_path / "out.onnx").graph.value_info] == ["h"]


def test_the_result_can_be_verified() -> None:
    assert infer(parsed(SIZES), verify=True).verification


def test_writing_again_gives_the_same_bytes() -> None:
    once = infer(branches())
    assert infer(once).to_bytes() == once.to_bytes() == infer(branches()).to_bytes()


def test_the_report_is_plain_data() -> None:
    facts = infer(parsed(SIZES), values="i").to_dict()
    assert facts["values"] == [
        {
            "name": "i",
            "kind": "tensor",
            "dtype": "int64",
            "shape": [2, None],
            "role": "inside",
            "operator": "NonZero",
            "place": "",
        }
    ]
    assert (facts["unknown"], facts["sharpened"]) == ([], ["y"])


def test_an_output_that_is_an_input_has_the_type_of_the_input() -> None:
    model = parsed("g (float[n, 4] x) => (float[n, 4] y, float[n, 4] x) { y = Neg(x) }")
    model.graph.output[1].type.tensor_type.ClearField("shape")
    report = infer(model)
    assert types(report)["x"] == "float32 (n, 4)"
    assert [dims(value) for value in report.proto().graph.output] == [["n", 4], ["n", 4]]
