"""The pages of the workbench are true: their commands run, and print what the pages show.

A line of a block `console` that begins with `$` is a command. The lines below it are in its output, in their order. A
block `text` behind a command is its whole output, but for the version of ONNX Runtime.
"""

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
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
VERSION = re.compile(r"ONNX Runtime [\d.]+")


OWN_TESTS = {"diff"}
"""Pages with models of their own: tests/workbench/diff/test_page.py."""


FINDING = {"lint", "bench", "bisect", "verify"}
"""Commands whose pages show what they find, for which they exit with 1."""


@pytest.mark.parametrize(
    "page", [page for page in sorted(PAGES.glob("*.md")) if page.stem not in OWN_TESTS], ids=lambda path: path.stem
)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(tiny_resnet(), "resnet.onnx")
    onnx.save(transformer_block(), "block.onnx")
    names: dict[str, Any] = {"__name__": "page"}
    for language, code, whole in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(code, page.name, "exec", dont_inherit=True), names)
            continue
        for entry in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
            command, *shown = entry.splitlines()
            output = _run(command)
            _assert_inside(shown, output, command)
            assert not whole or VERSION.sub("", output) == VERSION.sub("", whole), command


def _run(command: str) -> str:
    program, *arguments = shlex.split(command)
    result = CliRunner().invoke(app, arguments)
    codes = (0, 1) if arguments[0] in FINDING else (0,)
    assert program == "onnxlift" and result.exit_code in codes, (command, result.output, result.exception)
    return result.output


def _assert_inside(shown: list[str], output: str, command: str) -> None:
    """Hold that these lines are in the output, in their order."""
    rest = output
    for line in (line.rstrip() for line in shown if line.strip() not in ("", "...")):
        assert line in rest, (command, line, output)
        rest = rest[rest.index(line) + len(line) :]
