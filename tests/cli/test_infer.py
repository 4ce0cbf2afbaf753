"""`onnxlift infer` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

from cli.conftest import Run
from onnxlift.cli.app import app
from workbench.models import chain, parsed


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(chain(), tmp_path / "chain.onnx")
    return tmp_path / "chain.onnx"


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    head = '<ir_version: 10, opset_import: ["" : 20, "acme" : 1]>'
    onnx.save(parsed("g (float[n] x) => (float[n] y) { a = acme.Odd(x) y = Relu(a) }", head), tmp_path / "odd.onnx")
    return tmp_path / "odd.onnx"


def test_the_table_has_a_line_for_each_value(model: Path) -> None:
    result = CliRunner().invoke(app, ["infer", str(model)])
    assert result.exit_code == 0
    lines = [line.split() for line in result.output.splitlines()]
    assert lines == [
        ["chain.onnx"],
        ["input", "x", "float32", "(n,", "4)"],
        ["a", "float32", "(n,", "4)", "Mul"],
        ["b", "float32", "(n,", "4)", "Add"],
        ["c", "float32", "(n,", "4)", "Relu"],
        ["output", "y", "float32", "(n,", "4)", "Add"],
        ["output", "z", "float32", "(n,", "4)", "Neg"],
    ]


def test_one_value_at_given_sizes(model: Path) -> None:
    result = CliRunner().invoke(app, ["infer", str(model), "--value", "b", "--dim", "n=7"])
    assert result.output.splitlines()[1].split() == ["b", "float32", "(7,", "4)", "Add"]


def test_types_are_written_and_the_result_verified(model: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["infer", str(model), "-o", str(tmp_path / "typed.onnx")])
    assert result.exit_code == 0, result.output
    assert "verified       matches at 2 sizes" in result.output
    assert [value.name for value in onnx.load(tmp_path / "typed.onnx").graph.value_info] == ["a", "b", "c"]


def test_strict_ends_with_1_lists_the_values_and_writes_nothing(odd: Path, tmp_path: Path, run: Run) -> None:
    status, out, _ = run("infer", odd, "--strict", "--no-verify", "-o", tmp_path / "typed.onnx")
    assert status == 1
    assert "unknown        1: a" in out and "--strict was asked for" in out
    assert not (tmp_path / "typed.onnx").exists()
    assert run("infer", odd)[0] == 0


def test_json_has_sizes_as_numbers_names_or_null(model: Path) -> None:
    answer = json.loads(CliRunner().invoke(app, ["infer", str(model), "--value", "b", "--json"]).output)
    assert (answer["schema"], answer["command"], answer["ok"]) == ("onnxlift/1", "infer", True)
    (value,) = answer["data"]["values"]
    assert (value["name"], value["dtype"], value["shape"]) == ("b", "float32", ["n", 4])


def test_several_models_give_a_line_of_json_each(model: Path, odd: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["infer", str(tmp_path / "*.onnx"), "--json"])
    assert [json.loads(line)["ok"] for line in result.output.splitlines()] == [True, True]


def test_a_pipe_carries_the_model(model: Path) -> None:
    result = CliRunner().invoke(app, ["infer", "-", "--no-verify", "--quiet", "-o", "-"], input=model.read_bytes())
    assert len(onnx.load_from_string(result.stdout_bytes).graph.value_info) == 3


def test_an_unknown_value_is_trouble(model: Path, run: Run) -> None:
    status, out, err = run("infer", model, "--value", "bb")
    assert (status, out) == (2, "")
    assert "did you mean 'b'" in err
