"""`onnxlift extract` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from cli.conftest import Run
from onnxlift.cli.app import app
from workbench.cutting import inputs_of, outputs_of
from workbench.cutting import run as run_model
from workbench.models import X, chain


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(chain(), tmp_path / "chain.onnx")
    return tmp_path / "chain.onnx"


def test_a_part_is_verified_and_written(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "part.onnx"
    result = CliRunner().invoke(app, ["extract", str(model), "--from", "a", "--to", "c", "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "nodes          2 of 5" in result.output
    assert "verified       matches at 2 sizes" in result.output
    part = onnx.load(out)
    np.testing.assert_allclose(run_model(part, {"a": X})["c"], np.maximum(X + np.array([-1, 0, 1, 2]), 0), rtol=1e-6)


def test_json_has_the_envelope_of_all_verbs(model: Path) -> None:
    result = CliRunner().invoke(app, ["extract", str(model), "--to", "a", "--to", "c", "--no-verify", "--json"])
    answer = json.loads(result.output)
    assert (answer["schema"], answer["command"], answer["ok"]) == ("onnxlift/1", "extract", True)
    assert [each["name"] for each in answer["data"]["outputs"]] == ["a", "c"]
    assert set(answer["data"]) == {
        "passed", "inputs", "outputs", "nodes", "bytes", "verification", "notes", "written"
    }  # fmt: skip


def test_several_models_go_to_a_folder(model: Path, tmp_path: Path) -> None:
    onnx.save(chain(), tmp_path / "other.onnx")
    arguments = ["extract", str(tmp_path / "*.onnx"), "--to", "a", "--no-verify", "-o", f"{tmp_path}/parts/"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["chain.onnx", "other.onnx"]


def test_a_pipe_carries_the_part(model: Path) -> None:
    result = CliRunner().invoke(
        app, ["extract", "-", "--to", "a", "--no-verify", "--quiet", "-o", "-"], input=model.read_bytes()
    )
    assert result.exit_code == 0
    part = onnx.load_from_string(result.stdout_bytes)
    assert (inputs_of(part), outputs_of(part)) == (["x"], ["a"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "cc"], "no value named 'cc'; did you mean 'c'"),
        (["--module", "encoder"], "do not tell which modules"),
        ([], "say what to extract"),
    ],
)
def test_trouble_is_one_paragraph_and_status_2(
    model: Path, tmp_path: Path, run: Run, arguments: list[str], message: str
) -> None:
    status, out, err = run("extract", model, *arguments, "-o", tmp_path / "part.onnx")
    assert (status, out) == (2, "")
    assert err.startswith("onnxlift: ") and message in err and "Traceback" not in err
    assert not (tmp_path / "part.onnx").exists()
