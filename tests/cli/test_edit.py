"""`onnxlift edit`: scripts, JSON, options, pipes, and what is refused."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from cli.conftest import Run
from workbench.models import X, chain
from workbench.running import model_of, outputs_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(chain(), "chain.onnx")
    onnx.save(model_of("(float[1, 3, 8, 8] x) => (y) { y = MaxPool <kernel_shape = [3, 3]> (x) }"), "pool.onnx")
    return tmp_path


def numbers(path: str) -> list[Any]:
    return outputs_of(onnx.load(path), {"x": X})


def test_options_are_done_and_told(folder: Path, run: Run) -> None:
    status, out, _ = run(
        *("edit", "chain.onnx", "--set", "w=[0, 0, 0, 0]", "--bypass", "Relu_2", "--remove-output", "z"),
        *("--dim", "n=3", "--rename", "y=logits", "--remove-unused", "-o", "out.onnx"),
    )
    assert status == 0 and "delete('Relu_2', bridge=True)" in out and "runs           ONNX Runtime" in out
    assert "output         logits  float32 (3, 4)" in out
    np.testing.assert_allclose(numbers("out.onnx")[0], np.array([-1, 0, 1, 2]) + X, rtol=1e-6)


def operations(out: str) -> list[str]:
    found: list[str] = json.loads(out)["data"]["operations"]
    return found


def test_options_are_done_in_the_order_of_the_command_line(folder: Path, run: Run) -> None:
    first = (
        "--rename",
        "a=scaled",
        "--add-output",
        "scaled",
        "--rename=scaled=last",
        "--dim",
        "n=2",
        "--bypass",
        "Relu_2",
    )
    status, out, err = run("edit", "chain.onnx", *first, "--json", "-o", "first.onnx")
    assert status == 0, err
    assert operations(out) == [
        "rename('a', 'scaled')",
        "add_output('scaled')",
        "rename('scaled', 'last')",
        "set_size('n', 2)",
        "delete('Relu_2', bridge=True)",
    ]
    assert [value.name for value in onnx.load("first.onnx").graph.output] == ["y", "z", "last"]
    status, out, err = run("edit", *first[2:4], "chain.onnx", *first[:2])
    assert status == 2 and "scaled" in err


def test_what_is_unused_is_dropped_when_its_turn_comes(folder: Path, run: Run) -> None:
    later = run("edit", "chain.onnx", "--remove-output", "z", "--remove-unused", "-o", "later.onnx")
    earlier = run("edit", "chain.onnx", "--remove-unused", "--remove-output", "z", "-o", "earlier.onnx")
    assert (later[0], earlier[0]) == (0, 0)
    assert (len(onnx.load("later.onnx").graph.node), len(onnx.load("earlier.onnx").graph.node)) == (4, 5)


def test_set_reaches_attributes(folder: Path, run: Run) -> None:
    arguments = ("--set", "y.pads=[1,1,1,1]", "--set", "y.auto_pad=NOTSET")
    status, out, _ = run("edit", "pool.onnx", *arguments, "--no-run", "--json")
    answer = json.loads(out)
    assert status == 0 and answer["command"] == "edit" and answer["ok"]
    assert set(answer["data"]) == {
        *("passed", "operations", "nodes", "inputs", "outputs", "runtime", "refusal"),
        *("verification", "notes", "written"),
    }
    assert answer["data"]["outputs"] == [{"name": "y", "kind": "tensor", "dtype": "float32", "shape": [1, 3, 8, 8]}]
    assert answer["data"]["operations"][0] == "set_attribute('y.pads', [1, 1, 1, 1])"


def test_a_value_is_never_evaluated(folder: Path, run: Run) -> None:
    status, _, err = run("edit", "pool.onnx", "--set", "y.pads=__import__('os').system('touch owned')")
    assert status == 2 and 'is a list of whole numbers, not "__import__' in err and not Path("owned").exists()


def test_a_script_finds_the_editor(folder: Path, run: Run) -> None:
    Path("double.py").write_text("for node in m.nodes('Neg'):\n    m.insert_after(node, 'Mul', 2.0)\n")
    status, out, _ = run("edit", "double.py", "chain.onnx", "-o", "out.onnx", "--script", "again.py", "--no-run")
    assert status == 0, out
    np.testing.assert_allclose(numbers("out.onnx")[1], 2 * numbers("chain.onnx")[1], rtol=1e-6)
    assert run("edit", "again.py", "chain.onnx", "-o", "again.onnx", "--no-run", "--script", "again.json")[0] == 0
    assert Path("again.onnx").read_bytes() == Path("out.onnx").read_bytes()
    assert run("edit", "again.json", "chain.onnx", "-o", "third.onnx", "--no-run", "--quiet")[0] == 0
    assert Path("third.onnx").read_bytes() == Path("out.onnx").read_bytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m.rename('a'", "the script bad.py is no Python"),
        ("\nm.rename('aa', 'b2')", r"bad.py, line 2: there is no value 'aa'"),
        ("m.renam('a', 'b')", "bad.py, line 1: AttributeError"),
        ("raise SystemExit(0)", "bad.py, line 1: SystemExit"),
    ],
)
def test_a_script_that_fails_is_told_with_its_line(folder: Path, run: Run, text: str, message: str) -> None:
    Path("bad.py").write_text(text)
    status, _, err = run("edit", "bad.py", "chain.onnx", "-o", "out.onnx")
    assert status == 2 and message in err and "Traceback" not in err and not Path("out.onnx").exists()


def test_operations_that_fail_are_told_with_their_number(folder: Path, run: Run) -> None:
    Path("ops.json").write_text('[{"op": "rename", "old": "a", "new": "b2"}, {"op": "delete", "node": "nope"}]')
    status, _, err = run("edit", "ops.json", "chain.onnx")
    assert status == 2 and "operation 1 of ops.json (delete): 'nope' is the name of no node" in err
    Path("ops.json").write_text('[{"op": "rename", "old": "a"}]')
    assert "operation 0: rename: the field 'new' is missing" in run("edit", "ops.json", "chain.onnx")[2]
    assert "cannot read the operations" in run("edit", "none.json", "chain.onnx")[2]
    assert "cannot read the script" in run("edit", "none.py", "chain.onnx")[2]


def test_an_invalid_result_is_refused_with_its_findings(folder: Path, run: Run) -> None:
    status, _, err = run("edit", "pool.onnx", "--set", "y.kernel_shape=[99,99]", "-o", "out.onnx")
    assert status == 2 and "kernel-fits" in err and not Path("out.onnx").exists()


def test_pipes(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(Path("chain.onnx").read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin())
    status, out, _ = run("edit", "-", "--rename", "a=hidden", "--no-run", "--json")
    assert status == 0 and json.loads(out)["model"] == "-"
    status, _, err = run("edit", "chain.onnx", "-o", "-", "--script", "-")
    assert status == 2 and "standard output takes one thing" in err


def test_a_script_is_printed_alone(folder: Path, run: Run) -> None:
    status, out, _ = run("edit", "chain.onnx", "--rename", "a=hidden", "--script", "-", "--no-run")
    assert status == 0 and out.splitlines()[-1] == "m.rename('a', 'hidden')" and "nodes" not in out


def test_several_models(folder: Path, run: Run) -> None:
    onnx.save(chain(), "second.onnx")
    status, out, _ = run("edit", "*[dn].onnx", "--rename", "a=hidden", "--no-run", "--json", "-o", "out/")
    assert status == 0 and [json.loads(line)["ok"] for line in out.splitlines()] == [True, True]
    assert sorted(path.name for path in Path("out").iterdir()) == ["chain.onnx", "second.onnx"]
    assert "give one model" in run("edit", "*[dn].onnx", "--script", "s.py")[2]


def test_wrong_usage(folder: Path, run: Run) -> None:
    assert run("edit", "script.py")[0] == 2
    assert run("edit", "chain.onnx", "--rename", "a")[0] == 2
    assert run("edit", "chain.onnx", "--set", "pads")[0] == 2
