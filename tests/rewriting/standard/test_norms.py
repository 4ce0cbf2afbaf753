"""Norms that are spelled out become operators, with the weights that these must have."""

from __future__ import annotations

import numpy as np
import pytest

from .fused import fused, normal

X = {"x": 2 * normal(3, 5, 8) + 1}
AXES = {"axis": np.array([-1]), "two": np.float32(2), "eps": np.float32(1e-5)}
CENTRED = "m = ReduceMean(x, axis) d = Sub(x, m)"
SCALED = "s = Pow(d, two) v = ReduceMean(s, axis) e = Add(v, eps) r = Sqrt(e) n = Div(d, r)"
LAYER = f"{CENTRED} {SCALED}"
RMS = "s = Pow(x, two) v = ReduceMean(s, axis) e = Add(v, eps) r = Sqrt(e) n = Div(x, r)"


def check(nodes: str, opset: int, size: str = "8", **weights: object) -> list[str]:
    read = {**AXES, **{name: np.asarray(array) for name, array in weights.items()}}
    return fused(f"(float[b, c, {size}] x) => (float[b, c, {size}] y) {{ {nodes} }}", opset, X, weights=read)


def test_a_layer_norm_with_weights() -> None:
    nodes = f"{LAYER} p = Mul(n, w) y = Add(p, v2)"
    assert check(nodes, 18, w=normal(8), v2=normal(8)) == ["LayerNormalization"]


def test_a_layer_norm_without_weights_gets_ones() -> None:
    assert check(LAYER.replace("n = Div", "y = Div"), 18) == ["LayerNormalization"]


def test_a_layer_norm_of_an_unknown_size_stays_as_it_was() -> None:
    left = check(LAYER.replace("n = Div", "y = Div"), 18, "width")
    assert sorted(left) == sorted(["ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div"])


def test_a_layer_norm_of_doubles_stays_as_it_was() -> None:
    read = {"axis": AXES["axis"], "two": np.float64(2), "eps": np.float64(1e-5)}
    text = f"(double[b, 8] x) => (double[b, 8] y) {{ {LAYER.replace('n = Div', 'y = Div')} }}"
    arrays = {name: np.asarray(value) for name, value in read.items()}
    assert "LayerNormalization" not in fused(text, 18, {"x": RANDOM64}, weights=arrays)


RANDOM64 = np.random.default_rng(0).standard_normal((3, 8))


@pytest.mark.parametrize(("opset", "expected"), [(23, True), (22, False)])
def test_a_root_mean_square_norm(opset: int, expected: bool) -> None:
    left = check(f"{RMS} y = Mul(n, w)", opset, w=normal(8))
    assert (left == ["RMSNormalization"]) is expected and ("Sqrt" in left) is not expected


def test_a_layer_norm_is_no_root_mean_square_norm_of_differences() -> None:
    """Opset 23 has both; without a known size neither can be written."""
    assert "RMSNormalization" not in check(LAYER.replace("n = Div", "y = Div"), 23, "width")


@pytest.mark.parametrize(("opset", "expected"), [(21, True), (20, False)])
def test_a_group_norm(opset: int, expected: bool) -> None:
    nodes = """g = Reshape(x, split) n = InstanceNormalization(g, ones, zeros) s = Shape(x) r = Reshape(n, s)
        p = Mul(r, w) y = Add(p, v)"""
    weights = {
        "split": np.array([0, 2, -1]),
        "ones": np.ones(2, np.float32),
        "zeros": np.zeros(2, np.float32),
        "w": normal(6, 1, 1),
        "v": normal(6, 1, 1),
    }
    text = f"(float[b, 6, h, k] x) => (float[b, 6, h, k] y) {{ {nodes} }}"
    left = fused(text, opset, {"x": normal(2, 6, 4, 5)}, weights=weights)
    assert (left == ["GroupNormalization"]) is expected
    assert ("InstanceNormalization" in left) is not expected


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("s = Mul(x, x) t = ReduceSum(s, axis) y = Sqrt(t)", ["ReduceL2"]),
        ("s = Pow(x, two) y = ReduceSum(s, axis)", ["ReduceSumSquare"]),
        ("s = Abs(x) y = ReduceSum(s, axis)", ["ReduceL1"]),
    ],
)
def test_reductions(nodes: str, expected: list[str], opset: int) -> None:
    read = {name: np.asarray(AXES[name]) for name in ("axis", "two") if name in nodes}
    text = f"(float[b, c, 8] x) => (float[b, c, 1] y) {{ {nodes} }}"
    assert fused(text, opset, X, weights=read) == expected


def test_a_sum_of_squares_of_integers_stays() -> None:
    text = "(int64[b, 8] x) => (int64[b, 1] y) { s = Mul(x, x) y = ReduceSum(s, axis) }"
    assert fused(text, 18, {"x": np.arange(16).reshape(2, 8)}, weights={"axis": AXES["axis"]}) == ["Mul", "ReduceSum"]
