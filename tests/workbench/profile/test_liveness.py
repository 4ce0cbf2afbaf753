"""The memory of activations: what a run of the graph in its order holds at a time."""

from __future__ import annotations

import numpy as np
import pytest

import onnxlift
from workbench.models import parsed


def peak(text: str, **weights: object) -> tuple[object, str]:
    report = onnxlift.profile(parsed(text, **weights))
    return report.peak.plain(), report.peak_node


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # x stays, and each node holds its input and its output
        ("g (float[n, 4] x) => (float[n, 4] y) { a = Neg(x) b = Neg(a) y = Neg(b) }", "48*n"),
        # a is needed at the end, too
        ("g (float[n, 4] x) => (float[n, 4] y) { a = Neg(x) b = Neg(a) c = Neg(b) y = Add(c, a) }", "64*n"),
        # outputs stay
        ("g (float[n, 4] x) => (float[n, 4] a, float[n, 4] y) { a = Neg(x) b = Neg(x) y = Neg(b) }", "64*n"),
        # what nobody reads is gone when the node is done
        ("g (float[n, 4] x) => (float[n, 4] y) { a = Neg(x) b = Neg(x) y = Neg(x) }", "32*n"),
        # constants are weights, and not activations
        ("g (float[n, 4] x) => (float[n, 4] y) { y = Mul(x, w) }", "32*n"),
    ],
)
def test_a_value_lives_from_its_node_to_the_last_that_reads_it(text: str, expected: str) -> None:
    assert peak(text, w=np.ones(4))[0] == expected


def test_a_view_takes_no_memory_and_keeps_what_it_is_a_view_of() -> None:
    text = """g (float[n, 4] x) => (float[m] y) {
        shape = Constant <value_ints = [-1]> () a = Neg(x) v = Reshape(a, shape) b = Neg(v) y = Neg(b) }"""
    assert peak(text)[0] == "48*n"
    kept = """g (float[n, 4] x) => (float[m] y) {
        shape = Constant <value_ints = [-1]> () a = Neg(x) v = Reshape(a, shape) b = Neg(v) c = Neg(b)
        y = Add(c, v) }"""
    assert peak(kept)[0] == "64*n"


def test_the_graphs_in_a_node_need_memory_beside_what_is_alive_around_them() -> None:
    text = """g (float[n, 4] x, bool go) => (float[n, 4] y) {
        k = Neg(x)
        b = If (go) <then_branch = t () => (float[n, 4] t3) { t1 = Neg(k) t2 = Neg(t1) t3 = Neg(t2) },
                     else_branch = e () => (float[n, 4] e1) { e1 = Neg(k) }>
        y = Add(b, k) }"""
    report = onnxlift.profile(parsed(text))
    assert report.peak.plain() == "64*n + 1"  # x, go, k; and two in the branch, or b and y outside
    rows = {row.name: row for row in report.nodes}
    inner = [row.live.plain() for row in report.nodes if row.place]
    assert inner == ["48*n + 1", "64*n + 1", "64*n + 1", "48*n + 1"]
    assert all(row.live.is_exact for row in rows.values())


def test_where_the_peak_is_depends_on_sizes() -> None:
    text = """g (float[n, 100] x) => (float[n, m] y) {
        a = Neg(x) b = MatMul(a, u) t = Transpose(b) y = MatMul(b, t) }"""
    model = parsed(text, u=np.ones((100, 4)))
    report = onnxlift.profile(model)
    assert report.peak.plain() == "max(816*n, n*(4*n + 432))" and report.peak_node == ""
    for size in (10, 1000):
        assert report.peak.at({"n": size}) == onnxlift.profile(model, dims={"n": size}).peak
    assert onnxlift.profile(model, dims={"n": 10}).peak_node != onnxlift.profile(model, dims={"n": 1000}).peak_node


def test_an_unknown_size_makes_the_peak_a_lower_bound() -> None:
    text = "g (float[n, 4] x) => (float[k] y) { i = NonZero(x) c = Cast<to = 1>(i) y = ReduceMax<keepdims = 0>(c) }"
    report = onnxlift.profile(parsed(text))
    assert report.peak.plain() == {"least": "16*n + 4", "most": None}
