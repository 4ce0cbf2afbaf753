"""`onnxlift batch` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from onnxlift.demo import transformer_block

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_an_example_is_written_and_says_what_it_would_do(run: Run) -> None:
    status, out, _ = run("batch", "new.yml", "--init")
    assert status == 0 and "wrote new.yml" in out
    status, _, err = run("batch", "new.yml", "--init")
    assert status == 2 and "is there already: pass --force" in err
    status, _, err = run("batch", "new.yml", "--dry-run")
    assert status == 2 and err == "onnxlift: new.yml:5: there is no file or folder 'models'.\n"
    Path("models").mkdir()
    onnx.save(transformer_block(), "models/block.onnx")
    status, _, err = run("batch", "new.yml", "--dry-run")
    assert status == 2 and "1 of 1 models leaves sizes open" in err and "models/block.onnx: x (batch, 10, 64)" in err
    Path("new.yml").write_text(Path("new.yml").read_text().replace("open_sizes: refuse", "open_sizes: keep"))
    status, out, _ = run("batch", "new.yml", "--dry-run")
    assert status == 0 and "1 model: lint(fail_on='error') -> simplify -> convert -> verify(gradients=False)" in out
    assert "    models/block.onnx -> block/" in out
    assert not Path("out").exists()


def test_rows_are_lines_of_json_and_failures_lines_of_text(run: Run) -> None:
    onnx.save(transformer_block(), "a.onnx")
    Path("b.onnx").write_bytes(b"no model")
    Path("batch.yml").write_text("inputs: [a.onnx, b.onnx]\nopen_sizes: keep\noutput_dir: out\nsteps: [lint]\n")
    status, out, err = run("batch", "batch.yml", "--json")
    rows = sorted((json.loads(line) for line in out.splitlines()), key=lambda row: str(row["model"]))
    assert status == 1 and [(row["model"], row["ok"]) for row in rows] == [("a.onnx", True), ("b.onnx", False)]
    assert rows[1]["error"].startswith("lint: ") and err == ""
    status, out, err = run("batch", "batch.yml")
    assert status == 1 and err.startswith("b.onnx: error in lint: ")
    assert out.startswith("1 of 2 models passed; 1 did not (1 error); 2 had been done before; ")
    assert "  report         out/report.html" in out


@pytest.mark.parametrize("arguments", [["--dry-run"], [], ["--json"]])
def test_a_wrong_configuration_is_trouble(run: Run, arguments: list[str]) -> None:
    Path("batch.yml").write_text("inputs: a.onnx\nstep: [lint]\n")
    status, out, err = run("batch", "batch.yml", *arguments)
    assert status == 2 and "batch.yml:2: there is no key 'step'" in err and "Traceback" not in err
    if arguments == ["--json"]:
        assert json.loads(out)["error"].startswith("batch.yml:2")
