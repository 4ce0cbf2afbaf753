"""The page of lint: its code runs, and its commands print what it shows. (--update-golden writes it anew.)"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import onnxruntime
import pytest
from typer.testing import CliRunner

from onnxlift.cli.app import app

PAGE = Path(__file__).parents[3] / "docs" / "workbench" / "lint.md"
BLOCK = re.compile(r"^```(python|console|)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def printed(command: str) -> str:
    program, *arguments = shlex.split(command.removeprefix("$ "))
    result = CliRunner().invoke(app, arguments)
    assert program == "onnxlift" and result.exit_code in (0, 1), result.output
    return result.output.rstrip("\n").replace(onnxruntime.__version__, "1.31.1")


def test_the_page_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}

    def answered(block: re.Match[str]) -> str:
        language, code = block.groups()
        if language == "python":
            exec(compile(code, str(PAGE), "exec", dont_inherit=True), names)
            return block[0]
        command = code.splitlines()[0]
        out = "\n...\n" if "sarif" in command else f"\n{printed(command)}\n"
        return f"```{language}\n{command}{out}```"

    now = BLOCK.sub(answered, text)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(now, encoding="utf-8")
    assert now == PAGE.read_text(encoding="utf-8"), "run pytest tests/workbench/lint --update-golden"
