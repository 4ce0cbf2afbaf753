"""Profiles as text, JSON, CSV and pictures, also of models with hostile names."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import onnxlift
from models.handmade import tiny_resnet
from onnxlift.demo import transformer_block
from onnxlift.errors import OnnxLiftError, OutputError
from onnxlift.workbench.profile import Profile
from onnxlift.workbench.profile.csv_text import HEADER
from onnxlift.workbench.profile.treemap import Box, Cell, _squarified
from workbench.models import branches, parsed

HOSTILE = "=cmd|' /C calc'!A0\x1b[31m</text><script>alert(1)</script>\u202e\"&\n"


@pytest.fixture(scope="module")
def resnet() -> Profile:
    return onnxlift.profile(tiny_resnet(), dims={"batch": 2})


@pytest.fixture(scope="module")
def block() -> Profile:
    return onnxlift.profile(transformer_block())


def test_the_dict_is_json_and_has_all_rows(resnet: Profile) -> None:
    data = json.loads(json.dumps(resnet.to_dict()))
    assert data["total"]["macs"] == 1_982_958_080
    assert data["total"]["nodes"] == len(data["nodes"]) == 37
    assert sum(row["macs"] for row in data["nodes"]) == data["total"]["macs"]
    assert sum(group["flops"] for group in data["operators"]) == data["total"]["flops"]
    assert data["total"]["intensity"] == pytest.approx(
        data["total"]["flops"] / (data["total"]["bytes_read"] + data["total"]["bytes_written"])
    )
    assert max(row["live_bytes"] for row in data["nodes"]) == data["peak_bytes"]


def test_open_sizes_are_formulas_in_the_dict(block: Profile) -> None:
    data = block.to_dict()
    assert data["total"]["macs"] == "504320*batch" and data["dimensions"] == {"batch": "axis 0 of input 'x'"}
    assert re.fullmatch(r"\(\d+\*batch\)/\(\d+\*batch \+ \d+\)", data["total"]["intensity"])


def test_csv_has_a_line_for_each_node(block: Profile) -> None:
    rows = list(csv.DictReader(io.StringIO(block.csv())))
    assert tuple(rows[0]) == HEADER and len(rows) == 30
    assert {row["macs"] for row in rows if row["operator"] == "Relu"} == {"0"}
    assert next(row["flops"] for row in rows if row["operator"] == "Relu") == "2560*batch"
    ranges = list(csv.DictReader(io.StringIO(onnxlift.profile(branches()).csv())))
    assert next(row["flops"] for row in ranges if row["operator"] == "If") == "4*n..8*n"
    unknown = parsed("g (float[n] x) => (float[k] y) { i = NonZero(x) y = Cast<to = 1>(i) }")
    written = list(csv.DictReader(io.StringIO(onnxlift.profile(unknown).csv())))
    assert [row["bytes_written"] for row in written] == ["unknown", "unknown"]


def test_a_table_by_node_has_the_dearest_first(resnet: Profile) -> None:
    text = resnet.table("node", sort="parameters", top=2)
    lines = text[text.index("node ") :].splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["layer2a_conv2", "layer2b_mid_conv"]
    assert lines[3] == "  ... and 35 more (--top)" and lines[4] == "  share: of all parameters"


def test_what_cannot_be_shown_is_an_error_that_lists_what_can(resnet: Profile, tmp_path: Path) -> None:
    with pytest.raises(OnnxLiftError, match="there is no table by 'layer': they are by operator, module, node"):
        resnet.table("layer")
    with pytest.raises(OnnxLiftError, match="there is no column 'speed' to sort by: they are flops, macs"):
        resnet.table(sort="speed")
    with pytest.raises(OnnxLiftError, match="the time was not measured"):
        resnet.svg(sort="time")
    with pytest.raises(OutputError, match="'png' is no format of profiles: they are csv, json, svg"):
        resnet.save(tmp_path / "a.png")
    with pytest.raises(OutputError, match="has no suffix that tells a format"):
        resnet.save(tmp_path / "a")
    with pytest.raises(TypeError, match="unexpected keyword argument 'rums'"):
        onnxlift.profile(tiny_resnet(), measure=True, rums=3)
    with pytest.raises(OnnxLiftError, match="runs: this is for a measurement"):
        onnxlift.profile(tiny_resnet(), runs=3)


def test_files_are_replaced_only_if_asked(resnet: Profile, tmp_path: Path) -> None:
    assert resnet.save(tmp_path / "new" / "p.json") == [tmp_path / "new" / "p.json"]
    assert json.loads((tmp_path / "new" / "p.json").read_text()) == resnet.to_dict()
    with pytest.raises(OutputError, match="already holds"):
        resnet.save(tmp_path / "new" / "p.json")
    resnet.save(tmp_path / "new" / "p.json", force=True)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["p.json"]


def test_a_treemap_has_a_rectangle_for_each_node_that_costs_something(resnet: Profile) -> None:
    root = ElementTree.fromstring(resnet.svg())
    names = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any(name.startswith("Conv\nlayer1a_conv2\n") for name in names)
    assert "prefers-color-scheme: dark" in resnet.svg() and "http" not in resnet.svg().replace(
        "http://www.w3.org/2000/svg", ""
    )
    assert resnet._repr_svg_() == resnet.svg()


def test_areas_of_a_treemap_are_shares() -> None:
    weights = [50.0, 30.0, 10.0, 5.0, 3.0, 2.0]
    room = Box(0, 0, 20, 5)
    placed = list(_squarified([(Cell(str(weight), "", weight), weight) for weight in weights], room))
    assert [cell.weight for cell, _ in placed] == weights
    for cell, box in placed:
        assert (box.width / 2) * (box.height / 2) < cell.weight <= (box.width + 1) * (box.height + 1)
        assert box.x >= 0 and box.x + box.width <= 20.001 and box.y >= 0 and box.y + box.height <= 5.001


def test_hostile_names_stay_text() -> None:
    model = tiny_resnet()
    for node in model.graph.node[:3]:
        node.name = f"/{HOSTILE}/{node.name}"
    model.graph.name = HOSTILE
    report = onnxlift.profile(model)
    root = ElementTree.fromstring(report.svg())
    tags = {each.tag.rpartition("}")[2] for each in root.iter()}
    assert tags == {"svg", "title", "style", "rect", "g", "text"}
    assert "\x1b" not in report.svg() and "\u202e" not in report.svg()
    text = report.table(["operator", "module", "node"])
    assert "\x1b" not in text and "\u202e" not in text
    cells = [cell for row in csv.reader(io.StringIO(report.csv())) for cell in row]
    assert not any(cell.startswith(("=", "+", "@")) for cell in cells)
    json.dumps(report.to_dict())


def test_an_empty_graph_has_a_profile() -> None:
    report = onnxlift.profile(parsed("g (float[n] x) => (float[n] x) { }"))
    assert report.total.nodes == 0 and report.total.costs.flops.plain() == 0
    assert "there is nothing to draw" in report.svg() and str(report)


def test_strict_has_not_passed_if_anything_is_unknown() -> None:
    model = parsed("g (float[n] x) => (float[k] y) { i = NonZero(x) y = Cast<to = 1>(i) }")
    assert onnxlift.profile(model).passed and not onnxlift.profile(model, strict=True).passed
    assert onnxlift.profile(transformer_block(), strict=True)
