"""`onnxlift simplify`, and what all verbs that change models share: targets, pipes, globs, JSON, exit codes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from onnxlift.cli import main
from onnxlift.verification.models import ModelVerification
from onnxlift.workbench import report as reports

from .conftest import Run

HEAD = '<ir_version: 9, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y)'
TEXT = f"{HEAD} {{ a = Exp(x) b = Identity(a) y = Neg(b) }}"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    onnx.save(parser.parse_model(TEXT), path)
    return path


def test_a_model_is_simplified_verified_and_written(run: Run, model: Path, tmp_path: Path) -> None:
    status, out, err = run("simplify", model, "-o", tmp_path / "out.onnx")
    assert (status, err) == (0, "")
    assert "nodes          3 -> 2" in out and "verified       matches at 2 sizes" in out and "wrote" in out
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == ["Exp", "Neg"]


def test_without_a_target_nothing_is_written(run: Run, model: Path, tmp_path: Path) -> None:
    status, out, _ = run("simplify", model, "--no-verify")
    assert status == 0 and "wrote" not in out and sorted(tmp_path.iterdir()) == [model]


def test_nothing_is_replaced_without_force(run: Run, model: Path) -> None:
    before = model.read_bytes()
    status, out, err = run("simplify", model, "-o", model, "--no-verify")
    assert (status, out) == (2, "") and "is there already: pass --force" in err and model.read_bytes() == before
    assert run("simplify", model, "-o", model, "--no-verify", "--force")[0] == 0
    assert len(onnx.load(model).graph.node) == 2


def test_json_is_one_envelope(run: Run, model: Path, tmp_path: Path) -> None:
    status, out, _ = run("simplify", model, "-o", tmp_path / "out" / "m.onnx", "--json", "--no-verify")
    answer = json.loads(out)
    assert status == 0 and list(answer) == ["schema", "command", "model", "ok", "data"]
    assert (answer["schema"], answer["command"], answer["model"]) == ("onnxlift/1", "simplify", str(model))
    data = answer["data"]
    assert data["nodes"] == {"before": 3, "after": 2} and data["written"] == [str(tmp_path / "out" / "m.onnx")]
    assert data["operators"]["Identity"] == {"before": 1, "after": 0} and data["verification"] is None


def test_globs_folders_and_jobs(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "other.onnx").write_bytes(model.read_bytes())
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    options = ("-o", f"{tmp_path}/out/", "--json", "--no-verify", "--jobs", 2)
    status, out, err = run("simplify", f"{tmp_path}/*.onnx", *options)
    answers = [json.loads(line) for line in out.splitlines()]
    assert [Path(answer["model"]).name for answer in answers] == ["broken.onnx", "other.onnx", "small.onnx"]
    assert [answer["ok"] for answer in answers] == [False, True, True]
    assert "is not an ONNX model" in answers[0]["error"] and "is not an ONNX model" in err
    assert status == 2 and sorted(path.name for path in (tmp_path / "out").iterdir()) == ["other.onnx", "small.onnx"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{}/none*.onnx",), "no file matches"),
        (("{}/small.onnx", "{}/small.onnx", "-o", "{}/one.onnx"), "is no folder, and there are several models"),
        (("{}/small.onnx", "{}/small.onnx", "-o", "{}/out/"), "would both be"),
        (("{}/small.onnx", "-o", "-", "--json"), "standard output takes one model and nothing else"),
        (("{}/missing.onnx",), "missing.onnx"),
        (("{}/small.onnx", "--skip-pass", "bogus"), "there is no step 'bogus'"),
    ],
)
def test_mistakes_are_trouble(run: Run, model: Path, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    status, out, err = run("simplify", *(argument.format(tmp_path) for argument in arguments), "--no-verify")
    assert (status, out) == (2, "") and message in err and err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == [model]


def test_models_pass_through_pipes(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(model.read_bytes())))
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, write_through=True))
    monkeypatch.setattr(sys, "argv", ["onnxlift", "simplify", "-", "-o", "-", "--no-verify"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert not caught.value.code
    assert len(onnx.ModelProto.FromString(written.getvalue()).graph.node) == 2


def test_external_data_does_not_pass_through_pipes(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = parser.parse_model(f"{HEAD} {{ y = Mul(x, w) }}")
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "m.onnx").read_bytes())))
    status, out, err = run("simplify", "-", "--no-verify")
    assert (status, out) == (2, "") and "w.bin" in err


def test_what_does_not_match_is_not_written(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = ModelVerification("a", "b", "a runtime", (), problems=("it has 2 outputs",))
    monkeypatch.setattr(reports, "verify_models", lambda *arguments, **options: wrong)
    status, out, _ = run("simplify", model, "-o", tmp_path / "out.onnx")
    assert status == 1 and "DOES NOT MATCH: it has 2 outputs" in out and "not written" in out
    assert not (tmp_path / "out.onnx").exists()


def test_quiet_says_only_what_is_wrong(run: Run, model: Path, tmp_path: Path) -> None:
    assert run("simplify", model, "-o", tmp_path / "out.onnx", "--no-verify", "--quiet") == (0, "", "")


def test_fused_operators_become_standard_ones_or_nothing_is_written(run: Run, tmp_path: Path) -> None:
    head = '<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]> g (float[n, 4] x) => (float[n, 4] y)'
    for name, operator in (("fine", "Gelu"), ("odd", "NoSuchOperator")):
        onnx.save(parser.parse_model(f"{head} {{ y = com.microsoft.{operator}(x) }}"), tmp_path / f"{name}.onnx")
    target = tmp_path / "out.onnx"
    status, out, err = run("simplify", tmp_path / "odd.onnx", "-o", target, "--portable")
    assert (status, out) == (2, "") and "com.microsoft::NoSuchOperator" in err and not target.exists()
    status, out, _ = run("simplify", tmp_path / "fine.onnx", "-o", target, "--portable", "--json")
    assert status == 0 and json.loads(out)["data"]["operators"]["Gelu"] == {"before": 0, "after": 1}
    assert [node.domain for node in onnx.load(target).graph.node] == [""]


def test_standard_operators_are_written_and_counted(run: Run, tmp_path: Path) -> None:
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[n, 4] x) => (float[n, 4] y)'
    onnx.save(parser.parse_model(f"{text} {{ a = Softplus(x) b = Tanh(a) y = Mul(x, b) }}"), tmp_path / "mish.onnx")
    target = tmp_path / "out.onnx"
    fuse = ("simplify", tmp_path / "mish.onnx", "-o", target, "--fuse-standard")
    status, out, _ = run(*fuse)
    assert status == 0 and "standard       standard-gates 1" in out
    assert [node.op_type for node in onnx.load(target).graph.node] == ["Mish"]
    assert run(*fuse, "--force", "--no-verify", "--skip-pass", "standard-gates")[0] == 0
    assert [node.op_type for node in onnx.load(target).graph.node] == ["Softplus", "Tanh", "Mul"]
