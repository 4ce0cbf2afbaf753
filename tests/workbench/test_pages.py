"""The pages of the workbench are true: their commands run, and print what the pages show."""

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

PAGES = Path(__file__).parents[2] / "docs" / "workbench"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that begins with `$` is a command; the lines below it are in its output, in their order."""
    monkeypatch.chdir(tmp_path)
    onnx.save(tiny_resnet(), "resnet.onnx")
    onnx.save(transformer_block(), "block.onnx")
    names: dict[str, Any] = {"__name__": "page"}
    for language, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(code, page.name, "exec", dont_inherit=True), names)
            continue
        for entry in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
            command, *shown = entry.splitlines()
            program, *arguments = shlex.split(command)
            result = CliRunner().invoke(app, arguments)
            assert program == "onnxlift" and result.exit_code in (0, 1), (command, result.output, result.exception)
            rest = result.output
            for line in (line for line in shown if line.strip() and line.strip() != "..."):
                assert line.rstrip() in rest, (command, line, result.output)
                rest = rest[rest.index(line.rstrip()) + len(line.rstrip()) :]
