"""`onnxlift lint`: exit status, text, JSON, SARIF, globs, pipes, and what --fix writes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest

from onnxlift.cli import main
from workbench.lint.cases import CASES, MIXED, model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    onnx.save(MIXED, tmp_path / "mixed.onnx")
    onnx.save(model("y = Relu(x)"), tmp_path / "sound.onnx")
    onnx.save(model("y = Relu(x, x)"), tmp_path / "wrong.onnx")
    return tmp_path


def test_the_exit_status_is_that_of_grep(run, folder):
    assert run("lint", folder / "sound.onnx") == (0, "sound.onnx: nothing found\n", "")
    status, out, err = run("lint", folder / "mixed.onnx")
    assert (status, err) == (1, "")
    assert out.startswith("mixed.onnx: 3 warnings, 2 info (4 can be mended with --fix)\n")
    assert "  OL401 warning: dead-node\n    node 'neg2' (Neg): no output depends on it.\n    -> `--fix`" in out
    assert run("lint", folder / "mixed.onnx", "--fail-on", "error")[0] == 0
    assert run("lint", folder / "mixed.onnx", "--select", "OL40", "--ignore", "OL401,OL402")[0] == 0
    status, out, err = run("lint", folder / "wrong.onnx")
    assert (status, err) == (1, "") and "OL021 error: input-count" in out
    status, out, err = run("lint", folder / "missing.onnx")
    assert (status, out) == (2, "") and err.startswith("onnxlift: cannot read")


def test_bad_usage_is_trouble(run, folder):
    for arguments, message in [
        (["--select", "OL9"], "names no rule"),
        (["--for", "onnxruntime"], "names no release"),
        (["--fail-on", "fatal"], "fatal"),
        (["-o", "out.onnx"], "--fix"),
    ]:
        status, out, err = run("lint", folder / "sound.onnx", *arguments)
        assert (status, out) == (2, "") and message in err and "Traceback" not in err


def test_quiet_prints_only_what_is_wrong(run, folder):
    assert run("lint", folder / "sound.onnx", "--quiet") == (0, "", "")
    assert "OL303" in run("lint", folder / "mixed.onnx", "-q")[1]


def test_many_models_give_a_line_of_json_each(run, folder):
    status, out, _ = run("lint", str(folder / "*.onnx"), "--json", "--jobs", "2")
    answers = [json.loads(line) for line in out.splitlines()]
    assert status == 1
    assert [Path(each["model"]).name for each in answers] == ["mixed.onnx", "sound.onnx", "wrong.onnx"]
    assert [each["ok"] for each in answers] == [False, True, False]
    assert all(each["schema"] == "onnxlift/1" and each["command"] == "lint" for each in answers)
    assert set(answers[0]["data"]) == {"passed", "counts", "fixable", "findings", "notes"}
    assert run("lint", folder / "mixed.onnx", "--format", "json")[1] == run("lint", folder / "mixed.onnx", "--json")[1]


def test_a_model_comes_from_standard_input_and_goes_to_standard_output(folder, monkeypatch, capsysbinary):
    data = (folder / "mixed.onnx").read_bytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    monkeypatch.setattr(sys, "argv", ["onnxlift", "lint", "-", "--fix", "--no-verify", "--ignore", "OL3", "-o", "-"])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsysbinary.readouterr()
    assert not ended.value.code
    assert [node.op_type for node in onnx.load_from_string(out).graph.node] == ["MatMul"]
    assert b"fixed" in err


def test_fix_writes_what_is_better_and_says_what_is_left(run, folder):
    target = folder / "better.onnx"
    status, out, err = run("lint", folder / "mixed.onnx", "--fix", "-o", target)
    assert (status, err) == (1, "")  # a weight is still all zeros
    assert "fixed          4 (OL401 1, OL402 1, OL404 1, OL405 1)" in out
    assert "left           1 warning" in out and "verified       matches" in out and f"wrote          {target}" in out
    assert [node.op_type for node in onnx.load(target).graph.node] == ["MatMul"]
    assert run("lint", target, "--ignore", "OL303")[0] == 0
    status, out, err = run("lint", folder / "mixed.onnx", "--fix", "-o", target)
    assert status == 2 and "--force" in err


def test_fix_without_a_target_only_tells(run, folder):
    before = sorted(folder.iterdir())
    status, out, _ = run("lint", folder / "mixed.onnx", "--fix", "--no-verify", "--json", "--ignore", "OL303")
    data = json.loads(out)["data"]
    assert status == 0
    assert data["fixed"] == {"OL401": 1, "OL402": 1, "OL404": 1, "OL405": 1}
    assert data["left"]["findings"] == [] and data["written"] == []
    assert sorted(folder.iterdir()) == before


def test_what_the_gate_refuses_cannot_be_fixed(run, folder):
    status, out, err = run("lint", folder / "wrong.onnx", "--fix", "-o", folder / "new.onnx")
    assert (status, out) == (2, "")
    assert "the model is not valid" in err
    assert not (folder / "new.onnx").exists()


def test_a_runtime_that_refuses_the_model_is_told(run, tmp_path):
    onnx.save(CASES["OL501"].broken[0][0], tmp_path / "new.onnx")
    assert run("lint", tmp_path / "new.onnx")[0] == 0
    status, out, _ = run("lint", tmp_path / "new.onnx", "--for", "onnxruntime==1.17")
    assert status == 1 and "onnxruntime 1.17 takes up to 20" in out


def test_sarif_is_one_log_for_all_models(run, folder):
    (folder / "broken.onnx").write_bytes(b"no model")
    status, out, err = run("lint", str(folder / "*.onnx"), "--format", "sarif")
    log = json.loads(out)
    assert status == 2 and "broken.onnx" in err
    assert log["version"] == "2.1.0"
    (only,) = log["runs"]
    rules = only["tool"]["driver"]["rules"]
    assert only["invocations"][0]["executionSuccessful"] is False
    assert "broken.onnx" in only["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    for result in only["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith(".onnx")
    assert [result["ruleId"] for result in only["results"]] == ["OL303", "OL401", "OL402", "OL404", "OL405", "OL021"]
    assert only["results"][1]["locations"][0]["logicalLocations"] == [{"name": "neg2", "kind": "function"}]


def test_help_has_examples(run):
    status, out, _ = run("lint", "--help")
    assert status == 0 and "Example: onnxlift lint resnet50.onnx" in out
