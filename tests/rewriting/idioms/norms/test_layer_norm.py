"""Layer normalisation as ONNX's operator, with ones and zeros where the layer has no weights."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriting.idioms.recognising import Data, found, parse, simplified

NORM = "y = LayerNormalization <axis = -2, epsilon = 1e-4> (x, w, val_2)"


def model(body: str = NORM, more: str = "", **known: Data) -> onnx.ModelProto:
    numbers: dict[str, Data] = {
        "w": (4, 6),
        "val_1": np.ones((4, 6), np.float32),
        "val_2": np.zeros((4, 6), np.float32),
    } | known
    used = {name: value for name, value in numbers.items() if f"{name})" in body or f"{name}," in body}
    return parse(f"g (float[batch, 4, 6] x) => (float[batch, 4, 6] y{more}) {{ {body} }}", **used)


@pytest.mark.parametrize(
    ("body", "known", "inputs"),
    [
        (NORM, {}, ["x", "w"]),
        (NORM.replace("w,", "val_1,"), {}, ["x"]),
        (NORM.replace("w, val_2", "val_1"), {}, ["x"]),
        (NORM.replace("w,", "val_1,"), {"val_1": np.ones(6, np.float32)}, ["x"]),
        (NORM, {"w": (4, 1), "val_2": np.zeros(1, np.float32)}, ["x", "w"]),
    ],
    ids=["no bias", "neither", "no third input", "ones of another shape", "a weight of another shape"],
)
def test_what_an_exporter_made_is_left_out(body: str, known: dict[str, Data], inputs: list[str]) -> None:
    assert found(model(body, **known)) == ["onnxlift.LayerNorm"]
    (norm,) = simplified(model(body, **known)).graph
    assert [value.name for value in norm.inputs if value is not None] == inputs


@pytest.mark.parametrize(
    ("old", "new"),
    [("w, val_2", "w, val_1"), ("w, val_2", "w"), ("w, val_2", "val_1, b")],
    ids=["ones as bias", "no bias anyway", "a bias"],
)
def test_what_is_there_stays(old: str, new: str) -> None:
    assert found(model(NORM.replace(old, new), b=(4, 6))) == ["LayerNormalization"]


def test_statistics_that_are_read_stay() -> None:
    body = NORM.replace("y =", "y, m =").replace("w,", "val_1,")
    assert found(model(body, ", float[batch, 1, 1] m")) == ["LayerNormalization"]


def test_statistics_of_another_precision_stay() -> None:
    body = NORM.replace("axis", "stash_type = 11, axis").replace("w,", "val_1,")
    assert [node.op_type for node in simplified(model(body)).graph] == ["LayerNormalization"]


TENSORFLOW = """
    m = {mean} (x)
    d = Sub(x, m)
    s = Mul(d, d)
    v = {mean} (s)
    e = Add(v, epsilon)
    r = Sqrt(e)
    i = Reciprocal(r)
    z = Mul(i, weight)
    n = Mul(x, z)
    o = Mul(m, z)
    b = Sub(bias, o)
    y = Add(n, b)
"""
LAST = "ReduceMean <axes = [-1]>"


def tensorflow(mean: str = LAST, more: str = "", body: str = TENSORFLOW, **known: Data) -> onnx.ModelProto:
    numbers: dict[str, Data] = {"epsilon": np.float32(1e-3), "weight": (6,), "bias": (6,)} | known
    text = f"g (float[batch, 4, 6] x) => (float[batch, 4, 6] y{more}) {{ {body.replace('{mean}', mean)} }}"
    return parse(text, 13, **numbers)


@pytest.mark.parametrize("mean", [LAST, "GlobalAveragePool"])
@pytest.mark.parametrize(
    "body",
    [
        TENSORFLOW,
        TENSORFLOW.replace("(i, weight)", "(weight, i)").replace("(x, z)", "(z, x)").replace("(m, z)", "(z, m)"),
        TENSORFLOW.replace("Add(n, b)", "Add(b, n)"),
        TENSORFLOW.replace("i = Reciprocal(r)", "one = Constant<value_float = 1.0>() i = Div(one, r)"),
    ],
)
def test_what_tensorflow_writes(mean: str, body: str) -> None:
    assert found(tensorflow(mean, body=body)) == ["onnxlift.LayerNorm"]
    (norm,) = simplified(tensorflow(mean, body=body)).graph
    assert [value.name for value in norm.inputs if value is not None] == ["x", "weight", "bias"]


@pytest.mark.parametrize("shape", [(1,), (4, 6), (4, 1)])
@pytest.mark.parametrize("name", ["weight", "bias"])
def test_tensorflows_norm_has_a_number_for_each_element(name: str, shape: tuple[int, ...]) -> None:
    known: dict[str, Data] = {name: shape}
    assert "onnxlift.LayerNorm" not in found(tensorflow(**known))


@pytest.mark.parametrize("value", "msvzrnob")
def test_others_may_not_read_tensorflows_values(value: str) -> None:
    shape = "1" if value in "msvr" else "6"
    shape = "6" if value == "s" else shape
    model = tensorflow(more=f", float[batch, 4, {shape}] {value}")
    assert "onnxlift.LayerNorm" not in found(model)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n = Mul(x, z)", "x2 = Neg(x) n = Mul(x2, z)"),
        ("o = Mul(m, z)", "z2 = Mul(i, weight) z3 = Abs(z2) o = Mul(m, z3)"),
        ("b = Sub(bias, o)", "b = Sub(o, bias)"),
        ("s = Mul(d, d)", "s = Mul(d, x)"),
        ("v = {mean} (s)", "v = ReduceMean <axes = [1, 2]> (s)"),
        ("m = {mean} (x)", "m = ReduceMean <axes = [1, 2]> (x)"),
    ],
)
def test_another_formula_than_tensorflows_stays(old: str, new: str) -> None:
    # Where the square is not one, the root may be of a negative number, on both sides.
    more = "w = Abs(v) e = Add(w, epsilon)" if "(d, x)" in new else "e = Add(v, epsilon)"
    body = TENSORFLOW.replace(old, new).replace("e = Add(v, epsilon)", more)
    assert "onnxlift.LayerNorm" not in found(tensorflow(body=body))
