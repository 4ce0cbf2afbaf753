"""The page on diff is true: its commands print what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from typer.testing import CliRunner

from onnxlift.cli.app import app

from .graphs import network, node_of, renamed, set_weight, weight

PAGE = Path(__file__).parents[3] / "docs" / "workbench" / "diff.md"


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(network(12), "before.onnx")
    onnx.save(renamed(network(12)), "renamed.onnx")
    after = network(12)
    array = weight(after, "layers.3.weight")
    array[2, 5] = np.float32(0.25)
    set_weight(after, "layers.3.weight", array)
    node_of(after, "/layers.7/LeakyRelu").attribute[0].f = 0.2
    node = helper.make_node("Neg", ["m9"], ["negative"], name="/layers.9/Neg")
    node_of(after, "/layers.9/Add").input[0] = "negative"
    nodes = list(after.graph.node)
    nodes.insert(28, node)
    del after.graph.node[:]
    after.graph.node.extend(nodes)
    onnx.save(after, "after.onnx")
    many = network(12)
    for each in many.graph.node:
        if each.op_type == "LeakyRelu":
            each.op_type = "Elu"
            each.attribute[0].f = 1.0
    for i in range(9):
        many.graph.node.append(helper.make_node("Shape", [f"a{i}"], [f"s{i}"], name=f"/layers.{i}/Shape"))
    onnx.save(many, "many.onnx")


def test_the_commands_of_the_page_print_what_it_shows(models: None) -> None:
    blocks = re.findall(r"^```console\n\$ onnxlift (.*?)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 3
    for command, shown in blocks:
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.output == shown, f"{command}\n{result.output}"


def test_the_python_of_the_page_runs(models: None) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    names: dict[str, object] = {}
    exec(compile(code, "diff.md", "exec"), names)
