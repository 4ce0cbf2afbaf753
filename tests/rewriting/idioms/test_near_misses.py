"""Patterns that nearly match: the idiom says which of its conditions does not hold."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnxlift.ir.editing.near_misses import noting
from rewriting.idioms.recognising import Data, parse, simplified

NORM = "m = ReduceMean(x, axes) d = Sub(x, m) s = Mul(d, d) v = ReduceMean(s, axes) e = Add(v, eps) r = Sqrt(e)"
LAST = np.array([-1], np.int64)
IMAGE = "g (float[batch, 6, 4, 4] x)"


def reasons(model: onnx.ModelProto) -> str:
    with noting(lambda: "idiom") as notes:
        simplified(model)
    return "; ".join(note.why for note in notes)


def rows(body: str, result: str = "", **known: Data) -> onnx.ModelProto:
    outputs = f"float[batch, 5, 8] y{result}"
    numbers = {"axes": LAST, "eps": 1e-5} | known
    used = {name: value for name, value in numbers.items() if f"{name})" in body or f"{name}," in body}
    inputs = "float[batch, 5, 8] x" + (", float e2" if "e2" in body else "")
    return parse(f"g ({inputs}) => ({outputs}) {{ {body} }}", **used)


def image(body: str, **known: Data) -> onnx.ModelProto:
    return parse(f"{IMAGE} => (float[batch, 6, 4, 4] y) {{ {body} }}", **known)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (rows(f"{NORM.replace('eps', 'e2')} y = Div(d, r)"), "the epsilon is not a number"),
        (rows(f"{NORM} y = Div(d, r)", ", float[batch, 5, 8] d"), "others read the difference from the mean"),
        (rows(f"{NORM} y = Div(d, r)", ", float[batch, 5, 1] m"), "not the mean of the same value"),
        (
            rows(f"{NORM.replace('ReduceMean(s, axes)', 'ReduceMean(s, other)')} y = Div(d, r)", other=LAST - 1),
            "the mean is not over the last axes",
        ),
        (rows(f"{NORM} n = Div(d, r) y = Mul(n, w)", w=(5, 8)), "the weight or bias is not a constant with one"),
        (
            rows(
                "a = Div(x, two) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half)", two=2.0, one=1.0, half=0.5
            ),
            "has other coefficients than a GELU's",
        ),
        (
            rows(
                "a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half)",
                root=2**0.5,
                one=1.0,
                half=0.25,
            ),
            "what follows is not x * 0.5 * (1 + Erf(...))",
        ),
        (rows("y = MatMul(x, w)", w=(2, 8, 8)), "not a trained parameter with two axes"),
        (rows("p = MatMul(x, w) y = Add(p, b)", w=(8, 8), b=(5, 8)), "one number for each output"),
        (image("c = Conv(x, w) y = Add(c, b)", w=(6, 6, 1, 1), b=(4,)), "one number for each channel"),
        (
            image(
                "s = Reshape(x, cut) n = InstanceNormalization(s, ones, zeros) y = Reshape(n, whole)",
                cut=np.array([0, 3, -1], np.int64),
                whole=np.array([0, 6, 4, 4], np.int64),
                ones=(3,),
                zeros=np.zeros(3, np.float32),
            ),
            "the groups have weights",
        ),
        (
            parse(
                "g (float[batch, 5, 8] x) => (float[batch, 5, 8] y, float[batch, 5, 5] p) { t = Transpose <perm = "
                "[0, 2, 1]> (x) s = MatMul(x, t) p = Softmax <axis = -1> (s) y = MatMul(p, x) }"
            ),
            "others read the probabilities",
        ),
        (
            parse(
                "g (float[batch, 5, 5] x) => (float[batch, 5, 5] y) { t = Transpose <perm = [0, 2, 1]> (x) s = "
                "MatMul(x, t) p = Softmax <axis = 1> (s) y = MatMul(p, x) }"
            ),
            "the softmax is not over the last axis",
        ),
        (
            parse(
                "g (int64[batch] i) => (float[batch, 8] y) { j = Sub(i, one) y = Gather(table, j) }",
                table=(20, 8),
                one=np.array(1),
            ),
            "an index may be negative",
        ),
        (
            parse(
                "g (float[seq, batch, 3] x) => (float[seq, 1, batch, 4] y) { y = GRU <hidden_size = 4> (x, w, r) }",
                w=(1, 12, 3),
                r=(1, 12, 4),
            ),
            "linear_before_reset",
        ),
        (
            rows(
                "a, b = Split <axis = -1, num_outputs = 2> (x) n = Neg(a) t = Concat <axis = -1> (n, b) "
                "u = Mul(x, c) v = Mul(t, s) y = Add(u, v)",
                c=(5, 8),
                s=(5, 8),
            ),
            "not the second half of the last axis",
        ),
    ],
)
def test_a_near_miss_says_what_is_missing(model: onnx.ModelProto, why: str) -> None:
    assert why in reasons(model)


def test_a_pattern_that_matches_says_nothing() -> None:
    assert reasons(rows(f"{NORM} n = Div(d, r) p = Mul(n, w) y = Add(p, b)", w=(8,), b=(8,))) == ""
