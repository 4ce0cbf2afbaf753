"""What is written: well-formed and harmless whatever names a model has, and the same bytes each time."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import onnx
import pydot
import pytest

from models import Example
from models.every import EXAMPLES
from models.handmade import tiny_resnet
from onnxlift.demo import transformer_block
from onnxlift.errors import OnnxLiftError, OutputError
from onnxlift.workbench.draw import draw, png
from onnxlift.workbench.draw.dot import write_dot
from onnxlift.workbench.draw.leaves import flatten
from onnxlift.workbench.draw.mermaid import MOST_EDGES, too_large, write_mermaid
from onnxlift.workbench.draw.picture import BORDER, CALL, MODULE, Box, Edge, Picture, Port
from onnxlift.workbench.draw.svg import write_svg
from onnxlift.workbench.draw.text import cut, harmless, width_of
from workbench.models import branches, parsed

GOLDEN = Path(__file__).parent / "golden"
SMALL = {"transformer_block": transformer_block, "branches": branches}
HOSTILE = [
    '"><script>alert(1)</script>',
    "]]></style><svg onload=alert(1)>",
    'x" -> y; } digraph evil { "',
    'a\\N\\G\\n"\\',
    "end\n  b0 --> b1\nclick b0 href",
    '%%{init: {"securityLevel": "loose"}}%%',
    "#quot;`**md**`<b>&amp;&#60;",
    "1. list",
    "\u202egnp.exe\u2066\u200f\x00\x1b[31m\ud800\ufffe",
    "名前" * 40,
    "z" + "\u0301" * 500,
    "long" * 5_000,
]
NODE = re.compile(r'\s*b\d+(\(\["[^"]*"\]\)|\[\["[^"]*"\]\]|\["[^"]*"\])(:::\w+)?|\s*p\d+\(\(" "\)\)')
OTHER = re.compile(
    r'flowchart TD|\s*subgraph b\d+\["[^"]*"\]|\s*end|  [bp]\d+ --[->](\|"[^"]*"\|)? [bp]\d+|  classDef \w+ [\w:#,]+'
)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def hostile_picture(text: str) -> Picture:
    """A picture with a text in all places where one can be."""
    port = Port(text, text)
    inner = Picture(
        [Box(CALL, text, text, text, (text,), text, outputs=[port], inputs=[port])],
        [Edge(BORDER, 0, 0, 0), Edge(0, 0, BORDER, 0)],
    )
    boxes = [
        Box("input", text, lines=(text,), outputs=[port]),
        Box(MODULE, text, text, text, inputs=[port], outputs=[port], inside=inner, times=3),
        Box("output", text, lines=(text,), inputs=[port]),
    ]
    boxes += [Box(CALL, text, outputs=[port], inputs=[port]) for _ in range(12)]
    edges = [Edge(0, 0, 1, 0), Edge(1, 0, 2, 0), *(Edge(0, 0, number, 0) for number in range(3, 15))]
    edges += [Edge(number, 0, number + 1, 1) for number in range(3, 14)]
    return Picture(boxes, edges)


def elements(svg: str) -> list[ET.Element]:
    return list(ET.fromstring(svg).iter())


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_svg_is_well_formed_and_holds_nothing_but_shapes_and_text(text: str) -> None:
    svg = write_svg(hostile_picture(text), text)
    kinds = {element.tag.removeprefix("{http://www.w3.org/2000/svg}") for element in elements(svg)}
    assert kinds <= {"svg", "title", "style", "rect", "g", "path", "text", "tspan"}
    names = {name for element in elements(svg) for name in element.attrib}
    assert names <= set("class d x y rx width height viewBox role text-anchor".split())
    assert not re.search(r"<script|url\(|@import|<!|<\?", svg)
    shown = "".join("".join(element.itertext()) for element in elements(svg) if not element.tag.endswith("style"))
    assert all(char.isprintable() or char == "\n" for char in shown)
    svg.encode()  # no surrogates are left


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_mermaid_holds_nothing_but_boxes_and_edges(text: str) -> None:
    for line in write_mermaid(hostile_picture(text)).splitlines():
        assert NODE.fullmatch(line) or OTHER.fullmatch(line), line
        for label in re.findall(r'"([^"]*)"', line):
            assert not re.search(r"[<>`*_\[\]{}|\\%&~-]", label.replace("<br/>", "")), label
            assert not re.match(r"\d+\. ", label)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_dot_keeps_texts_in_strings(text: str, tmp_path: Path) -> None:
    dot = write_dot(hostile_picture(text), text)
    bare = STRING.sub("S", dot)
    assert '"' not in bare and bare.count("{") == bare.count("}") == 2
    for line in bare.splitlines():
        assert re.fullmatch(r"[\w \[\]=,;.{}>-]*", line), line
    assert_dot_reads(dot)


def assert_dot_reads(text: str) -> None:
    graphs = pydot.graph_from_dot_data(text)  # None if it cannot be parsed
    assert graphs is not None and len(graphs) == 1


def test_hostile_names_of_a_model_reach_the_picture_harmlessly() -> None:
    model = parsed("g (float[n] x) => (float[n] y) { a = Relu(x) y = Exp(a) }")
    model.graph.node[0].name = model.graph.input[0].name = model.graph.node[0].input[0] = HOSTILE[0]
    for flat in (False, True):
        svg = draw(model, flat=flat).svg()
        assert "<script" not in svg and "&lt;script&gt;" in svg


def test_texts_are_cut_and_whole_in_the_title() -> None:
    box = Box(CALL, "x" * 300)
    texts = [element.text or "" for element in elements(write_svg(Picture([box], []), "t"))]
    assert "x" * 300 in texts
    assert max(len(text) for text in texts if "…" in text) < 60


def test_harmless_escapes_what_hides_or_turns_text() -> None:
    assert harmless("a\u202eb\x00c\n") == "a\\u202eb\\u0000c\\u000a"
    assert harmless("naïve 名") == "naïve 名"
    assert harmless("\U000e0001") == "\\U000e0001"
    assert cut("abcdef", 4) == "abc…" and cut("abcdef", 4, end=True) == "…def"
    assert width_of("名名", 10) > width_of("ab", 10)


@pytest.mark.parametrize("name", SMALL)
def test_pictures_are_the_golden_ones(name: str, request: pytest.FixtureRequest) -> None:
    svg = draw(SMALL[name]()).svg()
    golden = GOLDEN / f"{name}.svg"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(svg, encoding="utf-8")
    assert svg == golden.read_text(encoding="utf-8"), "look at the new picture, then run with --update-golden"


@pytest.mark.parametrize("flat", [False, True])
def test_the_same_model_gives_the_same_bytes(flat: bool) -> None:
    first, second = (draw(tiny_resnet(), flat=flat) for _ in range(2))
    assert (first.svg(), first.dot(), first.mermaid()) == (second.svg(), second.dot(), second.mermaid())
    assert first.to_dict() == second.to_dict()


def test_pictures_have_colours_for_light_and_dark() -> None:
    svg = draw(tiny_resnet()).svg()
    light, dark = svg.partition("</style>")[0].split("@media (prefers-color-scheme: dark)")
    kinds = re.findall(r"^\.(\w+)", dark, re.MULTILINE)
    assert {"page", "title", "line", "box", "weighted", "norm"} <= set(kinds)
    assert all(f".{kind}" in light for kind in kinds)


@pytest.mark.parametrize("name", ["bert_script", "unet_script", "gpt2_script"])
def test_edges_of_other_formats_join_boxes_that_hold_no_others(
    name: str, model_file: Callable[[Example], Path]
) -> None:
    example = next(example for example in EXAMPLES if example.name == name)
    drawing = draw(model_file(example), depth=9)
    _, edges = flatten(drawing.picture)
    text = drawing.mermaid()
    boxes = set(re.findall(r"^\s*(b\d+)[\[(]", text, re.MULTILINE))
    assert edges and {end for edge in edges for end in (edge.source, edge.target)} <= boxes
    assert text.count("subgraph") == sum(1 for box in drawing.picture.walk() if box.inside is not None)
    assert drawing.dot().count("subgraph cluster_") == text.count("subgraph")
    assert_dot_reads(drawing.dot())


def test_a_port_with_many_sources_and_readers_stays_a_point() -> None:
    port = Port("v", "(n)")
    inner = Picture([Box(CALL, "r", inputs=[port]) for _ in range(50)], [Edge(BORDER, 0, n, 0) for n in range(50)])
    sources = [Box(CALL, "s", outputs=[port]) for _ in range(50)]
    group = Box(MODULE, "g", inputs=[port], inside=inner)
    _, edges = flatten(Picture([*sources, group], [Edge(number, 0, 50, 0) for number in range(50)]))
    assert len(edges) == 100


def test_mermaid_warns_of_pictures_that_are_not_shown() -> None:
    boxes = [Box(CALL, "x", outputs=[Port("v", "")], inputs=[Port("v", "")]) for _ in range(MOST_EDGES + 2)]
    large = Picture(boxes, [Edge(number, 0, number + 1, 0) for number in range(MOST_EDGES + 1)])
    assert "at most 500 edges" in too_large(write_mermaid(large))
    assert not too_large(write_mermaid(Picture(boxes[:-1], large.edges[:-1])))


def test_png() -> None:
    assert draw(transformer_block()).png().startswith(b"\x89PNG")


def test_png_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(OnnxLiftError, match=r"pip install 'onnxlift\[draw\]'"):
        draw(transformer_block()).png()


def test_png_is_refused_if_it_would_be_huge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(png, "MOST_PIXELS", 1_000)
    with pytest.raises(OnnxLiftError, match="too large for PNG"):
        draw(transformer_block()).png()


def test_files_are_written_whole_and_replaced_only_by_force(tmp_path: Path) -> None:
    drawing = draw(transformer_block())
    for name in ("m.svg", "m.dot", "m.gv", "m.mmd", "m.mermaid"):
        assert drawing.save(tmp_path / "pictures" / name) == tmp_path / "pictures" / name
    assert (tmp_path / "pictures" / "m.svg").read_text() == drawing.svg()
    assert (tmp_path / "pictures" / "m.gv").read_text() == drawing.dot()
    with pytest.raises(OutputError, match="--force"):
        drawing.save(tmp_path / "pictures" / "m.svg")
    drawing.save(tmp_path / "pictures" / "m.svg", force=True)
    for name, reason in (("m.jpg", "no format"), ("m", "no suffix")):
        with pytest.raises(OutputError, match=reason):
            drawing.save(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures"]


def test_a_picture_can_be_drawn_from_what_lift_takes(tmp_path: Path) -> None:
    model = transformer_block()
    onnx.save(model, tmp_path / "m.onnx")
    with (tmp_path / "m.onnx").open("rb") as file:
        pictures = [draw(source).to_dict() for source in (model, model.SerializeToString(), tmp_path / "m.onnx", file)]
    assert all(picture == pictures[0] for picture in pictures)
