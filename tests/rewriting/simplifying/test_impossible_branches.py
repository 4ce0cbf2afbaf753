"""A branch that can only end in an error is never taken, in files that are to be run."""

from __future__ import annotations

import numpy as np
import pytest

import onnxlift
from onnxlift.workbench.simplify import simplify
from workbench.running import assert_same, model_of, operators

RANDOM = np.random.default_rng(4)
WEIGHTS = {
    "w": RANDOM.standard_normal((1, 9, 4)).astype(np.float32),
    "r": RANDOM.standard_normal((1, 9, 3)).astype(np.float32),
    "two": np.array(2),
    "one": np.array(1),
    "last": np.array([2]),
    "first": np.array([0]),
    "rank": np.array(2),
}
SQUEEZE = """z = Shape(x) d = Gather <axis = 0> (z, two) c = Equal(d, one)
    v = If (c) <then_branch = t () => (float[?, ?] a) { a = Squeeze(x, last) },
                else_branch = e () => (float[?, ?, ?] b) { b = Identity(x) }>"""
ASKED = """zv = Shape(v) n = Size(zv) m = Equal(n, rank) k = Not(m)
    u = If (k) <then_branch = p () => (f) { f = Unsqueeze(v, first) }, else_branch = q () => (g) { g = Identity(v) }>"""
CELL = "s = Unsqueeze({}, first) y = GRU <hidden_size = 3> (s, w, r)"
X = {"x": RANDOM.standard_normal((5, 4, 1)).astype(np.float32)}


def simplified(body: str, output: str = "float[?, ?, ?, ?] y", inputs: str = "float[n, 4, l] x") -> list[str]:
    used = {name: array for name, array in WEIGHTS.items() if name in body.replace("(", " ").replace(",", " ")}
    model = model_of(f"({inputs}) => ({output}) {{ {body} }}", used)
    result = simplify(model, verify=False).proto()
    assert_same(model, result, X | ({"c": np.array(True)} if " c" in inputs else {}))
    return operators(result)


def test_the_branch_that_gives_what_is_needed_is_taken() -> None:
    assert simplified(f"{SQUEEZE} {CELL.format('v')}") == ["Squeeze", "Unsqueeze", "GRU"]


def test_branches_that_ask_for_the_number_of_axes_follow() -> None:
    assert simplified(f"{SQUEEZE} {ASKED} {CELL.format('u')}") == ["Squeeze", "Unsqueeze", "GRU"]


@pytest.mark.parametrize(
    ("reader", "left"),
    [("y = Gemm(v, g)", ["Squeeze", "Gemm"]), ("y = Gemm(g, v)", ["Squeeze", "Gemm"])],
)
def test_a_product_of_matrices_needs_two_axes(reader: str, left: list[str]) -> None:
    given = "float[n, 4, l] x, float[4, 5] g" if "v, g" in reader else "float[n, 4, l] x, float[3, 5] g"
    used = {name: WEIGHTS[name] for name in ("two", "one", "last")}
    model = model_of(f"({given}) => (float[?, ?] y) {{ {SQUEEZE} {reader} }}", used)
    result = simplify(model, verify=False).proto()
    assert operators(result) == left
    g = RANDOM.standard_normal((4, 5) if "v, g" in reader else (3, 5)).astype(np.float32)
    assert_same(model, result, {**X, "g": g})


def test_a_convolution_needs_as_many_axes_as_its_weight() -> None:
    body = SQUEEZE.replace("Squeeze(x, last)", "Unsqueeze(x, last)").replace("Identity(x)", "Relu(x)")
    kernel = RANDOM.standard_normal((2, 4, 1)).astype(np.float32)
    model = model_of(f"(float[n, 4, l] x) => (float[?, ?, ?] y) {{ {body} y = Conv(v, k) }}",
                     {**{name: WEIGHTS[name] for name in ("two", "one", "last")}, "k": kernel})  # fmt: skip
    result = simplify(model, verify=False).proto()
    assert operators(result) == ["Relu", "Conv"]
    assert_same(model, result, {"x": RANDOM.standard_normal((5, 4, 3)).astype(np.float32)})


@pytest.mark.parametrize(
    "rest",
    [
        "y = Exp(v)",
        "o = If (c) <then_branch = g () => (h) { i = Unsqueeze(v, first) h = GRU <hidden_size = 3> (i, w, r) }, "
        "else_branch = j () => (k) { k = Identity(x) }> y = Exp(o)",
    ],
    ids=["a reader that takes all", "a reader that may not run"],
)
def test_branches_that_may_both_be_right_stay(rest: str) -> None:
    assert "If" in simplified(f"{SQUEEZE} {rest}", "y")


def test_branches_that_both_fail_stay() -> None:
    body = SQUEEZE.replace("Squeeze(x, last)", "Unsqueeze(x, last)")
    used = {name: array for name, array in WEIGHTS.items() if name in f"{body} w r first"}
    model = model_of(f"(float[n, 4, l] x) => (y) {{ {body} {CELL.format('v')} }}", used)
    assert "If" in operators(simplify(model, verify=False).proto())


def test_source_keeps_both() -> None:
    """It raises where the model does."""
    used = {name: array for name, array in WEIGHTS.items() if name != "rank"}
    model = model_of(f"(float[n, 4, l] x) => (float[?, ?, ?, ?] y) {{ {SQUEEZE} {CELL.format('v')} }}", used)
    assert "squeeze(2)" in onnxlift.lift(model).source
