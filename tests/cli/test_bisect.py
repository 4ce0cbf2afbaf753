"""`onnxlift bisect` and `onnxlift verify --trace`: answers, exit status, files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

from onnxlift.cli.app import app
from onnxlift.demo import transformer_block


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """before.onnx, and after.onnx with another operator in one node."""
    monkeypatch.chdir(tmp_path)
    model = transformer_block()
    onnx.save(model, "before.onnx")
    next(node for node in model.graph.node if node.name == "attn_softmax").op_type = "LogSoftmax"
    onnx.save(model, "after.onnx")
    return tmp_path


def test_the_node_is_named_and_the_reproducer_written(files: Path) -> None:
    result = CliRunner().invoke(app, ["bisect", "before.onnx", "after.onnx", "-o", "repro/", "--json"])
    assert result.exit_code == 1, result.output
    answer = json.loads(result.stdout)
    assert set(answer) == {"schema", "command", "model", "ok", "data"} and not answer["ok"]
    data = answer["data"]
    assert data["culprit"]["a"] == data["culprit"]["b"] == "attn_softmax"
    assert data["culprit"]["value"]["value"] == "attn_weights" and data["reproducer"]["nodes"] == 1
    assert sorted(Path(file).name for file in data["written"]) == [
        "inputs.npz",
        "model.onnx",
        "other.onnx",
        "reproduce.py",
    ]
    done = subprocess.run([sys.executable, "repro/reproduce.py"], check=False, capture_output=True)
    assert done.returncode == 1
    again = CliRunner().invoke(app, ["bisect", "before.onnx", "after.onnx", "-o", "repro/"])
    assert again.exit_code == 2 or "--force" in str(again.exception)


def test_a_model_from_a_pipe_that_is_the_same(files: Path) -> None:
    piped = (files / "before.onnx").read_bytes()
    result = CliRunner().invoke(app, ["bisect", "before.onnx", "-"], input=piped)
    assert result.exit_code == 0 and "agree" in result.stdout
    result = CliRunner().invoke(app, ["bisect", "-", "-"], input=piped)
    assert result.exit_code != 0 and "standard input holds one model" in str(result.exception)


def test_trace_of_verify_lists_the_values_of_two_models(files: Path) -> None:
    result = CliRunner().invoke(app, ["verify", "before.onnx", "--against", "after.onnx", "--trace"])
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    table = lines[next(place for place, line in enumerate(lines) if line.split()[:2] == ["value", "operator"]) :]
    assert table[-1].split()[:2] == ["attn_weights", "Softmax"] and "DIFFERS" in table[-1]
    assert "attn_softmax" in result.stdout


def test_a_file_that_is_no_model_is_trouble(files: Path) -> None:
    (files / "no.onnx").write_bytes(b"nothing")
    done = subprocess.run(
        [sys.executable, "-m", "onnxlift", "bisect", "before.onnx", "no.onnx", "-o", "repro"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stderr.startswith("onnxlift: ") and "Traceback" not in done.stderr
    assert not (files / "repro").exists()
