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
from onnxlift.verification import verify as verification
from onnxlift.verification import worker
from onnxlift.verification.child import ChildError, Limits
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
        monkeypatch.setattr(verification, "run_child", self.run)
        monkeypatch.setattr(verification, "read_values", lambda path: dict(self.answers.get(path.name, reference)))

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
    sides = FakeSides(monkeypatch, {"y": ones}, {"y": ones})
    sides.crash_of_onnxruntime = True
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
    sides = FakeSides(monkeypatch, {"y": ones}, {"y": ones + 1})

    def run(job: Path, task: dict[str, object], who: str, limits: Limits) -> dict[str, str]:
        if task.get("probes") is not None:
            raise ChildError("the lifted model took more than 1 GB of memory")
        return FakeSides.run(sides, job, task, who, limits)  # type: ignore[arg-type]

    monkeypatch.setattr(verification, "run_child", run)
    report = verification.verify(small("y = Neg(x)"), lifted=onnxlift.lift(small("y = Neg(x)")))
    assert not report.passed
    assert report.notes == ("cannot look inside: the lifted model took more than 1 GB of memory",)


def test_sizes_that_do_not_suit_the_model_are_told() -> None:
    text = "g (float[n, 1, time] x, float[1, 1, 99] w) => (float[n, 1, frames] y) { y = Conv(x, w) }"
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}')
    with pytest.raises(VerifyError, match=r"It ran on x float32 \(2, 1, \d+\); .* give them with --dim or --shape"):
        onnxlift.verify(model)
    assert onnxlift.verify(model, dims={"time": 120}).passed
