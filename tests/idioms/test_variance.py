"""Variances and standard deviations; and other means of squares."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift

from .recognising import found, parse

BIASED = """m = ReduceMean <keepdims = 1> (x, axis) d = Sub(x, m) s = Mul(d, d)
    y = ReduceMean <keepdims = 0> (s, axis)"""
UNBIASED = BIASED.replace("y =", "v =") + " p = Mul(v, n) y = Div(p, n1)"
ROOT = UNBIASED.replace("y =", "w =") + " y = Sqrt(w)"


def variance(
    body: str, axis: int = 2, outputs: str = "float[batch, seq] y", n: float = 8.0, n1: float = 7.0
) -> onnx.ModelProto:
    known = {"axis": np.array([axis]), "n": n, "n1": n1, "two": 2.0, "other": np.array([1])}
    return parse(f"g (float[batch, seq, 8] x) => ({outputs}) {{ {body} }}", **known)


@pytest.mark.parametrize(
    ("body", "written"),
    [
        (BIASED, "x.var(-1, unbiased=False)"),
        (BIASED.replace("Mul(d, d)", "Pow(d, two)"), "x.var(-1, unbiased=False)"),
        (UNBIASED, "x.var(-1)"),
        (UNBIASED.replace("Mul(v, n)", "Mul(n, v)"), "x.var(-1)"),
        (ROOT, "x.std(-1)"),
        (BIASED.replace("y =", "w =") + " y = Sqrt(w)", "x.std(-1, unbiased=False)"),
    ],
)
def test_variances(body: str, written: str) -> None:
    model = variance(body)
    assert found(model) == ["onnxlift.Variance"]
    assert written in onnxlift.lift(model).source


def test_a_variance_that_keeps_its_axis() -> None:
    model = variance(BIASED.replace("keepdims = 0", "keepdims = 1"), outputs="float[batch, seq, 1] y")
    assert "x.var(-1, unbiased=False, keepdim=True)" in onnxlift.lift(model).source


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(s, axis)", "(s, other)"),
        ("Sub(x, m)", "Add(x, m)"),
        ("Mul(d, d)", "Mul(d, x)"),
        ("d = Sub(x, m)", "e = Exp(x) d = Sub(e, m)"),
        ("y = ReduceMean", "y = ReduceSum"),
    ],
)
def test_other_means_of_squares_stay(old: str, new: str) -> None:
    model = variance(BIASED.replace(old, new), outputs="float[a, b] y")
    assert "onnxlift.Variance" not in found(model)


@pytest.mark.parametrize(("n", "n1"), [(8.0, 6.0), (9.0, 8.0)])
def test_another_divisor_stays(n: float, n1: float) -> None:
    assert found(variance(UNBIASED, n=n, n1=n1))[-1] == "Div"


def test_a_number_of_elements_that_is_not_known_stays() -> None:
    model = variance(UNBIASED, axis=1, outputs="float[batch, 8] y")
    assert found(model) == ["onnxlift.Variance", "Mul", "Div"]


def test_what_is_normalised_by_its_variance_stays() -> None:
    body = f"{BIASED.replace('keepdims = 0', 'keepdims = 1').replace('y =', 'v =')} e = Exp(v) y = Div(d, e)"
    assert "onnxlift.Variance" not in found(variance(body, outputs="float[batch, seq, 8] y"))


@pytest.mark.parametrize(("target", "written"), [([0, 0, 1], "x.std(-1, keepdim=True)"), ([0, 1, -1], None)])
def test_the_axis_put_back(target: list[int], written: str | None) -> None:
    body = UNBIASED.replace("y =", "w =") + " k = Reshape(w, target) y = Sqrt(k)"
    constants = {"axis": np.array([2]), "n": 8.0, "n1": 7.0, "target": np.array(target)}
    model = parse(f"g (float[batch, seq, 8] x) => (float[batch, b, c] y) {{ {body} }}", **constants)
    found(model)
    source = onnxlift.lift(model).source
    assert written in source if written else "keepdim=True" not in source


def test_what_is_centred_by_hand_is_divided_by_its_deviation() -> None:
    model = variance(ROOT.replace("y =", "r =").replace("keepdims = 0", "keepdims = 1") + " y = Div(d, r)", outputs="y")
    assert "(x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)" in onnxlift.lift(model).source
    assert "onnxlift.Variance" in found(model)


@pytest.mark.parametrize(("n", "n1"), [(8.0, 6.0), (7.0, 6.0)])
def test_with_another_factor_it_is_spelled_out(n: float, n1: float) -> None:
    body = ROOT.replace("y =", "r =").replace("keepdims = 0", "keepdims = 1") + " y = Div(d, r)"
    assert ".std(" not in onnxlift.lift(variance(body, outputs="y", n=n, n1=n1)).source
