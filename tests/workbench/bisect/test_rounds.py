"""`bisect` looks into the round of a Loop or a Scan in which the two sides begin to differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto

from onnxlift.workbench.bisect import bisect
from onnxlift.workbench.bisect.report import Culprit

from ..models import parsed
from .test_bisect import copied, reproduce, scale

pytestmark = pytest.mark.usefixtures("in_process")

X = np.array([1.0, 2.0, 3.0, 4.0], np.float32)


def loop(
    body: str, trips: str = "trips", go: str = "go", given: str = "float[4] x, int64 trips, bool go"
) -> ModelProto:
    """A loop that carries `s`, gathers what `g` is, and captures two weights."""
    text = f"""net ({given}) => (float[4] y, float[?, 4] all) {{
        a = Neg(x)
        y, all = Loop ({trips}, {go}, a) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] r, float[4] g) {{
            {body}
        }}>
    }}"""
    return parsed(text, w=[0.5, 0.6, 0.7, 0.8], limit=[40])


LATE = """d = Identity(c) h = Mul(s, w) f = Cast<to=1>(i) late = {}(f, limit) z = Cast<to=1>(late) q = Mul(z, w)
    r = Add(h, q) g = Identity(s)"""
"""The difference between `Greater` and `GreaterOrEqual` shows in round 41 only."""


def inside(one: ModelProto, other: ModelProto, rounds: int = 100) -> Culprit:
    report = bisect(one, other, inputs={"x": X, "trips": np.array(rounds), "go": np.array(True)})
    assert report.culprit is not None and report.culprit.inside is not None, str(report)
    return report.culprit.inside


def test_the_round_is_found_in_which_the_fault_shows(tmp_path: Path) -> None:
    model, other = loop(LATE.format("Greater")), loop(LATE.format("GreaterOrEqual"))
    inputs = {"x": X, "trips": np.array(100), "go": np.array(True)}
    report = bisect(model, other, inputs=inputs)
    assert report.culprit is not None and report.culprit.inside is not None
    assert report.culprit.inside.operator == "Greater -> GreaterOrEqual"
    assert report.culprit.inside.graph == "round 41 of the loop"
    assert report.reproducer is not None and report.reproducer.nodes == 1
    assert reproduce(report, tmp_path).returncode == 1
    with np.load(tmp_path / "inputs.npz") as arrays:
        assert {float(arrays[name]) for name in arrays.files} == {40.0}
    assert bisect(model, other, inputs={**inputs, "trips": np.array(40)}).passed


def test_names_inside_the_second_body_may_be_others() -> None:
    text = LATE.format("GreaterOrEqual")
    for old in ("h ", "f ", "late", "z ", "q "):
        text = text.replace(old.strip() + " =", f"n_{old.strip()} =").replace(f"{old.strip()},", f"n_{old.strip()},")
    text = text.replace("Cast<to=1>(late)", "Cast<to=1>(n_late)").replace("Add(n_h, q)", "Add(n_h, n_q)")
    assert inside(loop(LATE.format("Greater")), loop(text)).operator == "Greater -> GreaterOrEqual"


def test_what_only_grows_over_the_rounds_is_blamed_inside() -> None:
    """In each round the numbers agree within tolerance; after a thousand of them they do not."""
    model = loop("d = Identity(c) r = Mul(s, w) g = Identity(s)")
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.full(4, 1.0, np.float32), "w"))
    found = inside(model, copied(model, lambda m: scale(m, "w", 1 + 5e-6)), 1000)
    assert found.operator == "Mul" and found.graph == "round 1 of the loop"
    assert any("w" in change for change in found.changes)


def test_a_condition_that_ends_the_loop_too_early_is_blamed() -> None:
    body = "n = Cast<to=1>(i) k = Sub(limit, {}) one = Less(n, k) d = Squeeze(one) r = Add(s, w) g = Identity(s)"
    model = parsed_with(loop(body.format("w1")), w1=[30])
    found = inside(model, copied(model, lambda m: scale(m, "w1", 1.1)))
    assert found.operator == "Sub" and found.graph == "round 8 of the loop"


def parsed_with(model: ModelProto, **weights: object) -> ModelProto:
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in weights.items()
    )
    return model


@pytest.mark.parametrize(("trips", "go"), [("", "go"), ("trips", ""), ("", "")])
def test_a_loop_without_a_limit_or_a_condition(trips: str, go: str) -> None:
    body = "n = Cast<to=1>(i) one = Less(n, limit) d = Squeeze(one) r = {}(s, w) g = Identity(s)"
    given = ", ".join(["float[4] x", *["int64 trips"] * bool(trips), *["bool go"] * bool(go)])
    one, other = (loop(body.format(name), trips, go, given) for name in ("Add", "Sub"))
    named = {"x": X, **({"trips": np.array(9)} if trips else {}), **({"go": np.array(True)} if go else {})}
    report = bisect(one, other, inputs=named)
    assert report.culprit is not None and report.culprit.innermost.operator == "Add -> Sub"


def test_a_state_that_starts_otherwise_is_no_fault_of_the_body() -> None:
    text = """net (float[4] x) => (float[4] y) {
        y = Loop (trips, , w) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] r) {
            d = Identity(c) r = Add(s, x) }> }"""
    model = parsed(text, w=[1, 2, 3, 4])
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(3), "trips"))
    report = bisect(model, copied(model, lambda m: scale(m, "w", 2)))
    assert report.culprit is not None and report.culprit.operator == "Loop" and report.culprit.inside is None


def test_bodies_that_do_not_tell_their_types() -> None:
    one, other = loop(LATE.format("Greater")), loop(LATE.format("GreaterOrEqual"))
    for model in (one, other):
        for value in model.graph.node[1].attribute[0].g.output:
            value.ClearField("type")
    assert inside(one, other).graph == "round 41 of the loop"


def scan(operator: str, attributes: str = "", rows: str = "float[6, 4] rows") -> ModelProto:
    """A scan over the rows of a matrix: its fault shows in the first row that has a number above 10."""
    text = f"""net (float[4] x, {rows}) => (float[4] y, float[?, ?] all) {{
        y, all = Scan <num_scan_inputs=1{attributes}, body = b (float[4] s, float[4] row) => (float[4] r, float[4] g) {{
            big = {operator}(row, ten) h = Mul(s, w) z = Cast<to=1>(big) q = Mul(z, row) r = Add(h, q) g = Neg(r)
        }}> (x, rows)
    }}"""
    return parsed(text, w=[0.5, 1, 1.5, 2], ten=[10])


@pytest.mark.parametrize(
    ("attributes", "number", "turned"),
    [
        ("", 5, False),
        (", scan_input_directions=[1]", 2, False),
        (", scan_input_axes=[1]", 5, True),
        (
            ", scan_input_axes=[-1], scan_input_directions=[1], scan_output_axes=[1], scan_output_directions=[1]",
            2,
            True,
        ),
    ],
)
def test_the_row_of_a_scan_is_found(tmp_path: Path, attributes: str, number: int, turned: bool) -> None:
    rows = np.ones((6, 4), np.float32)
    rows[4, 2] = 10
    form = "float[4, 6] rows" if turned else "float[6, 4] rows"
    one, other = (scan(operator, attributes, form) for operator in ("Greater", "GreaterOrEqual"))
    report = bisect(one, other, inputs={"x": X, "rows": rows.T.copy() if turned else rows})
    assert report.culprit is not None and report.culprit.inside is not None
    assert report.culprit.inside.operator == "Greater -> GreaterOrEqual"
    assert report.culprit.inside.graph == f"round {number} of the scan"
    assert report.reproducer is not None and report.reproducer.nodes == 1
    assert reproduce(report, tmp_path).returncode == 1


def test_a_loop_inside_a_loop_is_opened_as_well() -> None:
    body = """d = Identity(c)
        r = Loop (inner, c, s) <body = n (int64 j, bool e, float[4] t) => (bool f, float[4] u) {{
            f = Identity(e) k = Add(i, j) m = Equal(k, six) v = Cast<to=1>(m) o = {}(v, w) u = Add(t, o) }}>
        g = Identity(r)"""
    one, other = (loop(body.format(name)) for name in ("Mul", "Div"))
    for model in (one, other):
        model.graph.initializer.extend(
            onnx.numpy_helper.from_array(np.array(number), name) for name, number in (("inner", 3), ("six", 6))
        )
    found = inside(one, other, 9)
    assert found.operator == "Loop" and found.graph == "round 5 of the loop"
    assert found.innermost.operator == "Mul -> Div" and found.innermost.graph == "round 3 of the loop"


def test_two_runtimes_of_a_loop_agree() -> None:
    inputs = {"x": X, "trips": np.array(50), "go": np.array(True)}
    assert bisect(loop(LATE.format("Greater")), runtimes="ort-plain,lifted", inputs=inputs).passed
