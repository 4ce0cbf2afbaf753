"""`onnxlift profile` as a user calls it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx
import pytest

from cli.conftest import Run
from workbench.models import branches, chain, parsed


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(chain(), tmp_path / "chain.onnx")
    return tmp_path / "chain.onnx"


def test_tables_by_what_was_asked_for(run: Run, model: Path) -> None:
    status, out, _ = run("profile", model)
    assert status == 0 and "  FLOPs          20*n" in out and "operator" in out
    status, out, _ = run("profile", model, "--by", "node", "--top", "2", "--sort", "bytes", "--dim", "n=3")
    assert status == 0 and "  FLOPs          60" in out and "  ... and 3 more (--top)" in out
    assert "operator  nodes" not in out


def test_the_suffix_tells_the_format(run: Run, model: Path, tmp_path: Path) -> None:
    for suffix, begin in (("svg", "<svg "), ("csv", "node,operator,"), ("json", "{")):
        path = tmp_path / f"p.{suffix}"
        status, out, _ = run("profile", model, "-o", path)
        assert status == 0 and out.splitlines()[-1] == f"  wrote          {path}"
        assert path.read_text().startswith(begin)
    status, _, err = run("profile", model, "-o", tmp_path / "p.svg")
    assert status == 2 and "is there already: pass --force" in err
    assert run("profile", model, "-o", tmp_path / "p.svg", "--force")[0] == 0
    status, _, err = run("profile", model, "-o", tmp_path / "p.png")
    assert status == 2 and "'png' is no format of profiles: they are csv, json, svg" in err


def test_standard_input_and_output(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with model.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        status, out, err = run("profile", "-", "-o", "-")
    assert status == 0 and out.startswith("node,operator,") and "FLOPs" in err
    status, out, err = run("profile", model, "-o", "-", "--format", "svg", "--quiet")
    assert out.startswith("<svg ") and err == ""
    status, _, err = run("profile", model, "-o", "-", "--json")
    assert status == 2 and "standard output takes one profile" in err


def test_several_models_go_into_a_folder(run: Run, model: Path, tmp_path: Path) -> None:
    onnx.save(branches(), tmp_path / "branches.onnx")
    status, out, _ = run("profile", tmp_path / "*.onnx", "-o", f"{tmp_path}/out/", "--format", "svg", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert status == 0 and [line["ok"] for line in lines] == [True, True]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["branches.svg", "chain.svg"]
    assert lines[0]["data"]["iterations"]


def test_strict_exits_with_1_and_lists_what_is_unknown(run: Run, tmp_path: Path) -> None:
    text = "g (float[n] x) => (float[k] y) { a, b, c, d = Unique(x) e = Neg(a) f = Neg(e) g = Neg(f) y = Neg(g) }"
    onnx.save(parsed(text), tmp_path / "m.onnx")
    status, out, _ = run("profile", tmp_path / "m.onnx", "--strict")
    assert status == 1 and out.count("a size of its inputs or outputs is not known") == 5
    status, out, _ = run("profile", tmp_path / "m.onnx")
    assert status == 0 and "and 2 more (--strict lists all)" in out


def test_iterations_of_a_loop_are_given_by_its_name(run: Run, tmp_path: Path) -> None:
    model = branches()
    model.graph.node[-1].name = "repeat"
    onnx.save(model, tmp_path / "m.onnx")
    assert "loops          iterations: how often the graph in 'repeat' runs" in run("profile", tmp_path / "m.onnx")[1]
    status, out, _ = run("profile", tmp_path / "m.onnx", "--iterations", "repeat=2")
    assert status == 0 and "  FLOPs          20*n to 24*n" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dim", "m=3"], "no input has a dimension named m; they are n."),
        (["--shape", "z=3"], "the model has no input named 'z'"),
        (["--shape", "x=3"], "which (3,) does not fit"),
        (["--iterations", "a=3"], "no Loop or Scan is named 'a'; the model has none."),
        (["--by", "layer"], "there is no table by 'layer'"),
        (["--sort", "time"], "the time was not measured"),
        (["--threads", "2"], "add --measure"),
        (["--dim", "n=x"], "sizes are whole numbers"),
    ],
)
def test_bad_usage_is_told_and_nothing_is_written(
    run: Run, model: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    status, _, err = run("profile", model, *arguments, "-o", tmp_path / "p.svg")
    assert status == 2 and message in " ".join(err.replace("│", " ").split())
    assert [path.name for path in tmp_path.iterdir()] == ["chain.onnx"]


def test_measured_times_are_a_column(run: Run, model: Path) -> None:
    status, out, _ = run("profile", model, "--measure", "--runs", "2", "--threads", "1", "--as-written")
    assert status == 0 and "median of 2 runs, 1 thread, as written" in out and "time" in out and "µs" in out
