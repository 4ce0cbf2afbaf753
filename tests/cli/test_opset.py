"""`onnxlift opset`: what it takes, prints and writes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import onnx
import pytest
from onnx import parser

from .conftest import Run

TEXT = "g (float[2, 1, n] x) => (float[2, n] y) <int64[1] axes = {1}> { y = Squeeze (x, axes) }"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "model.onnx"
    onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> {TEXT}'), target)
    return target


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    target = tmp_path / "stuck.onnx"
    text = "g (string[2] a) => (string[2] s) { s = StringConcat (a, a) }"
    onnx.save(parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {text}'), target)
    return target


def version_of(path: Path) -> int:
    return int(onnx.load(path).opset_import[0].version)


def test_it_writes_the_model_at_another_opset(run: Run, path: Path, tmp_path: Path) -> None:
    status, out, _ = run("opset", 11, path, "-o", tmp_path / "out.onnx")
    assert status == 0
    assert "13 -> 11" in out and "matches" in out
    assert version_of(tmp_path / "out.onnx") == 11


def test_newest_and_domains_and_ir_version(run: Run, path: Path, tmp_path: Path) -> None:
    arguments = ("opset", "newest", "ai.onnx.ml=3", path, "--ir-version", 9, "-o", tmp_path / "out.onnx", "--no-verify")
    assert run(*arguments)[0] == 0
    assert version_of(tmp_path / "out.onnx") == onnx.defs.onnx_opset_version()
    assert onnx.load(tmp_path / "out.onnx").ir_version == 9


def test_for_a_runtime(run: Run, path: Path, tmp_path: Path) -> None:
    arguments = ("opset", "--for", "onnxruntime==1.5", path, "-o", tmp_path / "out.onnx", "--no-verify")
    assert run(*arguments)[0] == 0
    assert version_of(tmp_path / "out.onnx") == 12


def test_json_has_the_envelope_and_the_facts(run: Run, path: Path) -> None:
    status, out, _ = run("opset", 11, path, "--json", "--no-verify")
    found = json.loads(out)
    assert (status, found["schema"], found["command"], found["ok"]) == (0, "onnxlift/1", "opset", True)
    assert found["data"] == {
        "passed": True,
        "opsets": {"before": {"ai.onnx": 13}, "after": {"ai.onnx": 11}},
        "ir_version": {"before": 8, "after": 8},
        "nodes": {"before": 1, "after": 1},
        "steps": {"Squeeze": 1},
        "verification": None,
        "notes": [],
        "written": [],
    }


def test_what_cannot_go_is_an_error_and_nothing_is_written(run: Run, stuck: Path, tmp_path: Path) -> None:
    status, _, err = run("opset", 13, stuck, "-o", tmp_path / "out.onnx")
    assert status == 2
    assert "there is no StringConcat before opset 20. Opset 20 would do." in err
    assert not (tmp_path / "out.onnx").exists()


def test_globs_give_one_answer_each(run: Run, path: Path, stuck: Path, tmp_path: Path) -> None:
    status, out, err = run("opset", 13, tmp_path / "*.onnx", "-o", f"{tmp_path}/out/", "--no-verify")
    assert status == 2
    assert "model.onnx" in out and "stuck.onnx" in err
    assert version_of(tmp_path / "out" / "model.onnx") == 13


def test_pipes(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = io.BytesIO(path.read_bytes()), io.BytesIO()
    monkeypatch.setattr(sys, "stdin", type("In", (), {"buffer": source})())
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(target, write_through=True))
    run("opset", 11, "-", "-o", "-", "--no-verify")
    assert onnx.load_model_from_string(target.getvalue()).opset_import[0].version == 11


@pytest.mark.parametrize("arguments", [("model.onnx",), ("17",), ("17", "missing.onnx"), ("0", "model.onnx")])
def test_bad_usage_exits_with_2_and_no_traceback(run: Run, path: Path, arguments: tuple[str, ...]) -> None:
    given = [str(path) if each == "model.onnx" else each for each in arguments]
    status, _, err = run("opset", *given)
    assert status == 2
    assert "Traceback" not in err and err
