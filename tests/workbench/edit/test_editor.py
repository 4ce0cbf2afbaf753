"""The editor itself: undo, scripts, JSON, sources of all kinds, drafts that are broken, and what it writes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnxlift.errors import InternalError, InvalidModelError, LoadError, OnnxLiftError
from onnxlift.workbench import edit
from onnxlift.workbench.edit import Editor, Operation, all_operations
from onnxlift.workbench.simplify import simplify
from workbench.models import X, branches, chain, parsed, with_data_file
from workbench.running import outputs_of


@pytest.fixture
def m() -> Editor:
    return edit.open(chain())


def saved(m: Editor) -> bytes:
    return m.report(run=False).to_bytes()


def test_every_operation_is_a_method_with_a_text(m: Editor) -> None:
    for name, kind in all_operations().items():
        assert getattr(m, name).__doc__ == kind.__doc__ and kind.summary().endswith((".", ")"))
        assert callable(getattr(Editor, name))
    assert len(all_operations()) >= 20


def test_the_page_lists_every_operation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "workbench" / "edit.md").read_text(encoding="utf-8")
    assert [name for name in all_operations() if f"`{name}(" not in page] == []


def test_no_parameter_has_the_name_of_an_input_or_attribute() -> None:
    """Else `m.insert_after(value, operator, that=...)` could not say it."""
    taken = {
        name
        for schema in onnx.defs.get_all_schemas_with_history()
        for name in (*schema.attributes, *(each.name for each in schema.inputs))
    }
    for kind in all_operations().values():
        parameters = kind.signature().parameters
        if "arguments" in parameters:
            named = {name for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}
            assert not named & taken


def test_many_operations_are_undone_one_by_one(m: Editor) -> None:
    states = [saved(m)]
    for number in range(20):
        m.insert_after("c", "Mul", float(number))
        states.append(saved(m))
    for number in reversed(range(20)):
        m.undo()
        assert saved(m) == states[number]
    m.redo(11)
    assert saved(m) == states[11]
    m.rename("a", "other")
    with pytest.raises(OnnxLiftError, match="there are 0 operations to do again, not 1"):
        m.redo()
    with pytest.raises(OnnxLiftError, match="there are 12 operations to undo, not 13"):
        m.undo(13)


def test_an_operation_that_fails_changes_nothing(m: Editor) -> None:
    before = saved(m)
    for call in (
        lambda: m.insert_after("a", "Concat", [1.0], [2.0], axis="x"),
        lambda: m.insert_after("a", "Add", 1.0, 2.0, 3.0),
        lambda: m.replace("Relu_2", "Clip", "a", 1.0, nonsense=1),
        lambda: m.set_constant("w", [[1.0], [2.0, 3.0]]),
        lambda: m.insert_after("a", "Mul", "t1"),
    ):
        with pytest.raises(OnnxLiftError) as caught:
            call()
        assert not isinstance(caught.value, InternalError)
        assert saved(m) == before and not m.operations


def test_a_wrong_call_is_a_type_error(m: Editor) -> None:
    with pytest.raises(TypeError):
        m.rename("a")
    with pytest.raises(OnnxLiftError, match="rename: new: expected a text, not 1"):
        m.rename("a", 1)
    with pytest.raises(OnnxLiftError, match=r"add_constant: value: expected a number.*not object"):
        m.add_constant("k", object())


ARRAYS: list[Any] = [
    np.array([1.5, -2.0], np.float32),
    np.array([[1, 2], [3, 4]], np.int64),
    np.array(True),
    np.array([np.nan, np.inf, -0.0], np.float32),
    np.zeros((0, 3), np.float32),
    np.array(["a", "b'\n"], object),
    np.array([1 + 2j], np.complex64),
    edit.array("bfloat16", [2], [1.0, 2.5]),
    edit.array("int4", [3], [1, -8, 7]),
    edit.array("float8e4m3fn", [1], [0.5]),
    np.arange(1000, dtype=np.float32).reshape(10, 100),
    np.array([2**63], np.uint64),
]


@pytest.mark.parametrize("array", ARRAYS, ids=str)
def test_arrays_survive_json_and_scripts(m: Editor, array: Any, tmp_path: Path) -> None:
    m.add_constant("k", array)
    again = edit.open(chain())
    for operation in edit.parse_operations(m.to_json()):
        again.do(operation)
    assert saved(again) == saved(m)
    m.script(tmp_path / "script.py")
    by_script = edit.open(chain())
    edit.run_script(by_script, tmp_path / "script.py")
    assert saved(by_script) == saved(m)
    held = {tensor.name: tensor for tensor in m.report(run=False).proto().graph.initializer}["k"]
    if isinstance(array, np.ndarray) and array.dtype != object:
        np.testing.assert_array_equal(numpy_helper.to_array(held), array)


def test_a_large_array_needs_a_file_beside_the_script(m: Editor, tmp_path: Path) -> None:
    m.set_constant("w", np.ones((100, 4), np.float32))
    with pytest.raises(OnnxLiftError, match=r"float32 \[100, 4\] is too large for the text of a script"):
        m.script()
    m.script(tmp_path / "s.py")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.npz", "s.py"]
    with pytest.raises(OnnxLiftError, match="--force"):
        m.script(tmp_path / "s.py")


def test_hostile_names_stay_texts_in_a_script() -> None:
    model = chain()
    evil = "a');\nraise SystemExit('owned') #\u2028\x00"
    model.graph.node[2].output[0] = model.graph.node[3].input[0] = evil
    m = edit.open(model)
    m.rename(evil, "tame")
    m.rename("tame", evil)
    m.insert_after(evil, "Mul", 2.0)
    again = edit.open(model)
    exec(m.script(), {"m": again})
    assert saved(again) == saved(m)
    assert "\n" not in str(m.report(run=False)).splitlines()[1] and "\x00" not in str(m.report(run=False))


def test_an_attribute_with_the_name_of_a_parameter_is_plain_data(m: Editor) -> None:
    m.do({"op": "insert_after", "value": "c", "operator": "com.acme::Own", "arguments": {"name": 1, "my attr": 2}})
    m.do({"op": "insert_after", "value": "b", "operator": "com.acme::Own", "arguments": {"my attr": 2, "if": "x"}})
    again = edit.open(chain())
    exec(m.script(), {"m": again})
    assert saved(again) == saved(m)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"op": "renam", "old": "a", "new": "b"}, "no operation 'renam'; did you mean 'rename'"),
        ({"op": ["rename"]}, "there is no operation"),
        ({"op": "rename", "old": "a"}, "rename: the field 'new' is missing"),
        ({"op": "rename", "old": "a", "new": "b", "knd": "node"}, "no field 'knd'; did you mean 'kind'"),
        ({"op": "rename", "old": 1, "new": "b"}, "rename: old: expected a text, not 1"),
        ({"op": "delete", "node": "a", "bridge": 1}, "delete: bridge: expected true or false, not 1"),
        ({"op": "set_size", "name": "n", "size": 1.5}, "set_size: size: expected a whole number or a text, not 1.5"),
        ({"op": "set_size", "name": "n", "size": -1}, "-1 is no size"),
        ({"op": "set_type", "input": "x", "shape": "n"}, "set_type: shape: expected a list, not 'n'"),
        ({"op": "set_type", "input": "x", "shape": [1.5]}, r"set_type: shape\[0\]: expected"),
        ({"op": "insert_after", "value": "a", "operator": "Mul", "inputs": {}}, "inputs: expected a list"),
        ({"op": "insert_after", "value": "a", "operator": "Mul", "arguments": []}, "arguments: expected an object"),
        ({"op": "add_constant", "name": "k", "value": {"dtype": "float32"}}, "an array has the keys dtype, shape"),
        (
            {"op": "add_constant", "name": "k", "value": {"dtype": "float", "shape": [10**9], "base64": "AAAA"}},
            "takes 4,000,000,000 bytes, not 3",
        ),
        (
            {"op": "add_constant", "name": "k", "value": {"dtype": "uint8", "shape": [1], "data": [300]}},
            "these are no numbers of type uint8|holds numbers that uint8 does not have",
        ),
        (
            {"op": "add_constant", "name": "k", "value": {"dtype": "int64", "shape": [1], "data": [10**30]}},
            "these are no numbers of type int64: some are larger",
        ),
        ({"op": "add_constant", "name": "k", "value": 10**30}, "is no array of numbers"),
        ({"op": "set_attribute", "node": "Relu_2.x", "value": 10**30}, "Relu of opset 20 has no attribute 'x'"),
        ({"op": "set_size", "name": "n", "size": 10**30}, "is no size of a tensor"),
        ({"op": "set_input", "node": "Relu_2", "input": 10**30, "value": "a"}, "has no input number"),
        ({"op": "add_constant", "name": "k", "value": {"dtype": "x", "shape": [], "data": 1}}, "no element type"),
        (
            {"op": "add_constant", "name": "k", "value": {"dtype": "int8", "shape": [2], "data": [1]}},
            "takes 2 elements",
        ),
        ({"op": "add_constant", "name": "k", "value": {"dtype": "int8", "shape": [-1], "data": []}}, "whole numbers"),
        ({"op": "add_constant", "name": "k", "value": {"dtype": "int8", "shape": [1], "base64": "%"}}, "not base64"),
        ("rename", "an operation is an object"),
    ],
)
def test_plain_data_is_checked_field_by_field(m: Editor, data: Any, message: str) -> None:
    with pytest.raises(OnnxLiftError, match=message) as caught:
        edit.apply(chain(), [data], run=False)
    assert not isinstance(caught.value, InternalError)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '"rename"', '{"format": "other/1", "operations": []}', "{}", "1"])
def test_json_that_holds_no_operations_is_refused(text: str) -> None:
    with pytest.raises(OnnxLiftError, match="operations"):
        edit.parse_operations(text)


def test_operations_compare_and_come_back() -> None:
    data = {"op": "insert_after", "value": "a", "operator": "Clip", "arguments": {"min": 0.0}}
    operation = Operation.from_dict(data)
    assert operation.to_dict() == data and Operation.from_dict(json.loads(json.dumps(data))) == operation


def test_a_broken_model_can_be_mended() -> None:
    model = chain()
    model.graph.node[1].input[1] = "nowhere"
    with pytest.raises(InvalidModelError):
        simplify(model)
    m = edit.open(model)
    assert [finding.rule for finding in m.problems()] == ["value-defined"] and m.types() == {}
    with pytest.raises(OnnxLiftError, match="The draft cannot be read as it is"):
        m.type("a")
    m.set_input("Add_1", 1, "v")
    assert not m.problems() and m.report(run=False).passed


def test_a_circle_is_a_problem_and_no_crash(m: Editor) -> None:
    m.set_input("Mul_0", 0, "c")
    assert "circle" in str(m.problems()[0])
    with pytest.raises(InvalidModelError, match="circle"):
        m.save("never.onnx")
    assert not Path("never.onnx").exists()


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(LoadError, match="not an ONNX model"):
        edit.open(b"nonsense")
    model = chain()
    data = model.SerializeToString().replace(b"Relu", b"Re\xfflu").replace(b"\n\x01c", b"\n\x01\xff")
    with pytest.raises(LoadError, match=r"UTF-8|damaged"):
        edit.open(data).report()


def test_sources_of_all_kinds(tmp_path: Path) -> None:
    model = chain()
    onnx.save(model, tmp_path / "chain.onnx")
    data = model.SerializeToString()
    expected = saved(edit.open(model))
    with (tmp_path / "chain.onnx").open("rb") as file:
        assert saved(edit.open(file)) == expected
    for source in (tmp_path / "chain.onnx", str(tmp_path / "chain.onnx"), data, io.BytesIO(data)):
        assert saved(edit.open(source)) == expected
    report = edit.apply(model, [{"op": "rename", "old": "a", "new": "b2"}], run=False)
    assert saved(edit.open(report)) == report.to_bytes() == saved(edit.open(report.model))


def test_the_report_tells_what_was_done(m: Editor, tmp_path: Path) -> None:
    m.rename("a", "hidden")
    m.delete("Relu_2", bridge=True)
    m.set_constant("v", np.zeros((1, 4), np.float32))
    report = m.save(tmp_path / "out.onnx")
    text = str(report)
    assert "rename('a', 'hidden')" in text and "nodes          5 -> 4" in text and "runs           ONNX Runtime" in text
    assert report.to_dict()["operations"][1] == "delete('Relu_2', bridge=True)"
    json.dumps(report.to_dict())
    assert (tmp_path / "out.onnx").read_bytes() == report.to_bytes()
    with pytest.raises(OnnxLiftError, match="--force"):
        m.save(tmp_path / "out.onnx")


def test_verify_tells_whether_it_computes_the_same() -> None:
    m = edit.open(parsed("g (float[2, 4] x) => (float[2, 4] y) { a = Neg(x) y = Exp(a) }"))
    m.rename("a", "hidden")
    assert m.report(run=False, verify=True).passed
    m.insert_after("y", "Mul", 1.5)
    report = m.report(run=False, verify=True, rtol=1e-3)
    assert not report.passed and "DOES NOT MATCH" in str(report)


def test_what_no_runtime_takes_is_not_written(m: Editor, tmp_path: Path) -> None:
    m.insert_after("c", "com.acme::Own")
    with pytest.raises(OnnxLiftError, match="ONNX Runtime runs the original, and not the result"):
        m.save(tmp_path / "out.onnx")
    assert not list(tmp_path.iterdir())
    m.save(tmp_path / "out.onnx", run=False)
    again = edit.open(tmp_path / "out.onnx")
    again.rename("a", "hidden")
    report = again.report()
    assert report.passed and "as it does not take the original" in str(report)


def test_external_data_stays_where_it_is(tmp_path: Path) -> None:
    m = edit.open(with_data_file(tmp_path))
    m.insert_after("h", "Relu")
    m.set_constant("second", np.eye(64, dtype=np.float32))
    (tmp_path / "out").mkdir()
    m.save(tmp_path / "out" / "new.onnx", external_data="new.data")
    x = np.random.default_rng(2).standard_normal((2, 64)).astype(np.float32)
    first = edit.open(tmp_path / "big.onnx").constant("first")
    [found] = outputs_of(onnx.load(tmp_path / "out" / "new.onnx"), {"x": x})
    np.testing.assert_allclose(found, np.maximum(x @ first, 0), rtol=1e-4, atol=1e-5)


def test_ambiguous_names_say_where_they_are() -> None:
    model = branches()
    for attribute in model.graph.node[2].attribute:
        if attribute.name == "else_branch":
            attribute.g.node[0].output[0] = attribute.g.output[0].name = "t2"
    m = edit.open(model)
    with pytest.raises(OnnxLiftError, match=r"inside='If_2.then_branch' or inside='If_2.else_branch'"):
        m.insert_after("t2", "Neg")
    m.insert_after("t2", "Neg", inside="If_2.else_branch")
    feeds = {"x": X, "go": np.array(False), "trips": np.array(0)}
    np.testing.assert_array_equal(outputs_of(m.report(run=False).proto(), feeds)[0], -X)
    with pytest.raises(OnnxLiftError, match=r"there is no graph 'If_2.thn_branch' in the model; did you mean"):
        m.insert_after("t2", "Neg", inside="If_2.thn_branch")


def test_old_models_list_initialisers_as_inputs() -> None:
    model = parsed("g (float[n, 4] x) => (float[n, 4] y) { y = Mul(x, w) }", w=[1, 2, 3, 4])
    model.ir_version = 3
    del model.opset_import[:]
    model.opset_import.add(version=9)
    model.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [4]))
    m = edit.open(model)
    assert m.inputs == ["x"]
    m.set_constant("w", np.full((1, 4), 2.0, np.float32))
    m.insert_after("x", "Add", 1.0)
    m.rename("w", "scale")
    proto = m.report(run=False).proto()
    onnx.checker.check_model(proto, full_check=True)
    assert sorted(each.name for each in proto.graph.input) == ["scale", "x", "x_Add_B"]
    np.testing.assert_allclose(outputs_of(proto, {"x": X})[0], 2 * (X + 1), rtol=1e-6)
