"""Branches that ask the same are one; others stay two."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from small_graphs import compare

TEXT = """
    <ir_version: 8, opset_import: ["": 18]>
    agraph (float[n, 4] x, bool c, bool d) => (float[n, 4] first, float[n, 4] second) {
        first = If (c) <then_branch = a () => (t) { t = Exp(x) }, else_branch = b () => (e) { e = Sin(x) }>
        BETWEEN
        second = If (ASKED) <then_branch = f () => (u) { u = Cos(z) }, else_branch = g () => (v) { v = Tanh(z) }>
    }
"""


@pytest.mark.parametrize(
    ("asked", "between", "branches"),
    [("c", "z = Identity(first)", 1), ("d", "z = Identity(first)", 2), ("c", "w = Neg(first) z = Mul(w, w)", 2)],
    ids=["same", "another", "a statement between"],
)
def test_branches_that_ask_the_same_are_one(asked: str, between: str, branches: int) -> None:
    model = onnx.parser.parse_model(TEXT.replace("ASKED", asked).replace("BETWEEN", between))
    lifted = onnxlift.lift(model)
    assert lifted.source.count("if ") == branches, lifted.source
    for c in (False, True):
        x = np.random.default_rng(1).standard_normal((3, 4), np.float32)
        compare(lifted, model, {"x": x, "c": np.array(c), "d": np.array(not c)})
