"""docs/building-reference.md is true: its code gives what it says, and its mistakes have the messages that it shows."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

from onnxlift import build

PAGE = (Path(__file__).parents[2] / "docs" / "building-reference.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|python raises|text)\n(.*?)```", PAGE, re.DOTALL)


def test_what_the_page_describes_is_there() -> None:
    names = re.findall(r"^::: (\S+)$", PAGE, re.MULTILINE)
    assert len(names) > 10 and all(pkgutil.resolve_name(name) for name in names)


def test_the_page_is_true() -> None:
    names: dict[str, Any] = {}
    told = ""
    for kind, code in BLOCKS:
        if kind == "text":
            assert code.strip() == told
        elif kind == "python raises":
            with pytest.raises(build.BuildError) as error:
                exec(compile(code, "model.py", "exec"), names)
            told = str(error.value)
        else:
            exec(compile(code, "model.py", "exec"), names)
            for line in code.splitlines():
                expression, arrow, expected = line.partition("  # -> ")
                if arrow:
                    assert repr(eval(expression, names)) == expected, line
