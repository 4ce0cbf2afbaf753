"""The page of a batch: one file that asks nothing of any host, and on which a stranger's names are only text."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from onnxlift.workbench.batch.config import read_config
from onnxlift.workbench.batch.page import page_of
from onnxlift.workbench.batch.records import Row
from onnxlift.workbench.batch.report import BatchReport

HOSTILE = [
    "<script>alert(1)</script>.onnx",
    '"><img src=x onerror=alert(1)>.onnx',
    "</pre></td></table><iframe src=//evil>.onnx",
    "javascript:alert(1).onnx",
    "\u202exnno.a\u2028\x1b[31m.onnx",
]


class Tags(HTMLParser):
    """Collects the elements of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture
def page(tmp_path: Path) -> str:
    source = tmp_path / "out" / "a.py"
    source.parent.mkdir()
    source.write_text('"""</pre><script>alert(2)</script>"""\n', encoding="utf-8")
    rows = [
        Row(
            name,
            str(n),
            "error",
            f"convert: {name}",
            steps=({"step": "convert", "passed": False, "seconds": 1.0, "written": [], "error": name},),
        )
        for n, name in enumerate(HOSTILE)
    ]
    done = {"step": "convert", "passed": True, "seconds": 0.5, "written": [str(source)], "text": "<b>bold</b>"}
    rows.append(Row("good.onnx", "k", "passed", seconds=0.5, memory=10, folder=str(source.parent), steps=(done,)))
    report = BatchReport('<i>"batch".yml', tmp_path / "out", tuple(rows), notes=("<u>a note",))
    return page_of(report, read_config({"inputs": "m", "steps": [{"simplify": {"keep": ["<script>"]}}, "convert"]}))


def test_names_are_only_text(page: str) -> None:
    tags = Tags(page).found
    assert {tag for tag, _ in tags} & {"script", "img", "iframe", "b", "i", "u", "object", "link"} == {"script"}
    assert sum(tag == "script" for tag, _ in tags) == 1
    assert not [attrs for _, attrs in tags if any(name.startswith("on") for name in attrs)]
    assert "\u202e" not in page and "\x1b" not in page and "\\u202e" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;.onnx" in page and "alert(2)&lt;/script&gt;" in page


def test_nothing_is_asked_of_any_host(page: str) -> None:
    tags = Tags(page).found
    links = [attrs.get("href") or attrs.get("src") for _, attrs in tags if "href" in attrs or "src" in attrs]
    assert links == ["a.py"]
    assert "http://" not in page and "https://" not in page and "url(" not in page and "@import" not in page


def test_only_its_own_script_may_run(page: str) -> None:
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(attrs["content"] for tag, attrs in Tags(page).found if attrs.get("http-equiv"))
    assert policy is not None and policy.startswith("default-src 'none'") and f"'sha256-{digest}'" in policy


def test_what_failed_stands_first_and_all_reasons_are_there(page: str) -> None:
    kinds = [attrs["data-kind"] for tag, attrs in Tags(page).found if tag == "tr" and "data-kind" in attrs]
    assert kinds == ["error"] * len(HOSTILE) + ["passed"]
    assert page.count('class="more"') == len(kinds)
