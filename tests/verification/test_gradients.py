"""`verify` calls the lifted model with gradients on, and says what gets none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from torch import Tensor, nn

import onnxlift
from models.handmade import transformer_block
from onnxlift.verification import gradients, sides, worker
from onnxlift.verification.children.child import ANSWER, ChildError
from onnxlift.verification.report import Gradients, Report
from onnxlift.verification.values import read_values, write_values

BRANCH = """
<ir_version: 10, opset_import: ["" : 21]> g (float[N, 4] x, bool c) => (float[N, 4] y)
<float[4] scale = {1, 2, 3, 4}, float[4] shift = {4, 3, 2, 1}> {
    y = If (c) <
        then_branch = a () => (float[N, 4] t) { t = Mul(x, scale) },
        else_branch = b () => (float[N, 4] e) { e = Add(x, shift) }
    >
}"""
LOOP = """
<ir_version: 10, opset_import: ["" : 21]> g (float[N, 4] x, int64 n) => (float[N, 4] y)
<float[4] scale = {1, 2, 3, 4}> {
    y = Loop (n, , x) <body = b (int64 i, bool c, float[N, 4] h) => (bool d, float[N, 4] t) {
        d = Identity(c) t = Mul(h, scale)
    }>
}"""
NONZERO = """
<ir_version: 10, opset_import: ["" : 21]> g (float[N, 4] x) => (float[M] y)
<float[4] scale = {1, 2, 3, 4}> {
    h = Mul(x, scale) m = NonZero(h) i = Transpose(m) y = GatherND(h, i)
}"""
COMPUTED_STATISTICS = """
<ir_version: 10, opset_import: ["" : 21]> g (float[N, 4, 5] x) => (float[N, 4, 5] y)
<float[4] scale = {1, 2, 3, 4}, float[4] shift = {4, 3, 2, 1}, int64[2] axes = {0, 2}> {
    h = Abs(x) m = ReduceMean <keepdims = 0> (h, axes) y = BatchNormalization(x, scale, shift, m, m)
}"""
INTEGERS = """
<ir_version: 10, opset_import: ["" : 21]> g (float[N, 4] x) => (int64[N, 1] y)
<float[4] scale = {1, 2, 3, 4}> { h = Mul(x, scale) y = ArgMax <axis = 1> (h) }"""
THRESHOLD = """
<ir_version: 10, opset_import: ["" : 21]> g (float[N, 4] x) => (float[N, 4] y)
<float[4] scale = {1, 2, 3, 4}, float[4] limit = {4, 3, 2, 1}> {
    h = Mul(x, scale) r = Exp(limit) c = Greater(h, r) y = Where(c, h, x)
}"""


def test_a_model_that_trains_says_so() -> None:
    report = onnxlift.verify(transformer_block(), dims={"batch": 2})
    assert report.passed and report.gradients is not None
    assert report.gradients.parameters > 4 and report.gradients.without == {} and not report.gradients.error
    count = report.gradients.parameters
    assert f"  ok      gradients  {count} of {count} parameters get one" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["gradients"]["parameters"] == count


def test_it_can_be_left_out() -> None:
    report = onnxlift.verify(onnx.parser.parse_model(NONZERO), gradients=False)
    assert report.passed and report.gradients is None and "gradients" not in str(report)


@pytest.mark.parametrize("text", [LOOP, NONZERO, COMPUTED_STATISTICS], ids=["Loop", "NonZero", "statistics"])
def test_control_flow_and_data_dependent_sizes_train(text: str) -> None:
    inputs = {"n": np.array(3)} if "Loop" in text else None
    report = onnxlift.verify(onnx.parser.parse_model(text), inputs=inputs)
    assert report.passed, report
    assert report.gradients is not None and report.gradients.parameters > 0 and report.gradients.without == {}


def test_a_branch_that_is_not_taken_has_no_gradient() -> None:
    report = onnxlift.verify(onnx.parser.parse_model(BRANCH), inputs={"c": np.array(True)})
    assert report.passed and report.gradients is not None
    assert report.gradients.without == {"shift": gradients.UNUSED}
    assert f"note    no gradient for shift: {gradients.UNUSED}" in str(report)


def test_no_gradient_passes_a_comparison() -> None:
    report = onnxlift.verify(onnx.parser.parse_model(THRESHOLD))
    assert report.passed and report.gradients is not None
    assert report.gradients.without == {"limit": gradients.PASSES_NONE}


def test_integers_have_no_gradient() -> None:
    report = onnxlift.verify(onnx.parser.parse_model(INTEGERS))
    assert report.passed and report.gradients is not None
    assert report.gradients.without == {"scale": gradients.NO_OUTPUT}


def edited(tmp_path: Path, old: str, new: str) -> Report:
    """The report on a transformer block in whose source a text was replaced."""
    path = tmp_path / "block.onnx"
    onnx.save(transformer_block(), path)
    source = onnxlift.lift(path).save(tmp_path)[0]
    text = source.read_text()
    assert text.count(old) == 1
    source.write_text(text.replace(old, new))
    return onnxlift.verify(path, against=source)


def test_what_fails_with_gradients_on_is_a_failed_verification(tmp_path: Path) -> None:
    report = edited(tmp_path, "self.ff1(ln1)", "torch.from_numpy(self.ff1(ln1).numpy())")
    assert report.matches and not report.passed and not report
    text = str(report)
    assert text.startswith("block.py matches ONNX Runtime") and ", but does not train" in text.splitlines()[0]
    assert "FAILED  gradients  it cannot be called with gradients on: RuntimeError: " in text
    assert "of block.py)" in text


class Model(nn.Module):
    """A model whose forward is that of a test."""

    def __init__(self, forward: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.run = forward

    def forward(self, x: Tensor) -> Any:
        return self.run(self, x)


def found(forward: Any) -> Gradients:
    answer = gradients.find_gradients(Model(forward).eval(), lambda: [torch.ones(3)], lambda error: " (line 7)")
    return Gradients(**json.loads(json.dumps(answer)))


def test_a_backward_pass_that_fails_is_told() -> None:
    def forward(model: Model, x: Tensor) -> Tensor:
        y = (model.weight * x).exp()
        z = y.sin()
        y.add_(1)  # the derivatives of exp and sin need what it was
        return z

    assert found(forward).error.startswith("it cannot be trained: the backward pass fails: RuntimeError: one of the ")


def test_train_mode_is_tried_too() -> None:
    def forward(model: Model, x: Tensor) -> Tensor:
        if model.training:
            raise TypeError("not while training")
        return model.weight * x

    result = found(forward)
    assert result.error == "it cannot be called in train mode: TypeError: not while training (line 7)"
    assert result.without == {}


@pytest.mark.parametrize(
    "text",
    [
        "Expected more than 1 value per channel when training, got input size torch.Size([1, 4])",
        "\"softmax\" not implemented for 'Half'",
        "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory",
    ],
)
def test_what_pytorch_itself_cannot_do_is_a_note(text: str) -> None:
    def forward(model: Model, x: Tensor) -> Tensor:
        raise RuntimeError(text)

    result = found(forward)
    assert not result.error and text in result.limit
    assert "gradients were not checked in full" in "".join(result.notes)


def test_results_of_every_form_count() -> None:
    assert found(lambda model, x: ([x, {"a": model.weight * x}], None, 3)).without == {}
    assert found(lambda model, x: (x, x.argmax())).without == {"weight": gradients.NO_OUTPUT}


def test_parameters_that_are_frozen_want_none() -> None:
    model = Model(lambda model, x: model.weight * x)
    model.weight.requires_grad_(False)
    assert gradients.find_gradients(model, lambda: [torch.ones(3, dtype=torch.float64)], str) == {
        "parameters": 0,
        "without": {},
    }


def test_names_that_differ_in_numbers_are_told_together() -> None:
    told = Gradients(9, {f"blocks.{i}.scale": "why" for i in range(4)} | {"head.bias": "why", "norm1.w": "other"})
    assert list(told.notes) == [
        "no gradient for blocks.*.scale (4), head.bias: why",
        "no gradient for norm1.w: other",
    ]
    assert str(told) == "3 of 9 parameters get one"


def test_the_outputs_are_safe_before_gradients_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = onnxlift.lift(onnx.parser.parse_model(NONZERO), name="net").save(tmp_path)[0]
    task = {"side": "lifted", "source": str(source), "outputs": ["y"], "probes": None, "gradients": True}
    (tmp_path / "task.json").write_text(json.dumps(task))
    write_values(tmp_path / "inputs", {"x": np.ones((2, 4), np.float32)})

    def stopped(*arguments: object) -> None:
        assert json.loads((tmp_path / ANSWER).read_text()) == {} and list(read_values(tmp_path / "lifted")) == ["y"]
        raise KeyboardInterrupt

    monkeypatch.setattr(gradients, "find_gradients", stopped)
    with pytest.raises(KeyboardInterrupt):
        worker.main(tmp_path)


@pytest.mark.parametrize("crashed", [False, True], ids=["limit", "crash"])
def test_only_a_crash_with_gradients_on_is_a_failure(monkeypatch: pytest.MonkeyPatch, crashed: bool) -> None:
    real = sides.run_child

    def run_child(job: Path, task: dict[str, Any], who: str, limits: Any) -> dict[str, Any]:
        answer = real(job, {**task, "gradients": False}, who, limits)
        if task.get("gradients"):
            raise ChildError("the lifted model took more than 1 kB of memory", crashed=crashed)
        return answer

    monkeypatch.setattr(sides, "run_child", run_child)
    report = onnxlift.verify(onnx.parser.parse_model(NONZERO))
    assert report.matches and report.passed is not crashed
    assert "with gradients on, the lifted model took more than 1 kB of memory" in str(report)
