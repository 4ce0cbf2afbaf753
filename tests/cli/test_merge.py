"""`onnxlift merge` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

from cli.conftest import Run
from onnxlift.cli.app import app
from workbench.cutting import inputs_of, outputs_of
from workbench.models import chain, with_data_file


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(chain(), tmp_path / "chain.onnx")
    return tmp_path / "chain.onnx"


def test_two_models_are_verified_and_written_as_one(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "both.onnx"
    arguments = ["merge", str(model), str(model), "--map", "y=x", "--prefix-b", "second/", "--keep", "-o", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "connected      'y' -> 'x'" in result.output
    assert "verified       matches at 2 sizes" in result.output
    both = onnx.load(out)
    assert (inputs_of(both), outputs_of(both)) == (["x"], ["y", "z", "second/y", "second/z"])


def test_external_data_of_both_goes_to_one_file(tmp_path: Path) -> None:
    one, other = with_data_file(tmp_path), with_data_file(tmp_path, "other.onnx", factor=2.0)
    out = tmp_path / "out"
    arguments = ["--map", "y=x", "--no-verify", "--external-data", "weights.bin", "-o", str(out / "both.onnx")]
    assert CliRunner().invoke(app, ["merge", str(one), str(other), *arguments]).exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == ["both.onnx", "weights.bin"]
    onnx.checker.check_model(str(out / "both.onnx"), full_check=True)


def test_json_has_the_envelope_of_all_verbs(model: Path) -> None:
    arguments = ["merge", str(model), str(model), "--map", "y=x", "--no-verify", "--json"]
    answer = json.loads(CliRunner().invoke(app, arguments).output)
    assert (answer["command"], answer["ok"]) == ("merge", True)
    assert answer["data"]["connected"] == [{"output": "y", "input": "x"}]
    assert answer["data"]["shared"] == {"initialisers": 2, "bytes": 32}


def test_a_pipe_carries_the_first_model_and_the_result(model: Path) -> None:
    arguments = ["merge", "-", str(model), "--map", "y=x", "--no-verify", "--quiet", "-o", "-"]
    result = CliRunner().invoke(app, arguments, input=model.read_bytes())
    assert outputs_of(onnx.load_from_string(result.stdout_bytes)) == ["z", "y", "b_z"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Say which belong together: --map OUTPUT=INPUT"),
        (["--map", "yx"], "not of the form OUTPUT=INPUT"),
        (["--map", "q=x"], "no output named 'q'"),
    ],
)
def test_trouble_is_one_paragraph_and_status_2(
    model: Path, tmp_path: Path, run: Run, arguments: list[str], message: str
) -> None:
    status, out, err = run("merge", model, model, *arguments, "-o", tmp_path / "both.onnx")
    assert (status, out) == (2, "")
    assert message in err and "Traceback" not in err
    assert not (tmp_path / "both.onnx").exists()


def test_a_missing_file_is_named(model: Path, run: Run, tmp_path: Path) -> None:
    status, _, err = run("merge", model, tmp_path / "none.onnx")
    assert status == 2 and "none.onnx" in err


def test_only_the_first_model_comes_from_a_pipe(model: Path, run: Run) -> None:
    status, _, err = run("merge", model, "-")
    assert status == 2 and "only the first model" in err
