"""`onnxlift expose` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

from cli.conftest import Run
from onnxlift.cli.app import app
from workbench.cutting import outputs_of
from workbench.models import branches, chain


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(chain(), tmp_path / "chain.onnx")
    return tmp_path / "chain.onnx"


def test_exposed_values_are_verified_and_written(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    result = CliRunner().invoke(app, ["expose", str(model), "b", "[ac]", "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "outputs        2 -> 5" in result.output
    assert "verified       matches at 2 sizes" in result.output
    assert outputs_of(onnx.load(out)) == ["y", "z", "a", "b", "c"]


def test_json_lists_them_with_their_types(model: Path) -> None:
    result = CliRunner().invoke(app, ["expose", str(model), "--all", "--no-verify", "--json"])
    answer = json.loads(result.output)
    assert (answer["command"], answer["ok"], answer["data"]["outputs"]) == ("expose", True, 5)
    assert answer["data"]["exposed"][0] == {"name": "a", "kind": "tensor", "dtype": "float32", "shape": ["n", 4]}


def test_a_pipe_carries_the_model(model: Path) -> None:
    result = CliRunner().invoke(
        app, ["expose", "-", "a", "--no-verify", "--quiet", "-o", "-"], input=model.read_bytes()
    )
    assert outputs_of(onnx.load_from_string(result.stdout_bytes)) == ["y", "z", "a"]


def test_a_glob_of_models_goes_to_a_folder(model: Path, tmp_path: Path) -> None:
    arguments = ["expose", str(tmp_path / "*.onnx"), "a", "--no-verify", "-o", f"{tmp_path}/out/"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert (tmp_path / "out" / "chain.onnx").exists()


def test_trouble_is_one_paragraph_and_status_2(tmp_path: Path, run: Run) -> None:
    onnx.save(branches(), tmp_path / "branches.onnx")
    status, out, err = run("expose", tmp_path / "branches.onnx", "t1", "-o", tmp_path / "out.onnx")
    assert (status, out) == (2, "")
    assert "is inside node" in err and "(If)" in err
    assert not (tmp_path / "out.onnx").exists()
