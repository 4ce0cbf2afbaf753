"""`onnxlift run`: pipes, several models, files that are there already."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxlift.demo import transformer_block

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(transformer_block(), "a.onnx")
    onnx.save(transformer_block(), "b.onnx")


def test_a_model_comes_from_a_pipe_and_outputs_go_to_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("a.onnx").read_bytes())))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, write_through=True))
    status, _, err = run("run", "-", "-o", "-")
    assert status == 0 and "made up" in err
    with np.load(io.BytesIO(written.getvalue())) as outputs:
        assert outputs["output"].shape == (2, 10, 64)


def test_several_models_go_to_a_folder(run: Run) -> None:
    status, out, _ = run("run", "*.onnx", "-o", "out/", "--dim", "batch=1")
    assert status == 0 and {path.name for path in Path("out").iterdir()} == {"a.npz", "b.npz"}
    assert out.count("wrote") == 2
    status, _, err = run("run", "a.onnx", "-o", "out/")
    assert status == 2 and "is there already" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.onnx", "-o", "out.txt"], "outputs are written as .npz, .npy, .json"),
        (["a.onnx", "b.onnx", "--profile", "t.json"], "there are several models"),
        (["a.onnx", "-o", "-", "--json"], "nothing else"),
        (["a.onnx", "--option", "threads"], "is not of the form"),
        (["a.onnx", "--mean", "a,b"], "is not numbers"),
        (["a.onnx", "--input", "missing.png"], "no input of the model takes a picture"),
        (["missing.onnx"], "missing.onnx"),
    ],
)
def test_wrong_usage_is_trouble(run: Run, arguments: list[str], message: str) -> None:
    status, _, err = run("run", *arguments)
    assert status == 2 and message in " ".join(err.replace("│", " ").split()) and "Traceback" not in err
    assert {path.name for path in Path().iterdir()} == {"a.onnx", "b.onnx"}
