"""Variables of a detector's post-processing have words for names: boxes, scores, corners, overlaps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import onnxlift
from models.running import assert_close, run_onnxruntime, run_torch

HEAD = '<ir_version: 10, opset_import: ["" : 18]>'

CORNERS = (
    HEAD
    + """g (float[n, 4] v) => (float[n, 1] a, float[n, 1] e) {
    p = Exp(v)
    b, c, d, f = Split <axis = 1, num_outputs = 4> (p)
    w = Sub(d, b)
    h = Sub(f, c)
    m = Mul(w, h)
    a = Sqrt(m)
    i = Mul(w, b)
    j = Mul(h, c)
    e = Add(i, j)
}"""
)

OVERLAP = (
    HEAD
    + """g (float[n, 4] v, float[1] low) => (bool[n, n] over, float[n, n] t)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] axis = {2},
     float clip = {0}, int64 first = {0}, int64 second = {1}> {
    p = Exp(v)
    r = Unsqueeze(p, one)
    s = Unsqueeze(p, zero)
    b = Slice(r, zero, two, axis)
    c = Slice(s, zero, two, axis)
    d = Slice(r, two, four, axis)
    f = Slice(s, two, four, axis)
    g1 = Max(b, c)
    h = Min(d, f)
    i = Sub(h, g1)
    j = Clip(i, clip)
    k = Gather <axis = 2> (j, first)
    l = Gather <axis = 2> (j, second)
    m = Mul(k, l)
    q = Exp(m)
    u = Add(q, low)
    o = Div(m, u)
    t = Mul(o, u)
    over = Greater(o, low)
}"""
)

RANKED = (
    HEAD
    + """g (float[n, 5] v) => (float[2, 4] a, float[2] b, float[2, 1] c)
    <int64[1] zero = {0}, int64[1] four = {4}, int64[1] one = {1}, int64 last = {4}, int64[1] two = {2}> {
    p = Exp(v)
    d = Gather <axis = 1> (p, last)
    e = Slice(p, zero, four, one)
    f, i = TopK(d, two)
    h = Gather(e, i)
    b1, b2, b3, b4 = Split <axis = 1, num_outputs = 4> (h)
    w = Sub(b3, b1)
    j = Sub(b4, b2)
    c = Mul(w, j)
    a = Neg(h)
    s = Sum(d, d)
    b, i2 = TopK(s, two)
}"""
)

SUPPRESSED = (
    HEAD
    + """g (float[1, n, 4] v, float[1, 1, n] s) => (int64[m, 3] k, float[1, n, 4] a, float[1, 1, n] b)
    <int64 most = {10}, float iou = {0.5}, float least = {0.1}> {
    p = Exp(v)
    q = Sigmoid(s)
    i = NonMaxSuppression(p, q, most, iou, least)
    k = Add(i, i)
    a = Neg(p)
    b = Neg(q)
}"""
)


def nameless(text: str) -> onnx.ModelProto:
    """The model of a text, whose values have no names."""
    model = parser.parse_model(text)
    outputs = {value.name for value in model.graph.output}
    made = [name for node in model.graph.node for name in node.output if name not in outputs]
    names = {name: f"val_{index}" for index, name in enumerate(made)}
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    return model


def forward(text: str) -> str:
    return onnxlift.lift(nameless(text), name="small").source.rpartition("def forward")[2]


def test_corners_have_their_names() -> None:
    code = forward(CORNERS)
    assert "x1, y1, x2, y2 = " in code
    assert "width = x2 - x1" in code and "height = y2 - y1" in code


def test_what_is_not_subtracted_crosswise_is_no_box() -> None:
    assert "boxes" not in forward(CORNERS.replace("h = Sub(f, c)", "h = Sub(c, f)"))


def test_an_overlap_has_its_names() -> None:
    code = forward(OVERLAP)
    for name in ("boxes", "overlap", "intersection", "union", "iou"):
        assert f"        {name} = " in code, name


@pytest.mark.parametrize(
    ("old", "new"),
    [("Clip(i, clip)", "Clip(i, low)"), ("Sub(h, g1)", "Sub(g1, h)"), ("Sub(h, g1)", "Add(h, g1)")],
)
def test_what_is_no_overlap_is_not_called_so(old: str, new: str) -> None:
    text = OVERLAP.replace(old, new).replace("float[1] low", "float low")
    assert "overlap" not in forward(text)


def test_scores_are_what_boxes_are_ranked_by() -> None:
    code = forward(RANKED)
    assert "scores = " in code and "boxes = " in code


def test_what_ranks_no_boxes_is_no_score() -> None:
    assert "scores" not in forward(RANKED.replace("h = Gather(e, i)", "h = Slice(e, zero, two)"))


def test_a_suppression_takes_boxes_and_scores() -> None:
    code = forward(SUPPRESSED)
    assert "boxes = v.exp()" in code and "scores = s.sigmoid()" in code and "keep = " in code


def test_names_change_no_number(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    onnx.save(nameless(OVERLAP), path)
    boxes = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    inputs = {"v": boxes, "low": np.array([0.3], np.float32)}
    (expected,) = run_onnxruntime(path, (inputs,))
    assert_close(run_torch(onnxlift.convert(path), inputs), expected)
