"""The pages on cutting, joining and inferring are true: their commands run, and print what the pages show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

from onnxlift.cli.app import app
from onnxlift.demo import transformer_block

PAGES = Path(__file__).parents[1] / "docs" / "workbench"
_VERSION = re.compile(r"ONNX Runtime [\d.]+")


@pytest.mark.parametrize("name", ["extract", "expose", "merge", "infer"])
def test_commands_of_a_page_print_what_it_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(transformer_block(), "block.onnx")
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```console\n\$ onnxlift (.*?)\n```\n\n```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert examples
    for command, shown in examples:
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == 0, result.output
        assert _VERSION.sub("", result.output) == _VERSION.sub("", shown)
