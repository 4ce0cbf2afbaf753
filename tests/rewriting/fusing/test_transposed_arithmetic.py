"""Transposes round arithmetic go, if what is between them treats all axes alike."""

from __future__ import annotations

import re

import numpy as np
import pytest

import onnxlift
from workbench.running import assert_same, model_of, operators

RANDOM = np.random.default_rng(3)
CONSTANTS = {
    "channels": RANDOM.standard_normal(4),
    "matrix": RANDOM.standard_normal((3, 4)),
    "whole": RANDOM.standard_normal((1, 3, 4)),
    "five": RANDOM.standard_normal((1, 1, 1, 4)),
    "large": RANDOM.standard_normal((512, 513)),
    "number": np.array(0.5),
    "low": np.array(-0.25),
    "high": np.array(0.75),
}
INPUTS = "float[n, 4, 3] x"


def check(nodes: str, inputs: str = INPUTS, outputs: str = "float[p, q, r] y", opset: int = 18) -> list[str]:
    names = sorted({*re.findall(r"\w+", nodes)} & CONSTANTS.keys())
    model = model_of(
        f"({inputs}) => ({outputs}) {{ {nodes} }}", {n: CONSTANTS[n].astype(np.float32) for n in names}, opset
    )
    result = onnxlift.simplify(model, verify=False).proto()
    shape = (2, 513, 512) if "513" in inputs else (2, 4, 3)
    feeds = {"x": RANDOM.standard_normal(shape).astype(np.float32)}
    more = {"z": RANDOM.standard_normal((2, 3, 4)).astype(np.float32)}
    assert_same(model, result, {**feeds, **more} if " z" in inputs else feeds)
    return operators(result)


def between(arithmetic: str, second: str = "0, 2, 1") -> str:
    return f"a = Transpose<perm = [0, 2, 1]>(x) {arithmetic} y = Transpose<perm = [{second}]>(b)"


@pytest.mark.parametrize(
    ("arithmetic", "left"),
    [
        ("b = Relu(a)", ["Relu"]),
        ("b = Mul(a, channels)", ["Mul"]),
        ("b = Mul(channels, a)", ["Mul"]),
        ("b = Sub(matrix, a)", ["Sub"]),
        ("b = Div(a, whole)", ["Div"]),
        ("b = Add(a, number)", ["Add"]),
        ("b = PRelu(a, channels)", ["PRelu"]),
        ("b = Clip(a, low, high)", ["Clip"]),
        ("m = Mul(a, channels) s = Sigmoid(m) b = Add(channels, s)", ["Mul", "Sigmoid", "Add"]),
    ],
)
def test_two_transposes_go(arithmetic: str, left: list[str]) -> None:
    assert check(between(arithmetic)) == left


def test_two_orders_that_do_not_undo_each_other_become_one() -> None:
    assert check(between("b = Mul(a, channels)", "2, 1, 0")) == ["Mul", "Transpose"]


def test_a_first_transpose_that_others_read_stays() -> None:
    nodes = f"{between('b = Mul(a, channels)')} w = Exp(a)"
    assert sorted(check(nodes, outputs="float[p, q, r] y, float[s, t, u] w")) == ["Exp", "Mul", "Transpose"]


@pytest.mark.parametrize(
    ("nodes", "inputs", "outputs"),
    [
        (between("b = Add(a, z)"), f"{INPUTS}, float[n, 3, 4] z", "float[p, q, r] y"),  # not constant
        (between("b = Softmax(a)"), INPUTS, "float[p, q, r] y"),  # an axis of its own
        (between("b = Mul(a, large)"), "float[n, 513, 512] x", "float[p, q, r] y"),
        (between("b = Mul(a, channels)"), INPUTS, "float[p, q, r] y, float[s, t, u] b"),  # what lies between is read
        (f"{between('b = Mul(a, channels)', '2, 1, 0')} w = Exp(a)", INPUTS, "float[p, q, r] y, float[s, t, u] w"),
    ],
)
def test_others_stay(nodes: str, inputs: str, outputs: str) -> None:
    assert check(nodes, inputs, outputs).count("Transpose") == 2


def test_a_constant_with_more_axes_stays() -> None:
    nodes = "a = Transpose<perm = [0, 2, 1]>(x) b = Mul(a, five) y = Transpose<perm = [0, 1, 3, 2]>(b)"
    assert check(nodes, outputs="float[p, q, r, s] y").count("Transpose") == 2


def test_older_operators_stay() -> None:
    """Before opset 7, Mul repeated its second operand only if an attribute said so."""
    nodes = between("b = Mul<broadcast = 1>(a, channels)")
    model = model_of(f"({INPUTS}) => (float[p, q, r] y) {{ {nodes} }}", {"channels": np.ones(4, np.float32)}, opset=6)
    assert operators(onnxlift.simplify(model, verify=False).proto()).count("Transpose") == 2
