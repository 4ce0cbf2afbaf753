"""`onnxlift.export`: what it writes computes what ONNX Runtime does, at other sizes too, or it says why not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import onnxlift
from models.handmade import beam_step, lstm_classifier
from onnxlift.verification.children.child import ChildError
from onnxlift.workbench.export import ExportError
from workbench.models import branches, chain, parsed, with_data_file

from .conftest import Here

TWO = """two (float[batch, time, 4] x, int64[batch, time] mask) => (float[batch, 4] y, int64[1] n) {
    f = Cast <to = 1> (mask) axes = Constant <value_ints = [2]> () g = Unsqueeze(f, axes) h = Mul(x, g)
    second = Constant <value_ints = [1]> () s = ReduceSum <keepdims = 0> (h, second) y = Add(s, w)
    shape = Shape(x) at = Constant <value_ints = [1]> () n = Gather(shape, at) }"""


def two_inputs() -> onnx.ModelProto:
    """Two inputs with the same open sizes, and a second output that is a size."""
    return parsed(TWO, w=[1, 2, 3, 4])


def test_open_sizes_stay_open_and_numbers_match(here: Here, tmp_path: Path) -> None:
    model = two_inputs()
    report = onnxlift.export(model)
    assert report and report.passed and report.facts.open == ("batch", "time") and not report.facts.fixed
    assert report.verification is not None and len(report.verification.runs) == 3
    assert report.save(tmp_path / "two.pt2") == [tmp_path / "two.pt2"]
    extra = {"onnxlift.json": ""}
    program = torch.export.load(tmp_path / "two.pt2", extra_files=extra)
    interface = json.loads(extra["onnxlift.json"])
    assert interface["open"] == [{"0": "batch", "1": "time"}] * 2 and list(interface["inputs"]) == ["x", "mask"]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    random = np.random.default_rng(1)
    for batch, time in ((1, 1), (6, 11)):
        x = random.standard_normal((batch, time, 4)).astype(np.float32)
        mask = random.integers(0, 2, (batch, time))
        expected = session.run(None, {"x": x, "mask": mask})
        for actual, wanted in zip(program.module()(torch.from_numpy(x), torch.from_numpy(mask)), expected, strict=True):
            np.testing.assert_allclose(actual.detach(), wanted, rtol=1e-5, atol=1e-6)


def test_the_report_reads_and_saves(here: Here, tmp_path: Path) -> None:
    report = onnxlift.export(chain(), verify=False)
    assert report.verification is None and json.loads(json.dumps(report.to_dict()))["kind"] == "pt2"
    assert "open sizes     n" in str(report) and "ATen operators" in str(report)
    assert here[0]["runs"] == 0
    target = tmp_path / "new" / "chain.pt2"
    report.save(target)
    before = target.read_bytes()
    assert before == report.to_bytes()
    with pytest.raises(onnxlift.OutputError, match="pass --force"):
        report.save(target)
    with pytest.raises(onnxlift.OutputError, match="holds its weights itself"):
        report.save(tmp_path / "other.pt2", external_data="weights.bin")
    report.save(target, force=True)
    assert [path.name for path in target.parent.iterdir()] == ["chain.pt2"]
    assert isinstance(report.program, torch.export.ExportedProgram)


def test_sizes_can_be_fixed(here: Here) -> None:
    some = onnxlift.export(two_inputs(), dims={"time": 5})
    assert some.facts.open == ("batch",) and some.facts.fixed == {"time": 5} and some.passed
    with pytest.raises(AssertionError):
        some.program.module()(torch.randn(2, 6, 4), torch.ones(2, 6, dtype=torch.int64))
    other = onnxlift.export(two_inputs(), shapes={"mask": (3, 5)}, verify=False)
    assert other.facts.open == () and other.facts.fixed == {"batch": 3, "time": 5}
    every = onnxlift.export(two_inputs(), static=True, shapes={"x": (3, 5, 4)})
    assert every.passed and every.facts.open == () and every.facts.fixed == {"batch": 3, "time": 5}
    assert every.verification is not None and len(every.verification.runs) == 1


def test_recurrent_models_keep_time_open(here: Here) -> None:
    report = onnxlift.export(lstm_classifier())
    assert report.passed and report.facts.operators["lstm.input"] == 1 and not report.facts.fixed


def test_external_data_is_read_beside_the_model(here: Here, tmp_path: Path) -> None:
    assert onnxlift.export(with_data_file(tmp_path)).passed


@pytest.mark.parametrize(
    ("model", "node", "operator", "text"),
    [(beam_step, "choose_start", "If", "if x.sum() > 0:"), (branches, "", "If", "if ")],
)
def test_what_data_decides_is_an_error_with_node_and_line(
    here: Here, model: object, node: str, operator: str, text: str
) -> None:
    proto = model()
    with pytest.raises(ExportError) as caught:
        onnxlift.export(proto)
    error = caught.value
    assert error.is_data and error.line and f"({operator})" in str(error) and "data decides" in str(error)
    assert node in error.nodes or not node
    assert text in onnxlift.lift(proto).source.splitlines()[error.line - 1]


def test_onnx_again_is_a_model_that_every_verb_takes(here: Here, tmp_path: Path) -> None:
    report = onnxlift.export(chain(), onnx=True)
    assert report.passed and report.verification is not None and len(report.verification.runs) == 2
    (path,) = report.save(tmp_path / "again.onnx")
    again = onnx.load(path)
    assert [value.name for value in again.graph.output] == ["y", "z"]
    assert again.producer_name == "pytorch" or again.graph.node
    assert onnxlift.simplify(report, verify=False).passed


def test_a_wrong_result_does_not_pass(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxlift.workbench.export import worker

    real = worker.load_program
    monkeypatch.setattr(worker, "load_program", lambda path: lambda *x: [y + 0.1 for y in real(path)(*x)])
    report = onnxlift.export(chain())
    assert not report.passed and "DOES NOT MATCH" in str(report)


def test_a_program_that_refuses_a_size_does_not_pass(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxlift.workbench.export import worker

    def only_two(x: torch.Tensor) -> list[torch.Tensor]:
        if len(x) != 2:
            raise AssertionError("Guard failed: x.size()[0] == 2")
        return [torch.zeros(1), torch.zeros(1)]

    monkeypatch.setattr(worker, "load_program", lambda path: only_two)
    report = onnxlift.export(chain())
    assert not report.passed and report.verification is not None
    assert "the export does not: AssertionError: Guard failed" in report.verification.runs[1].problem


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("g (string[n] x) => (string[n] y) { y = Identity(x) }", {}, "input 'x' is string (n), and programs of torch"),
        ("g (float[n] x) => (float[n] y) { y = Neg(x) }", {"aoti": True, "onnx": True}, "choose one"),
        ("g (float[n] x) => (float[n] y) { y = Neg(x) }", {"dims": {"m": 3}}, "no input has a dimension named m"),
        ("g (float[n] x) => (float[n] y) { y = Neg(x) }", {"memory": "100MB"}, "needs about 6"),
    ],
)
def test_bad_input_is_one_paragraph(text: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(onnxlift.OnnxLiftError) as caught:
        onnxlift.export(parsed(text), **options)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_limit_that_is_reached_says_what_was_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxlift.workbench.export import verb

    def too_slow(job: Path, *arguments: object) -> object:
        (job / "phase").write_text("compiling")
        raise ChildError("torch did not finish within 3 seconds: raise the limit (--timeout).")

    monkeypatch.setattr(verb, "run_child", too_slow)
    with pytest.raises(ExportError, match=r"AOTInductor cannot compile the program: torch did not finish within 3"):
        onnxlift.export(chain(), verify=False)


def test_a_compiled_package_takes_the_inputs_in_order(here: Here, tmp_path: Path) -> None:
    text = "g (float[n, 4] a, float[n, 4] b) => (float[n, 4] y) { h = Mul(a, w) y = Sub(h, b) }"
    report = onnxlift.export(parsed(text, w=[1, 2, 3, 4]), aoti=True)
    assert report.passed and report.facts.kind == "aoti" and report.facts.open == ("n",)
    (path,) = report.save(tmp_path / "fast.pt2")
    fast = torch._inductor.aoti_load_package(str(path))
    a, b = torch.randn(5, 4), torch.randn(5, 4)
    torch.testing.assert_close(fast(a, b), a * torch.tensor([1.0, 2, 3, 4]) - b)
    assert "onnxlift.json" in fast.get_metadata()
    with pytest.raises(onnxlift.OnnxLiftError, match="holds no program"):
        _ = report.program
