"""Activations that are spelled out become operators where the opset has them, and else stay as they were."""

from __future__ import annotations

import re

import numpy as np
import pytest

from .fused import fused, normal

X = {"x": 3 * normal(5, 4)}
NUMBERS = {
    "one": np.float32(1),
    "half": np.float32(0.5),
    "root": np.float32(np.sqrt(2)),
    "three": np.float32(3),
    "six": np.float32(6),
    "zero": np.float32(0),
    "limit": np.float32(20),
}
GELU = "a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half)"
MISH = "a = Softplus(x) b = Tanh(a) y = Mul(x, b)"
SILU = "a = Sigmoid(x) y = Mul(x, a)"
HARD = "a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)"
CASES = [
    (GELU, 20, ["Gelu"]),
    (GELU, 19, ["Div", "Erf", "Add", "Mul", "Mul"]),
    (MISH, 18, ["Mish"]),
    (MISH, 17, ["Softplus", "Tanh", "Mul"]),
    (HARD, 14, ["HardSwish"]),
    (HARD, 13, ["Add", "Clip", "Mul", "Div"]),
    (SILU, 24, ["Swish"]),
    (SILU, 23, ["Sigmoid", "Mul"]),
    (SILU, 25, ["Sigmoid", "Mul"]),  # which ONNX Runtime does not take
    ("y = Clip(x, zero, six)", 24, ["Clip"]),
    ("a = Abs(x) b = Add(a, one) y = Div(x, b)", 13, ["Softsign"]),
    ("a = Tanh(x) y = Sub(x, a)", 20, ["Tanh", "Sub"]),
    ("a = Softplus(x) b = Greater(x, limit) y = Where(b, x, a)", 20, ["Softplus"]),
    ("a = Softplus(x) b = Greater(x, six) y = Where(b, x, a)", 20, ["Softplus", "Greater", "Where"]),
]


@pytest.mark.parametrize(("nodes", "opset", "expected"), CASES)
def test_an_activation_is_one_operator_where_the_opset_has_it(nodes: str, opset: int, expected: list[str]) -> None:
    read = {name: np.asarray(number) for name, number in NUMBERS.items() if re.search(rf"\b{name}\b", nodes)}
    text = f"(float[n, 4] x) => (float[n, 4] y) {{ {nodes} }}"
    assert sorted(fused(text, opset, X, weights=read)) == sorted(expected)


def test_a_part_that_others_read_stays() -> None:
    text = "(float[n, 4] x) => (float[n, 4] y, float[n, 4] b) { a = Softplus(x) b = Tanh(a) y = Mul(x, b) }"
    assert fused(text, 20, X) == ["Softplus", "Tanh", "Mul"]


def test_activations_in_branches() -> None:
    text = """(float[n, 4] x, bool c) => (float[n, 4] y) { y = If (c) <
        then_branch = t () => (float[n, 4] p) { a = Softplus(x) b = Tanh(a) p = Mul(x, b) },
        else_branch = e () => (float[n, 4] q) { d = Sigmoid(x) q = Mul(x, d) }> }"""
    for condition in (True, False):
        assert fused(text, 20, {**X, "c": np.array(condition)}) == ["If"]
