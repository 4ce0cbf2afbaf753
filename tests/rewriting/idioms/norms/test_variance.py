"""Variances and standard deviations; and other means of squares."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from rewriting.idioms.recognising import found, parse

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


@pytest.mark.parametrize(
    ("body", "last"),
    [
        (BIASED.replace("Mul(d, d)", "Pow(d, three)"), "ReduceMean"),
        (BIASED.replace(" (x, axis)", " (x)").replace(" (s, axis)", " (s)"), "ReduceMean"),
        (BIASED.replace("y =", "w =") + " r = Sqrt(w) y = Sqrt(r)", "Sqrt"),
        (UNBIASED.replace("y =", "w =") + " q = Mul(w, n) y = Div(q, n1)", "Div"),
        (BIASED.replace("y =", "v =") + " r = Sqrt(v) p = Mul(r, n) y = Div(p, n1)", "Div"),
    ],
    ids=["cubes", "all axes", "the root of a root", "corrected twice", "a corrected deviation"],
)
def test_what_is_not_quite_a_variance(body: str, last: str) -> None:
    proto = variance(body, outputs="y")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(3), "three"))
    assert found(proto)[-1] == last


@pytest.mark.parametrize(
    ("body", "value", "shape", "last"),
    [
        (BIASED, "s", "batch, seq, 8", "ReduceMean"),
        (BIASED, "d", "batch, seq, 8", "ReduceMean"),
        (BIASED, "m", "batch, seq, 1", "ReduceMean"),
        (BIASED.replace("y =", "v =") + " y = Sqrt(v)", "v", "batch, seq", "Sqrt"),
        (UNBIASED, "v", "batch, seq", "Div"),
        (UNBIASED, "p", "batch, seq", "Div"),
        (f"{UNBIASED.replace('y =', 'w =')} y = Unsqueeze(w, axis)", "w", "batch, seq", "Unsqueeze"),
    ],
)
def test_what_is_read_elsewhere_stays(body: str, value: str, shape: str, last: str) -> None:
    y = "float[batch, seq, 1] y" if "Unsqueeze" in body else "float[batch, seq] y"
    operators = found(variance(f"{body} o = Exp({value})", outputs=f"{y}, float[{shape}] o"))
    assert last in operators and (last != "ReduceMean" or "onnxlift.Variance" not in operators)


@pytest.mark.parametrize("axis", [0, 1])
def test_an_average_along_another_axis_stays(axis: int) -> None:
    """It loses its axis, and what is subtracted is stretched along the first one: right for the first only."""
    known = {"axis": np.array([axis])}
    proto = parse(f"g (float[6, 6] x) => (float[6] y) {{ {BIASED.replace('keepdims = 1', 'keepdims = 0')} }}", **known)
    assert "onnxlift.Variance" not in found(proto)


def test_integers_have_no_variance() -> None:
    proto = parse(f"g (int32[batch, seq, 8] x) => (int32[batch, seq] y) {{ {BIASED} }}", axis=np.array([2]))
    assert "onnxlift.Variance" not in found(proto)


SPELLED = ROOT.replace("y =", "r =").replace("keepdims = 0", "keepdims = 1") + " y = Div(d, r)"


@pytest.mark.parametrize(
    ("old", "new", "more"),
    [
        ("p = Mul", "o = Exp(v) p = Mul", ", float[batch, seq, 1] o"),
        ("w = Div", "o = Exp(p) w = Div", ", float[batch, seq, 1] o"),
        ("w = Div(p", "w = Sub(p", ""),
        ("w = Div(p, n1)", "w = Div(p, two)", ""),
        ("p = Mul(v, n)", "p = Add(v, n)", ""),
    ],
    ids=["the variance is read", "the product is read", "a difference", "another divisor", "a sum"],
)
def test_what_is_not_corrected_is_spelled_out_if_it_is_centred_anyway(old: str, new: str, more: str) -> None:
    assert SPELLED.count(old) == 1
    proto = variance(SPELLED.replace(old, new), outputs=f"float[batch, seq, 8] y{more}")
    assert "onnxlift.Variance" not in found(proto, rtol=1e-3, atol=1e-4)


def test_a_square_with_more_axes_is_averaged_over_another_one() -> None:
    known = {"axis": np.array([2]), "deep": np.full((1, 1, 1, 1), 2, np.float32)}
    body = BIASED.replace("Mul(d, d)", "Pow(d, deep)")
    proto = parse(f"g (float[batch, seq, 8] x) => (float[1, batch, 8] y) {{ {body} }}", **known)
    assert "onnxlift.Variance" not in found(proto)
