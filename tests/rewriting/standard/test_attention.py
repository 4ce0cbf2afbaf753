"""An attention that is spelled out becomes an operator, or stays exactly as it was."""

from __future__ import annotations

import numpy as np
import pytest

from .fused import fused, normal

SHAPES = {"q": (2, 3, 5, 4), "k": (2, 3, 7, 4), "v": (2, 3, 7, 6)}
FEEDS = {name: normal(*shape) for name, shape in SHAPES.items()}
HEAD = "float[b, 3, l, 4] q, float[b, 3, s, 4] k, float[b, 3, s, 6] v"
SCORES = "t = Transpose <perm = [0, 1, 3, 2]> (k) m = MatMul(q, t) z = Mul(m, scale)"
SCALE = {"scale": np.asarray(np.float32(0.5))}
PLAIN = f"{SCORES} p = Softmax(z) y = MatMul(p, v)"


def check(nodes: str, opset: int, more: str = "", **arrays: np.ndarray) -> list[str]:  # type: ignore[type-arg]
    names = {name for name in arrays if f" {name}" in more}
    weights = {**SCALE, **{name: array for name, array in arrays.items() if name not in names}}
    feeds = {**FEEDS, **{name: arrays[name] for name in names}}
    return fused(f"({HEAD}{more}) => (float[b, 3, l, 6] y) {{ {nodes} }}", opset, feeds, weights=weights)


def test_an_attention_is_one_operator() -> None:
    assert check(PLAIN, 23) == ["Attention"]


def test_before_opset_23_it_stays() -> None:
    assert check(PLAIN, 22) == ["Transpose", "MatMul", "Mul", "Softmax", "MatMul"]


def test_a_mask_by_keys_gets_a_row_for_each_query() -> None:
    text = PLAIN.replace("Softmax(z)", "Softmax(a)").replace(" p =", " a = Add(z, mask) p =")
    mask = np.where(np.arange(7) < 5, 0, -1e4).astype(np.float32) * np.ones((2, 1, 1, 1), np.float32)
    assert check(text, 23, ", float[b, 1, 1, s] mask", mask=mask)[-1] == "Attention"


GUARDED = f"""{SCORES} w = Where(mask, zero, low) a = Add(z, w) p = Softmax(a) g = IsNaN(p) o = Where(g, zero, p)
    y = MatMul(o, v)"""
FILL = {"zero": np.asarray(np.float32(0)), "low": np.asarray(np.float32(-np.inf))}


@pytest.mark.parametrize(("opset", "expected"), [(25, True), (24, False), (23, False)])
def test_a_guard_for_queries_without_keys_is_part_of_it_since_opset_25(opset: int, expected: bool) -> None:
    mask = np.ones((2, 1, 5, 7), bool)
    mask[0, 0, 1] = False  # this query sees no key
    left = check(GUARDED, opset, ", bool[b, 1, l, s] mask", mask=mask, **FILL)
    assert ("Attention" in left) is expected and ("IsNaN" in left) is not expected


def test_queries_that_are_scaled_before_a_transpose_are_put_back_scaled() -> None:
    """The idiom lets the transpose read the queries before the scale. An attention that stays must not."""
    text = """(float[b, l, 3, 4] q, float[b, 3, s, 4] k, float[b, 3, s, 6] v, bool[b, 1, l, s] mask)
        => (float[b, 3, l, 6] y) {
        e = Mul(q, scale) u = Transpose <perm = [0, 2, 1, 3]> (e) t = Transpose <perm = [0, 1, 3, 2]> (k)
        z = MatMul(u, t) w = Where(mask, zero, low) a = Add(z, w) p = Softmax(a) g = IsNaN(p) o = Where(g, zero, p)
        y = MatMul(o, v) }"""
    mask = np.ones((2, 1, 5, 7), bool)
    mask[0, 0, 1] = False
    feeds = {**FEEDS, "q": normal(2, 5, 3, 4), "mask": mask}
    left = fused(text, 23, feeds, weights={**SCALE, **FILL})
    assert "Attention" not in left and left.count("Mul") == 1 and left.count("Transpose") == 2


def test_three_axes_are_one_head() -> None:
    text = PLAIN.replace("[0, 1, 3, 2]", "[0, 2, 1]")
    head = "float[b, l, 4] q, float[b, s, 4] k, float[b, s, 6] v"
    feeds = {"q": normal(2, 5, 4), "k": normal(2, 7, 4), "v": normal(2, 7, 6)}
    assert fused(f"({head}) => (float[b, l, 6] y) {{ {text} }}", 23, feeds, weights=SCALE) == ["Attention"]
    masked = text.replace("Softmax(z)", "Softmax(a)").replace(" p =", " a = Add(z, mask) p =")
    left = fused(
        f"({head}, float[b, l, s] mask) => (float[b, l, 6] y) {{ {masked} }}",
        23,
        {**feeds, "mask": normal(2, 5, 7)},
        weights=SCALE,
    )
    assert "Attention" not in left
