"""Slices of different axes in a row become one."""

from __future__ import annotations

import re

import numpy as np
import pytest

import onnxlift
from workbench.running import assert_same, model_of, operators

RANDOM = np.random.default_rng(5)
CONSTANTS = {
    "zero": [0],
    "one": [1],
    "minus": [-1],
    "two": [2],
    "three": [3],
    "far": [2**63 - 1],
    "low": [-(2**63)],
    "both": [0, 1],
    "ends": [3, 4],
}


def check(nodes: str, inputs: str = "float[n, c, h, w] x") -> list[str]:
    read = {name: np.array(CONSTANTS[name]) for name in sorted({*re.findall(r"\w+", nodes)} & CONSTANTS.keys())}
    model = model_of(f"({inputs}) => (float[p, q, r, s] y) {{ {nodes} }}", read)
    result = onnxlift.simplify(model, verify=False).proto()
    feeds = {"x": RANDOM.standard_normal((3, 4, 5, 6)).astype(np.float32)}
    assert_same(model, result, {**feeds, "k": np.array([1])} if " k" in inputs else feeds)
    return operators(result)


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Slice(x, zero, far, two, two) y = Slice(a, one, far, three, two)",
        "a = Slice(x, minus, low, two, minus) y = Slice(a, one, three, minus)",
        "a = Slice(x, both, ends) y = Slice(a, one, far, three)",
        "a = Slice(x, one, far, one) b = Slice(a, zero, two, two) y = Slice(b, one, far, three, two)",
    ],
)
def test_slices_of_different_axes_are_one(nodes: str) -> None:
    assert check(nodes) == ["Slice"]


def test_a_slice_that_several_slices_read_goes() -> None:
    nodes = "a = Slice(x, one, far, two) b = Slice(a, zero, two, three) c = Slice(a, one, three, three) y = Add(b, c)"
    assert check(nodes) == ["Slice", "Slice", "Add"]


@pytest.mark.parametrize(
    ("nodes", "inputs"),
    [
        ("a = Slice(x, one, far, two) y = Slice(a, one, far, two)", "float[n, c, h, w] x"),  # the same axis
        ("a = Slice(x, one, far, two) y = Slice(a, k, far, three)", "float[n, c, h, w] x, int64[1] k"),  # computed
        (
            "a = Slice(x, one, far, two) b = Slice(a, one, three, three) c = ReduceMax(a) y = Mul(b, c)",
            "float[n, c, h, w] x",
        ),  # somebody else reads the inner one
    ],
)
def test_other_slices_stay(nodes: str, inputs: str) -> None:
    assert check(nodes, inputs).count("Slice") == 2
