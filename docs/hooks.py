"""Pages of the site that are made when it is built, so that they cannot go stale.

The README, the changelog and what else lies at the top of the repository are pages as they are. The page of the command
line is what the commands say of themselves. Links to files that are no pages (tests, source) become plain text.
"""

from __future__ import annotations

import re
import sys
from itertools import zip_longest
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
TOP_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.\w+|[^)#:\s]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^```python [^\n]*?(title=\"[^\"]*\")?[^\n]*$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    for source, page in TOP_PAGES.items():
        text = _linked((ROOT / source).read_text(encoding="utf-8"), "")
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "command-line.md", content=command_line()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links out of the folder of the documentation into links to pages, or into text; and leave what only our
    tests want to know out of the heads of code blocks."""
    if page.file.src_uri not in (*TOP_PAGES.values(), "command-line.md"):
        markdown = _linked(markdown, dirname(f"docs/{page.file.src_uri}"))
    return _FENCE.sub(lambda head: f"```python {head[1] or ''}".rstrip(), markdown)


def _linked(markdown: str, folder: str) -> str:
    """The text of a file of this folder with links that hold on the site. Code stays as it is."""

    def link(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target:
            return found[0]
        path = normpath(f"{folder}/{target}" if folder else target)
        page = TOP_PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        here = folder.removeprefix("docs").lstrip("/") or "."
        return f"[{text}]({relpath(page, here)}{anchor})" if page else f"{text} (`{path}`)"

    code = _CODE.findall(markdown)
    texts = (_LINK.sub(link, text) for text in _CODE.split(markdown))
    return "".join(part for pair in zip_longest(texts, code, fillvalue="") for part in pair)


def command_line() -> str:
    """What every command says to `--help`."""
    sys.path.insert(0, str(ROOT / "src"))
    from typer.main import get_command
    from typer.testing import CliRunner

    from onnxlift.cli.app import app

    plain = {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1", "TERM": "dumb"}

    def help_of(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments, "--help"], env=plain, prog_name="onnxlift")
        lines = [line.rstrip() for line in result.output.strip("\n").splitlines()]
        return "```text\n" + "\n".join(lines).strip("\n") + "\n```\n"

    sections = [f"## onnxlift {name}\n\n{help_of(name)}" for name in vars(get_command(app))["commands"]]
    return "\n".join(["# Command line\n", help_of(), *sections])
