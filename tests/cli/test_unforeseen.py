"""What nobody foresaw is still an answer: a paragraph that says whose fault it is, where it was, and what to do."""

from __future__ import annotations

import pytest
from onnx import parser

import onnxlift
from onnxlift.errors import InternalError, OnnxLiftError, OperatorError
from onnxlift.lifting.ops import registry
from onnxlift.rewriting.stages import SIMPLIFYING
from onnxlift.stages import Record
from onnxlift.unforeseen import answered

MODEL = """<ir_version: 10, opset_import: ["" : 20, "com.acme" : 1]> g (float[n, 4] x) => (float[n, 4] y)
{ [a_node] a = Neg(x) [other] y = Cast<to = 1>(a) }"""


@pytest.fixture
def broken_step(monkeypatch):
    def fail(model):
        for node in model.graph:
            raise KeyError(node.op_type)
        return 0

    (step,) = (step for step in SIMPLIFYING.steps if step.name == "cast-chains")
    monkeypatch.setitem(vars(step), "function", fail)


@pytest.mark.usefixtures("broken_step")
def test_an_error_of_a_step_says_where_it_was():
    with pytest.raises(InternalError) as caught:
        onnxlift.lift(parser.parse_model(MODEL))
    error = caught.value
    assert (error.stage, error.step) == ("simplifying", "cast-chains")
    assert isinstance(error.__cause__, KeyError)
    assert "this is a fault of onnxlift" in str(error)
    assert "in the step 'cast-chains' of the stage 'simplifying', at node 'a_node' (Neg)" in str(error)
    assert "`--skip-pass cast-chains` may help" in str(error)
    assert "\n" not in str(error)


@pytest.mark.usefixtures("broken_step")
def test_nothing_is_written_after_an_error(tmp_path, run):
    path = tmp_path / "small.onnx"
    path.write_bytes(parser.parse_model(MODEL).SerializeToString())
    code, _, messages = run("convert", path, "-o", tmp_path / "out")
    assert code != 0
    assert "this is a fault of onnxlift" in messages
    assert "Traceback" not in messages
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("broken_step")
def test_the_traceback_is_shown_with_debug(tmp_path, run, monkeypatch):
    monkeypatch.setenv("ONNXLIFT_DEBUG", "")
    path = tmp_path / "small.onnx"
    path.write_bytes(parser.parse_model(MODEL).SerializeToString())
    _, _, messages = run("convert", path, "-o", tmp_path / "out", "--debug")
    assert "KeyError: 'Neg'" in messages
    assert "Traceback (most recent call last)" in messages


def test_memory_that_runs_out_is_nobodys_fault():
    record = Record(at=("simplifying", "fills"))
    with (
        pytest.raises(OnnxLiftError, match="is too small for the model in the step 'fills'") as caught,
        answered(record),
    ):
        raise MemoryError
    assert not isinstance(caught.value, InternalError)


def test_an_error_of_a_users_operator_is_the_users(monkeypatch):
    registry.load_builtin()  # before, or they would be loaded into the copy, and be gone with it
    monkeypatch.setattr(registry, "_TABLE", dict(registry._TABLE))

    @onnxlift.op("Broken", domain="com.acme")
    def Broken(n, x):
        return [][0]

    text = MODEL.replace("Neg", "com.acme.Broken")
    with pytest.raises(OperatorError, match=r"your operator function for com.acme::Broken failed at node 'a_node'"):
        onnxlift.lift(parser.parse_model(text))


def test_what_is_no_model_is_a_type_error_and_an_answer():
    with pytest.raises(OnnxLiftError, match="a model is a path"):
        onnxlift.lift(3)
    with pytest.raises(TypeError):
        onnxlift.lift(3)
