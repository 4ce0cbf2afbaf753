"""`onnxlift update` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from safetensors.numpy import save_file
from typer.testing import CliRunner

import onnxlift
from cli.conftest import Run
from onnxlift.cli.app import app
from workbench.update import models


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model, with its weights in w.safetensors and others in tuned.safetensors beside it."""
    onnx.save(models.linear(), tmp_path / "m.onnx")
    state = {key: np.array(array) for key, array in onnxlift.lift(tmp_path / "m.onnx").state_dict.items()}
    save_file(state, tmp_path / "w.safetensors")
    save_file({key: array + 1 for key, array in state.items()}, tmp_path / "tuned.safetensors")
    return tmp_path / "m.onnx"


def test_weights_are_verified_and_written(run: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned.onnx"
    status, told, err = run("update", model, "--weights", tmp_path / "tuned.safetensors", "-o", out, "--json")
    assert status == 0, err
    data = json.loads(told)["data"]
    assert data["written"] == [str(out)]
    assert data["weights"] == {"changed": ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"], "total": 4}
    assert data["tensors"] == {"changed": ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"], "added": []}
    assert data["verification"]["passed"] and not data["reexported"] and not data["lost"]
    tensors = zip(onnx.load(model).graph.initializer, onnx.load(out).graph.initializer, strict=True)
    assert all(np.array_equal(numpy_helper.to_array(a) + 1, numpy_helper.to_array(b)) for a, b in tensors)


def test_a_pipe_carries_the_same_bytes_if_nothing_has_changed(model: Path, tmp_path: Path) -> None:
    arguments = ["update", "-", "--weights", str(tmp_path / "w.safetensors"), "--quiet", "-o", "-"]
    result = CliRunner().invoke(app, arguments, input=model.read_bytes())
    assert result.exit_code == 0 and result.stdout_bytes == model.read_bytes()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("other.safetensors", "the weights are not those of this model: missing: fc1.weight"),
        ("m.onnx", "is not a safetensors file, or a damaged one"),
        ("nothing.safetensors", "cannot read"),
        (".", "is a folder"),
    ],
)
def test_wrong_weights_are_trouble_and_nothing_is_written(
    run: Run, model: Path, tmp_path: Path, weights: str, message: str
) -> None:
    save_file({"head.weight": np.zeros(3, np.float32)}, tmp_path / "other.safetensors")
    before = sorted(tmp_path.iterdir())
    status, out, err = run("update", model, "--weights", tmp_path / weights, "-o", tmp_path / "new" / "tuned.onnx")
    assert (status, out) == (2, "") and message in err and "Traceback" not in err
    assert sorted(tmp_path.iterdir()) == before


def test_files_are_replaced_only_with_force(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "tuned.onnx").write_bytes(b"mine")
    arguments = [
        "update",
        model,
        "--weights",
        tmp_path / "tuned.safetensors",
        "--no-verify",
        "-o",
        tmp_path / "tuned.onnx",
    ]
    assert run(*arguments)[0] == 2 and (tmp_path / "tuned.onnx").read_bytes() == b"mine"
    assert run(*arguments, "--force")[0] == 0
    onnx.checker.check_model(str(tmp_path / "tuned.onnx"))
