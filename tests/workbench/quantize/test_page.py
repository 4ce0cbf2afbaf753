"""The page of a report: one file, safe against names of strangers, with all layers."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import onnxlift
from onnxlift.workbench.quantize import Layer, Quality, QuantizeReport
from onnxlift.workbench.quantize.recipe import Recipe
from onnxlift.workbench.report import open_model

from .networks import convnet

HOSTILE = '"><script src="https://example.com/x.js"></script><img src=x onerror=alert(1)>\u202e\x1b[2J'


def quality(name: str, sqnr: float | None, state: str = "measured") -> Quality:
    return Quality(name, state, sqnr, 0.5, 0.1)


@pytest.fixture
def report() -> QuantizeReport:
    layers = (
        Layer(HOSTILE, "Conv", quality("a", 31.0), quality("a", 29.5)),
        Layer("second", "Relu", quality("b", None, "exact"), quality("b", 12.0)),
        Layer("third", "Gemm", quality("c", -4.0), kept="for the target"),
        Layer("fourth", "Gemm", quality("d", None, "not finite"), quality("d", None, "not finite")),
    )
    outputs = (quality(HOSTILE, 25.0), quality("low", 3.0))
    return QuantizeReport(
        HOSTILE, open_model(convnet()), recipe=Recipe("static"), layers=layers, outputs=outputs, measured_on=3
    )


def test_the_page_asks_for_nothing_and_runs_nothing(report: QuantizeReport) -> None:
    page = report.page()
    tags: list[tuple[str, dict[str, str | None]]] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append((tag, dict(attrs)))

    Tags().feed(page)
    assert not {"script", "img", "link", "iframe", "object", "a"} & {tag for tag, _ in tags}
    assert not any(name.startswith("on") or name in ("src", "href") for _, attrs in tags for name in attrs)
    assert "\x1b" not in page and "\u202e" not in page and "default-src 'none'" in page
    assert len(page) < 20_000


def test_the_plot_has_a_bar_for_each_number_and_a_line(report: QuantizeReport) -> None:
    (text,) = re.findall(r"<svg.*?</svg>", report.page(), re.DOTALL)
    svg = ElementTree.fromstring(text)
    assert len(svg.findall("rect")) == 2 and len(svg.findall("polyline")) == 1
    assert all(0 <= float(rect.get("y", "nan")) <= 320 for rect in svg.findall("rect"))
    assert "Single layers were not measured" in replace(report, layers=()).page()


def test_the_page_and_the_text_say_what_is_too_low(report: QuantizeReport) -> None:
    assert not report.passed and "TOO MUCH NOISE" in report.page()
    assert "3.0 dB  TOO LOW" in str(report) and "an output is below 10 dB" in report.why_not_written
    assert "\x1b" not in str(report)


def test_a_page_is_written_whole_and_replaces_nothing(report: QuantizeReport, tmp_path: Path) -> None:
    assert report.save_page(tmp_path / "r.html") == [tmp_path / "r.html"]
    with pytest.raises(onnxlift.OutputError, match=r"r\.html"):
        report.save_page(tmp_path / "r.html")
    assert report.save_page(tmp_path / "r.html", force=True)
