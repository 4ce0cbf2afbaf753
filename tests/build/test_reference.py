"""The pages on building are true: their code gives what they say, and their mistakes have the messages they show."""

from __future__ import annotations

import io
import pkgutil
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from onnxlift import build

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {name: (DOCS / name).read_text(encoding="utf-8") for name in ("building-reference.md", "building.md")}


def test_what_the_page_describes_is_there() -> None:
    names = re.findall(r"^::: (\S+)$", PAGES["building-reference.md"], re.MULTILINE)
    assert len(names) > 10 and all(pkgutil.resolve_name(name) for name in names)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_true(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    told = ""
    for kind, code in re.findall(r"```(python|python raises|python title=\S+|text)\n(.*?)```", PAGES[page], re.DOTALL):
        if kind == "text":
            assert code.strip() == told
        elif kind == "python raises":
            with pytest.raises(build.BuildError) as error:
                exec(compile(code, "model.py", "exec"), names)
            told = str(error.value)
        else:
            with redirect_stdout(io.StringIO()) as printed:
                exec(compile(code, "model.py", "exec"), names)
            told = printed.getvalue().strip()
            for line in code.splitlines():
                expression, arrow, expected = line.partition("  # -> ")
                if arrow:
                    assert repr(eval(expression, names)) == expected, line
