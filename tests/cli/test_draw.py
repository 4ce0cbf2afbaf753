"""`onnxlift draw` as a user calls it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx
import pytest

from cli.conftest import Run
from models.handmade import tiny_resnet
from workbench.models import chain, parsed


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(chain(), tmp_path / "chain.onnx")
    return tmp_path / "chain.onnx"


def test_the_suffix_tells_the_format(run: Run, model: Path, tmp_path: Path) -> None:
    for suffix, begin in (("svg", "<svg "), ("dot", "digraph "), ("mmd", "flowchart TD")):
        status, out, _ = run("draw", model, "-o", tmp_path / f"m.{suffix}")
        assert status == 0 and out.splitlines()[-1] == f"  wrote          {tmp_path / f'm.{suffix}'}"
        assert (tmp_path / f"m.{suffix}").read_text().startswith(begin)


def test_without_an_output_only_the_report_is_printed(run: Run, model: Path, tmp_path: Path) -> None:
    status, out, _ = run("draw", model, "--flat")
    assert (status, out.splitlines()) == (0, ["chain.onnx", "  drawn          8 boxes, 8 edges", "  depth          1"])
    assert [path.name for path in tmp_path.iterdir()] == ["chain.onnx"]


def test_standard_input_and_output(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with model.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        status, out, err = run("draw", "-", "-o", "-", "--format", "mmd")
    assert status == 0
    assert out.startswith("flowchart TD\n") and "boxes" not in out
    assert "boxes" in err
    _, out, err = run("draw", model, "-o", "-", "--quiet")
    assert out.startswith("<svg ") and err == ""


def test_json_has_boxes_and_edges(run: Run, model: Path, tmp_path: Path) -> None:
    status, out, _ = run("draw", model, "--flat", "--json", "-o", tmp_path / "m.svg")
    answer = json.loads(out)
    assert (status, answer["command"], answer["ok"]) == (0, "draw", True)
    data = answer["data"]
    assert set(data) == {"depth", "deepest", "boxes", "edges", "notes", "written"}
    assert [box["title"] for box in data["boxes"]] == ["x", "Mul", "Add", "Relu", "Add", "Neg", "y", "z"]
    assert set(data["boxes"][1]) == {
        *("kind", "title", "name", "path", "lines", "times", "hidden", "inputs", "outputs", "inside")
    }
    assert data["boxes"][1]["outputs"] == [{"name": "a", "type": "(n, 4)"}]
    assert data["edges"][0] == {"from": 0, "from_port": 0, "to": 1, "to_port": 0}
    assert data["written"] == [str(tmp_path / "m.svg")]


def test_several_models_go_into_a_folder(run: Run, model: Path, tmp_path: Path) -> None:
    onnx.save(tiny_resnet(), tmp_path / "resnet.onnx")
    status, out, _ = run("draw", str(tmp_path / "*.onnx"), "-o", f"{tmp_path}/out/", "--format", "dot", "--depth", 1)
    assert status == 0 and "resnet.dot" in out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["chain.dot", "resnet.dot"]
    status, _, err = run("draw", model, tmp_path / "resnet.onnx", "-o", tmp_path / "one.svg")
    assert status == 2 and "several models" in err


def test_files_are_not_replaced_without_force(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "m.svg").write_text("mine")
    status, _, err = run("draw", model, "-o", tmp_path / "m.svg")
    assert status == 2 and "--force" in err and (tmp_path / "m.svg").read_text() == "mine"
    assert run("draw", model, "-o", tmp_path / "m.svg", "--force")[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "m.jpg"], "no format"),
        (["-o", "m"], "no suffix"),
        (["-o", "-", "--json"], "one picture and nothing else"),
        (["-o", "-", "--format", "jpg"], "no format"),
        (["--depth", "0"], "--depth"),
        (["--module", "encoder"], "no module"),
    ],
)
def test_bad_options_are_told(run: Run, model: Path, options: list[str], message: str) -> None:
    status, out, err = run("draw", model, *options)
    assert status == 2 and message in err and not out
    assert "Traceback" not in err


def test_bad_files_are_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    for path in (tmp_path / "bad.onnx", tmp_path / "none.onnx"):
        status, _, err = run("draw", path, "-o", tmp_path / "m.svg")
        assert status == 2 and err.startswith("onnxlift: ") and not (tmp_path / "m.svg").exists()


def test_a_model_that_cannot_be_lifted_is_drawn_with_a_note(run: Run, tmp_path: Path) -> None:
    head = '<ir_version: 10, opset_import: ["" : 20, "acme" : 1]>'
    odd = parsed("g (float[n] x) => (float[n] y) { a = acme.Odd(x) y = Relu(a) }", head)
    onnx.save(odd, tmp_path / "odd.onnx")
    status, out, _ = run("draw", tmp_path / "odd.onnx", "-o", tmp_path / "m.svg")
    assert status == 0 and "drawn node by node" in out


def test_a_large_flowchart_is_warned_of(run: Run, tmp_path: Path) -> None:
    body = " ".join(f"v{i + 1} = Exp(v{i})" for i in range(600))
    model = parsed(f"g (float[n] v0) => (float[n] y) {{ {body} y = Neg(v600) }}")
    onnx.save(model, tmp_path / "long.onnx")
    status, out, _ = run("draw", tmp_path / "long.onnx", "-o", tmp_path / "m.mmd", "--flat")
    assert status == 0 and "at most 500 edges" in out
