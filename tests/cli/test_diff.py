"""The command `diff`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from .conftest import Run


def model(text: str = "y = LeakyRelu(x)") -> onnx.ModelProto:
    return parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 20]> net (float[n, 4] x) => (float[n, 4] y) {{ {text} }}'
    )


@pytest.fixture
def files(tmp_path: Path) -> Path:
    onnx.save(model(), tmp_path / "a.onnx")
    onnx.save(model("v = LeakyRelu <alpha = 0.01> (x) y = Identity(v)"), tmp_path / "more.onnx")
    onnx.save(model("y = LeakyRelu <alpha = 0.5> (x)"), tmp_path / "b.onnx")
    return tmp_path


def test_it_says_what_differs_and_exits_with_1(run: Run, files: Path) -> None:
    status, out, err = run("diff", files / "a.onnx", files / "b.onnx")
    assert (status, err) == (1, "")
    assert out == (
        "a.onnx and b.onnx differ: 1 node changed\n\n  nodes\n    changed  LeakyRelu 'LeakyRelu_0': alpha 0.01 -> 0.5\n"
    )


def test_models_that_are_the_same_exit_with_0(run: Run, files: Path) -> None:
    onnx.save(model("y = LeakyRelu <alpha = 0.01> (x)"), files / "same.onnx")
    assert run("diff", files / "a.onnx", files / "same.onnx") == (0, "a.onnx and same.onnx are the same\n", "")
    assert run("diff", files / "a.onnx", files / "same.onnx", "--quiet") == (0, "", "")
    assert (
        run("diff", files / "a.onnx", files / "b.onnx", "--quiet")[:2]
        == run("diff", files / "a.onnx", files / "b.onnx")[:2]
    )


def test_json_has_the_envelope_of_all_commands(run: Run, files: Path) -> None:
    status, out, _ = run("diff", files / "a.onnx", files / "b.onnx", "--json")
    data = json.loads(out)
    assert status == 1
    assert (data["schema"], data["command"], data["ok"]) == ("onnxlift/1", "diff", False)
    assert data["model"] == str(files / "a.onnx")
    assert data["data"]["nodes"] == [
        {
            "kind": "changed",
            "operator": "LeakyRelu",
            "a": "LeakyRelu_0",
            "b": "LeakyRelu_0",
            "module": "",
            "graph": "",
            "details": [
                {"what": "attribute", "name": "alpha", "a": pytest.approx(0.01), "b": 0.5},
            ],
            "place": "",
        }
    ]


def test_a_model_may_come_from_a_pipe(run: Run, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((files / "a.onnx").read_bytes())))
    assert run("diff", "-", files / "a.onnx")[0] == 0
    status, _, err = run("diff", "-", "-")
    assert status == 2 and "standard input holds one model" in err


def test_trouble_exits_with_2(run: Run, files: Path) -> None:
    (files / "text.onnx").write_text("hello")
    for arguments in (["a.onnx", "none.onnx"], ["text.onnx", "a.onnx"], ["text.onnx", "text.onnx"]):
        status, out, err = run("diff", *(files / name for name in arguments))
        assert (status, out) == (2, "") and err.startswith("onnxlift: ")
    assert "there is no aspect 'colour'" in run("diff", files / "a.onnx", files / "b.onnx", "--ignore", "colour")[2]


def test_aspects_tolerances_all_and_source(run: Run, files: Path) -> None:
    assert run("diff", files / "a.onnx", files / "b.onnx", "--ignore", "nodes")[0] == 0
    assert run("diff", files / "a.onnx", files / "b.onnx", "--only", "weights", "--only", "opset")[0] == 0
    out = run("diff", files / "a.onnx", files / "b.onnx", "--source")[1]
    assert "--- a.onnx\n+++ b.onnx\n" in out and "+        return F.leaky_relu(x, 0.5)" in out
    for number, name in ((1.0, "one"), (1.0001, "near")):
        found = model("y = Add(x, w)")
        found.graph.initializer.append(numpy_helper.from_array(np.full(4, number, np.float32), "w"))
        onnx.save(found, files / f"{name}.onnx")
    assert run("diff", files / "one.onnx", files / "near.onnx", "--all")[0] == 1
    assert run("diff", files / "one.onnx", files / "near.onnx", "--rtol", "1e-3")[0] == 0


def test_names_from_a_model_cannot_reach_the_terminal(run: Run, files: Path) -> None:
    hostile = model("a = Exp(x) y = Neg(a)")
    hostile.graph.node[0].name = "red\x1b[31m\nline"
    onnx.save(hostile, files / "hostile.onnx")
    out = run("diff", files / "a.onnx", files / "hostile.onnx")[1]
    assert "\x1b" not in out and "red\\x1b[31m\\nline" in out
