"""`onnxlift export` as a user calls it: targets, pipes, exit codes. What torch does is tested in tests/workbench."""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import onnx
import pytest

import onnxlift.workbench.export
from onnxlift.cli import main
from onnxlift.verification.models import ModelVerification, Run
from onnxlift.workbench.export import ExportError, ExportReport
from onnxlift.workbench.export.report import Facts
from workbench.models import chain

from .conftest import Run as RunCommand

FACTS = Facts("pt2", {"x": "float32 (n, 4)"}, {"y": "float32 (n, 4)"}, ("n",), {}, {"mul.Tensor": 1})
CONTENT = b"a program"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of each call of `export`, which gives a file of a few bytes and runs nothing."""
    found: list[dict[str, Any]] = []

    def export(source: Path | bytes, **options: Any) -> ExportReport:
        found.append(options)
        folder = tempfile.TemporaryDirectory()
        file = Path(folder.name) / "product.pt2"
        file.write_bytes(CONTENT)
        if options["seed"] == 2:
            raise ExportError("data decides what happens at line 3", ["If_0"], 3, is_data=True)
        runs = () if options["seed"] == 1 else (Run({}, ()),)
        return ExportReport("chain.onnx", FACTS, file, folder, ModelVerification("a", "b", "a runtime", runs))

    monkeypatch.setattr(onnxlift.workbench.export, "export", export)
    return found


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(chain(), tmp_path / "chain.onnx")
    return tmp_path / "chain.onnx"


def test_options_reach_the_verb_and_the_file_is_written(
    run: RunCommand, calls: list[dict[str, Any]], model: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out.pt2"
    status, out, err = run("export", model, "-o", target, "--static", "--dim", "n=3", "--timeout", 7)
    assert (status, err) == (0, "") and target.read_bytes() == CONTENT
    assert f"  wrote          {target}" in out and "made           torch.export program, 1 ATen operators" in out
    assert calls[0]["static"] and calls[0]["dims"] == {"n": 3} and calls[0]["timeout"] == 7
    status, _, err = run("export", model, "-o", target)
    assert status == 2 and "is there already: pass --force" in err and len(calls) == 1


def test_in_a_folder_the_suffix_is_that_of_the_kind(
    run: RunCommand, calls: list[dict[str, Any]], model: Path, tmp_path: Path
) -> None:
    assert run("export", model, "-o", f"{tmp_path}/out/")[0] == 0
    assert run("export", model, "-o", f"{tmp_path}/out/", "--onnx")[0] == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["chain.onnx", "chain.pt2"]


def test_what_does_not_match_is_not_written(
    run: RunCommand, calls: list[dict[str, Any]], model: Path, tmp_path: Path
) -> None:
    status, out, _ = run("export", model, "-o", tmp_path / "out.pt2", "--seed", 1)
    assert status == 1 and "not written" in out and not (tmp_path / "out.pt2").exists()


def test_what_data_decides_is_trouble(
    run: RunCommand, calls: list[dict[str, Any]], model: Path, tmp_path: Path
) -> None:
    status, out, err = run("export", model, "-o", tmp_path / "out.pt2", "--seed", 2)
    assert (status, out) == (2, "") and err == "onnxlift: data decides what happens at line 3\n"
    assert not (tmp_path / "out.pt2").exists()


def test_programs_pass_through_pipes(calls: list[dict[str, Any]], model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(model.read_bytes())))
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, write_through=True))
    monkeypatch.setattr(sys, "argv", ["onnxlift", "export", "-", "-o", "-"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert not caught.value.code and written.getvalue() == CONTENT
