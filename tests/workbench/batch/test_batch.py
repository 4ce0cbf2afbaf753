"""A batch: good models come out, each bad one costs a row, and what is done stays done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxlift
from onnxlift.workbench.batch import BatchReport, Row
from onnxlift.workbench.batch.children import Children, Limits

from .small import POISON, good, poisoned, save

STEPS = [{"lint": {"fail_on": "error"}}, {"simplify": {"verify": False}}, "convert"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models, of which five are poisoned."""
    folder = tmp_path_factory.mktemp("batch")
    for number in range(3):
        save(good(number), folder / f"models/good{number}.onnx")
    save(good(size="batch"), folder / "models/deep/open.onnx")
    for operator in ("Crash", "Hang", "Hoard", "Unknown"):
        save(poisoned(operator), folder / f"models/{operator}.onnx")
    (folder / "models/garbage.onnx").write_bytes(b"\x08\x08:\xff\xff garbage")
    (folder / "temporary").mkdir()
    return folder


@pytest.fixture(scope="module")
def config(folder: Path) -> dict[str, object]:
    return {
        "inputs": str(folder / "models"),
        "output_dir": str(folder / "out"),
        "input_shapes": {str(folder / "models/deep/open.onnx"): {"x": [5, 4]}},
        "steps": STEPS,
        "jobs": 2,
        "timeout": 10,
        "memory": "700MB",
    }


@pytest.fixture(scope="module")
def report(folder: Path, config: dict[str, object]) -> BatchReport:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(POISON))
        patch.setenv("TMPDIR", str(folder / "temporary"))
        return onnxlift.batch(config)


def row_of(report: BatchReport, name: str) -> Row:
    return next(row for row in report.rows if Path(row.model).stem == name)


def test_a_bad_model_costs_one_row(report: BatchReport) -> None:
    assert not report and not report.passed
    kinds = {Path(row.model).stem: row.kind for row in report.rows}
    bad = {"Crash": "crash", "Hang": "timeout", "Hoard": "memory", "Unknown": "error", "garbage": "error"}
    assert kinds == {**dict.fromkeys(("good0", "good1", "good2", "open"), "passed"), **bad}
    assert report.counts == {"passed": 4, "crash": 1, "timeout": 1, "memory": 1, "error": 2}


def test_each_row_has_its_reason(report: BatchReport) -> None:
    assert row_of(report, "Crash").reason.startswith("convert: it crashed (SIGSEGV).")
    assert row_of(report, "Hang").reason == "convert: it did not finish within 10 seconds: raise the limit (timeout)."
    assert "convert: it took more than 700.0 MB of memory" in row_of(report, "Hoard").reason
    assert "poison::Unknown" in row_of(report, "Unknown").reason
    assert [step["step"] for step in row_of(report, "Crash").steps] == ["lint", "simplify"]
    assert row_of(report, "garbage").reason.startswith("lint: ")
    text = str(report)
    assert "4 of 9 models passed; 5 did not (" in text and "Crash.onnx: crash in convert: it crashed (SIGSEGV)." in text


def test_what_is_written_computes_the_same(report: BatchReport, folder: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    for number in range(3):
        files = [folder / f"models/good{number}.onnx", folder / f"out/good{number}/good{number}.onnx"]
        before, after = (onnxruntime.InferenceSession(path).run(None, {"x": x})[0] for path in files)
        np.testing.assert_array_equal(before, after)
        assert len(onnx.load(files[1]).graph.node) < len(onnx.load(files[0]).graph.node)
        assert (folder / f"out/good{number}/good{number}.py").exists()


def test_sizes_that_are_given_are_fixed(report: BatchReport, folder: Path) -> None:
    value = onnx.load(folder / "out/deep/open/open.onnx").graph.input[0]
    assert [size.dim_value for size in value.type.tensor_type.shape.dim] == [5, 4]


def test_nothing_is_left_behind(report: BatchReport, folder: Path) -> None:
    assert list((folder / "temporary").glob("onnxlift*")) == []
    assert list((folder / "out").rglob(".*")) == []
    assert not (folder / "out/Crash").exists() or list((folder / "out/Crash").iterdir())


def test_every_row_is_a_line_in_the_envelope(report: BatchReport, folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "out/report.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted(line["model"] for line in lines) == sorted(row.model for row in report.rows)
    assert {tuple(line)[:5] for line in lines} == {("schema", "command", "model", "ok", "data")}
    assert sum(line["ok"] for line in lines) == 4
    assert json.loads(json.dumps(report.to_dict()))["counts"] == report.counts


def test_what_is_done_is_not_done_again(report: BatchReport, folder: Path, config: dict[str, object]) -> None:
    before = sorted((folder / "out/report.jsonl").read_bytes().splitlines())
    with (folder / "out/report.jsonl").open("ab") as file:
        file.write(b'{"schema": "onnxlift/1", "model": "cut off in the mid')
    again = onnxlift.batch(config)
    assert all(row.kept for row in again.rows) and again.counts == report.counts
    assert sorted((folder / "out/report.jsonl").read_bytes().splitlines()) == before
    assert "9 had been done before" in again.summary


def test_a_folder_that_is_not_ours_is_left_alone(folder: Path, config: dict[str, object]) -> None:
    (folder / "taken").mkdir()
    (folder / "taken/thesis.txt").touch()
    own = {**config, "inputs": str(folder / "models/good0.onnx"), "output_dir": str(folder / "taken")}
    with pytest.raises(onnxlift.OutputError, match="is not empty, and not the folder of a batch"):
        onnxlift.batch(own)
    assert [path.name for path in (folder / "taken").iterdir()] == ["thesis.txt"]


def test_after_a_failure_nothing_else_is_begun(folder: Path) -> None:
    models = [str(folder / f"models/{name}.onnx") for name in ("garbage", "good0", "good1", "good2")]
    report = onnxlift.batch(
        {"inputs": models, "output_dir": str(folder / "stopped"), "steps": STEPS, "on_error": "stop"}
    )
    assert not report.passed and [row.kind for row in report.rows] == ["error"] and report.stopped == 3
    assert "3 were not tried after a failure" in report.summary


def test_a_model_that_does_not_pass_is_not_written_and_ends_its_steps(tmp_path: Path) -> None:
    path = save(good(), tmp_path / "a.onnx")
    report = onnxlift.batch(
        {
            "inputs": str(path),
            "output_dir": str(tmp_path / "out"),
            "steps": [{"verify": {"atol": 0, "rtol": 0, "gradients": False}}, {"opset": {"version": 999}}, "lint"],
        }
    )
    (row,) = report.rows
    assert [(step["step"], step["passed"]) for step in row.steps] == [("verify", True), ("opset", False)]
    assert row.kind == "error" and row.reason.startswith("opset: ") and not list((tmp_path / "out").glob("**/*.onnx"))


def test_killed_and_started_again_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{Path(onnxlift.__file__).parents[1]}{os.pathsep}{POISON}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for number in range(3):
        save(good(number), tmp_path / f"models/{number}.onnx")
    save(poisoned("Hang"), tmp_path / "models/3.onnx")
    (tmp_path / "batch.yml").write_text("inputs: models\noutput_dir: out\nsteps: [convert]\n", encoding="utf-8")
    command = [sys.executable, "-P", "-m", "onnxlift", "batch", "batch.yml"]
    rows = tmp_path / "out/report.jsonl"
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    _wait(lambda: rows.exists() and rows.read_bytes().count(b"\n") == 3 and bool(_at_work(tmp_path)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    _wait(lambda: not _at_work(tmp_path))
    done = rows.read_bytes()
    save(good(7), tmp_path / "models/3.onnx")
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "4 of 4 models passed; 3 had been done before" in ended.stdout
    assert rows.read_bytes().startswith(done) and rows.read_bytes().count(b"\n") == 4


def _at_work(folder: Path) -> list[Path]:
    """The folders of children that are at work."""
    return [path for path in folder.glob("onnxlift-batch-*") if (path / "told.jsonl").exists()]


def _wait(done: object) -> None:
    assert callable(done)
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_server_that_dies_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(good(), tmp_path / "a.onnx")
    with Children("look") as children:
        tasks = [{"models": [str(path)]}] * 2
        ended = children.run(tasks, Limits(60, 1 << 30))
        assert next(ended)[1].told[0]["inputs"] == ["x"]
        assert children._server is not None
        os.killpg(children._server.pid, signal.SIGKILL)
        assert next(ended)[1].told[0]["inputs"] == ["x"]
        assert list(ended) == []
