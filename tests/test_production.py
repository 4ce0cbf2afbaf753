"""The guide to production is true: its commands run, and print what it shows; its code runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from typer.testing import CliRunner

from onnxlift.cli.app import app
from onnxlift.demo import transformer_block
from onnxlift.errors import OnnxLiftError

GUIDE = Path(__file__).parents[1] / "docs" / "production.md"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_guide_runs_from_the_first_line_to_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, model in (("vision/resnet", small_network()), ("text/block", transformer_block())):
        path = Path(f"models/{name}.onnx")
        path.parent.mkdir(parents=True)
        onnx.save(model, path)
    names: dict[str, Any] = {"__name__": "guide"}
    for language, code in BLOCK.findall(GUIDE.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(code, GUIDE.name, "exec", dont_inherit=True), names)
            continue
        command, *shown = code.removeprefix("$ ").splitlines()
        output = said(command)
        for line in shown:
            assert line in output, (command, line, output)
    assert (tmp_path / "bundles/vision/resnet/resnet.pt2").is_file()


def small_network() -> onnx.ModelProto:
    """A network with the interface of an image classifier, small enough to be exported in seconds."""
    text = """<ir_version: 10, opset_import: ["" : 20]>
    net (float[batch, 3, 32, 32] x) => (float[batch, 4, 16, 16] y)
    <float[4, 3, 3, 3] w> { c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w) y = Relu(c) }"""
    model = parser.parse_model(text)
    weight = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


def said(command: str) -> str:
    """What a command prints. One that refuses to begin raises what is printed in its place."""
    program, *arguments = shlex.split(command)
    assert program == "onnxlift"
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, OnnxLiftError):
        return f"onnxlift: {result.exception}"
    assert result.exit_code == 0, (command, result.output, result.exception)
    return result.output
