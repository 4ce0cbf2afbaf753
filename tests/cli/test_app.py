"""A command is a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from onnxlift import cli

Run = Callable[..., tuple[int, str, str]]


def test_every_file_with_a_function_of_its_name_is_a_command(run: Run) -> None:
    _, out, _ = run("--help")
    for path in Path(cli.__path__[0]).glob("*.py"):
        has_command = f"\ndef {path.stem}(" in path.read_text(encoding="utf-8")
        assert has_command == bool(re.search(rf"^\W*{_command(path)} ", out, re.MULTILINE)), path.stem


def _command(path: Path) -> str:
    return path.stem.replace("_", "-")


def test_help_shows_the_examples_as_they_are_typed(run: Run) -> None:
    examples = 0
    for path in Path(cli.__path__[0]).glob("*.py"):
        for example in re.findall(r"^ +(Example: .*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            _, out, _ = run(_command(path), "--help")
            assert "".join(example.split()) in "".join(out.split()), example
            examples += 1
    assert examples > 10
    assert "'*Relu*'" in run("expose", "--help")[1]
