"""`onnxlift.verify` as a whole: it passes what is right, and points at what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import onnxlift
from models.handmade import transformer_block
from onnxlift.errors import VerifyError
from onnxlift.verification import sides, worker
from onnxlift.verification import verify as verification
from onnxlift.verification.children.child import ChildError, Limits
from onnxlift.verification.values import write_values


def test_a_lifted_model_matches() -> None:
    report = onnxlift.verify(transformer_block(), dims={"batch": 3}, trace=True)
    assert report and report.passed
    assert report.reference.startswith("ONNX Runtime")
    assert report.inputs == {"x": "float32 (3, 10, 64)"}
    (output,) = report.outputs
    assert output.shape == (3, 10, 64) and output.max_abs is not None and 0 < output.max_abs < 1e-4
    assert re.search(r"[1-9]\d* values inside the model match as well", str(report))
    json.dumps(report.to_dict())


def test_an_edited_file_is_found_out_and_the_line_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "block.onnx"
    onnx.save(transformer_block(), path)
    source = onnxlift.lift(path).save(tmp_path)[0]
    text = source.read_text()
    assert text.count("F.relu(") == 1
    source.write_text("# edited by hand\n" + text.replace("F.relu(", "F.gelu("))
    report = onnxlift.verify(path, against=source, trace=True)
    assert not report.passed
    assert report.divergence is not None
    assert "F.gelu(" in report.divergence.source
    assert report.divergence.source in source.read_text().splitlines()[report.divergence.first_line - 1]
    assert "ff1_relu" in report.divergence.nodes
    assert report.divergence.compared > 3
    assert "does not match" in str(report) and "FAILED" in str(report) and "F.gelu(" in str(report)


def test_an_error_in_the_file_says_where(tmp_path: Path) -> None:
    source = onnxlift.lift(transformer_block(), name="block").save(tmp_path)[0]
    lines = source.read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if "F.relu(" in text)
    source.write_text("\n".join(lines).replace("F.relu(", "F.does_not_exist("))
    task = {"side": "lifted", "source": str(source), "outputs": ["output"], "probes": None}
    (tmp_path / "task.json").write_text(json.dumps(task))
    write_values(tmp_path / "inputs", {"x": np.ones((1, 10, 64), np.float32)})
    worker.main(tmp_path)  # what the child process does, here
    error = json.loads((tmp_path / "answer.json").read_text())["error"]
    assert error.startswith("AttributeError: ") and error.endswith(f"(line {line} of block.py)")


def test_no_file_to_verify(tmp_path: Path) -> None:
    with pytest.raises(VerifyError, match="there is no file"):
        onnxlift.verify(transformer_block(), against=tmp_path / "no.py")


class FakeSides:
    """In the place of the child processes: answers that a test has prepared."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, lifted: dict[str, object], reference: dict[str, object]
    ) -> None:
        self.answers = {"lifted": lifted, "reference": reference}
        self.crash_of_onnxruntime = False
        monkeypatch.setattr(sides, "run_child", self.run)
        monkeypatch.setattr(sides, "read_values", lambda path: dict(self.answers.get(path.name, reference)))

    def run(self, job: Path, task: dict[str, str], who: str, limits: Limits) -> dict[str, str]:
        if self.crash_of_onnxruntime and who == "ONNX Runtime":
            raise ChildError("ONNX Runtime crashed (SIGSEGV).", crashed=True)
        return {"runtime": who}


def small(body: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) {{ {body} }}')


def test_random_outputs_are_compared_by_type_and_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    ones = np.ones(3, np.float32)
    model = small("r = RandomNormalLike(x) y = Add(x, r)")
    FakeSides(monkeypatch, {"y": ones}, {"y": ones + 1})
    lifted = onnxlift.lift(small("y = Add(x, x)"))
    lifted.model = onnxlift.ir.load.load(model)  # so that the test does not depend on how randomness is lifted
    report = verification.verify(model, lifted=lifted)
    assert report.passed and "random" in report.outputs[0].note
    FakeSides(monkeypatch, {"y": ones}, {"y": ones[:2]})
    assert not verification.verify(model, lifted=lifted).passed


def test_after_a_crash_of_onnxruntime_the_evaluator_of_onnx_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    ones = np.ones(3, np.float32)
    fake = FakeSides(monkeypatch, {"y": ones}, {"y": ones})
    fake.crash_of_onnxruntime = True
    report = verification.verify(small("y = Neg(x)"), lifted=onnxlift.lift(small("y = Neg(x)")))
    assert report.reference == "onnx.reference (ONNX Runtime crashed (SIGSEGV))"
    assert report.passed


def test_a_mismatch_is_looked_into_without_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    ones = np.ones(3, np.float32)
    FakeSides(monkeypatch, {"y": ones}, {"y": ones + 1})
    report = verification.verify(small("a = Neg(x) y = Exp(a)"), lifted=onnxlift.lift(small("a = Neg(x) y = Exp(a)")))
    assert not report.passed
    assert report.divergence is not None
    assert (report.divergence.value, report.divergence.op_type) == ("y", "Exp")
    assert "return" in report.divergence.source


def test_a_report_is_given_even_if_looking_inside_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    ones = np.ones(3, np.float32)
    fake = FakeSides(monkeypatch, {"y": ones}, {"y": ones + 1})

    def run(job: Path, task: dict[str, object], who: str, limits: Limits) -> dict[str, str]:
        if task.get("probes") is not None:
            raise ChildError("the lifted model took more than 1 GB of memory")
        return FakeSides.run(fake, job, task, who, limits)  # type: ignore[arg-type]

    monkeypatch.setattr(sides, "run_child", run)
    report = verification.verify(small("y = Neg(x)"), lifted=onnxlift.lift(small("y = Neg(x)")))
    assert not report.passed
    assert report.notes == ("cannot look inside: the lifted model took more than 1 GB of memory",)


def half(body: str, size: int = 64) -> onnx.ModelProto:
    head = f'<ir_version: 9, opset_import: ["" : 17]> g (float[n, {size}] x) => (float[n, {size}] y)'
    proto = parser.parse_model(f"{head} {{ {body} }}")
    weight = np.random.default_rng(0).standard_normal((size, size)).astype(np.float16)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "weight"))
    return proto


HALF = "h = Cast<to = 10>(x) a = MatMul(h, weight) b = MatMul(a, weight) y = Cast<to = 1>(b)"


def test_a_model_that_computes_in_half_precision_is_judged_by_it() -> None:
    report = onnxlift.verify(half(HALF))
    assert report.passed and report.outputs[0].dtype == "float32"
    assert any("float16" in note and "--dtype float32" in note for note in report.notes)


def test_rounding_of_half_precision_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = np.linspace(-4, 4, 128, dtype=np.float32).reshape(2, 64)
    FakeSides(monkeypatch, {"y": expected * np.float32(1.004)}, {"y": expected})
    report = verification.verify(half(HALF), lifted=onnxlift.lift(half(HALF)))
    assert report.passed and "rounding: the model computes in float16" in str(report)
    full = onnxlift.lift(small("y = Neg(x)"))
    FakeSides(monkeypatch, {"y": np.float32([1, 2, 3.1])}, {"y": np.float32([1, 2, 3])})
    assert not verification.verify(small("y = Neg(x)"), lifted=full).passed


def test_what_onnxruntime_differs_from_itself_by_is_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSides(monkeypatch, {"y": np.float32([1, 2, 3.1])}, {"y": np.float32([1, 2, 3])})
    fake.answers["optimised"] = {"y": np.float32([1, 2.09, 3])}
    lifted = onnxlift.lift(small("y = Neg(x)"))
    report = verification.verify(small("y = Neg(x)"), lifted=lifted)
    assert report.passed
    assert "rounding: the reference differs from itself by up to 0.09 with and without its optimisations" in str(report)
    assert not verification.verify(small("y = Neg(x)"), lifted=lifted, rtol=1e-3).passed, "the user decides"
    fake.answers["optimised"] = {"y": np.float32([1, 2.01, 3])}
    assert not verification.verify(small("y = Neg(x)"), lifted=lifted).passed
    fake.answers["optimised"] = {"y": np.float32([1, np.nan, 3])}
    assert not verification.verify(small("y = Neg(x)"), lifted=lifted).passed


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_a_model_is_verified_in_another_precision(dtype: str, tmp_path: Path) -> None:
    assert onnxlift.verify(half(HALF), dtype=dtype, trace=True).passed
    saved = onnxlift.lift(half(HALF), name="halves").save(tmp_path)[0]
    assert onnxlift.verify(half(HALF), dtype=dtype, against=saved).passed


def test_inputs_and_outputs_of_half_precision_are_converted_on_the_way() -> None:
    head = '<ir_version: 9, opset_import: ["" : 17]> g (float16[n, 4] x) => (float16[n, 4] y)'
    proto = parser.parse_model(f"{head} {{ y = Mul(x, scale) }}")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(1, 5, dtype=np.float16), "scale"))
    report = onnxlift.verify(proto, dtype="float32")
    assert report.passed and report.inputs == {"x": "float16 (2, 4)"} and not report.notes


def test_a_syntax_error_in_the_file_is_no_question_of_sizes(tmp_path: Path) -> None:
    source = tmp_path / "edited.py"
    source.write_text("class Net(nn.Module:\n    pass\n")
    with pytest.raises(VerifyError) as raised:
        onnxlift.verify(transformer_block(), against=source)
    assert "SyntaxError" in str(raised.value) and "edited.py, line 1" in str(raised.value)
    assert "size" not in str(raised.value) and "--shape" not in str(raised.value)


def test_a_lifted_model_that_fails_where_onnxruntime_does_not_is_at_fault(tmp_path: Path) -> None:
    source = onnxlift.lift(transformer_block(), name="block").save(tmp_path)[0]
    source.write_text(source.read_text().replace("F.relu(", "F.does_not_exist("))
    with pytest.raises(VerifyError, match="the lifted model failed: AttributeError") as raised:
        onnxlift.verify(transformer_block(), against=source)
    assert "at fault" not in str(raised.value)
