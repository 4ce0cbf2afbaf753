"""The guide to production is true: its commands run, and print what it shows; its code runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import onnx
import pytest
from typer.testing import CliRunner

from models.handmade import tiny_resnet
from onnxlift.cli.app import app
from onnxlift.demo import transformer_block
from onnxlift.errors import OnnxLiftError

GUIDE = Path(__file__).parents[1] / "docs" / "production.md"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_guide_runs_from_the_first_line_to_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, model in (("vision/resnet", tiny_resnet()), ("text/block", transformer_block())):
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


def said(command: str) -> str:
    """What a command prints. One that refuses to begin raises what is printed in its place."""
    program, *arguments = shlex.split(command)
    assert program == "onnxlift"
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, OnnxLiftError):
        return f"onnxlift: {result.exception}"
    assert result.exit_code == 0, (command, result.output, result.exception)
    return result.output
