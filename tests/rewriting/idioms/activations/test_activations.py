from __future__ import annotations

import math

import onnx
import pytest

from rewriting.idioms.recognising import found, parse

ROOT = math.sqrt(2)
TANH = math.sqrt(2 / math.pi)

ERF_FORMS = {
    "half last": "a = Div(x, root) e = Erf(a) f = Add(e, one) g = Mul(x, f) y = Mul(g, half)",
    "half first": "h = Mul(x, half) a = Div(x, root) e = Erf(a) f = Add(one, e) y = Mul(h, f)",
    "half inside": "a = Mul(x, inverse) e = Erf(a) f = Add(e, one) g = Mul(half, f) y = Mul(g, x)",
    "halves": "a = Mul(x, inverse) e = Erf(a) h = Mul(e, half) f = Add(h, half) y = Mul(x, f)",
    "divided by two": "a = Mul(inverse, x) e = Erf(a) f = Add(e, one) g = Mul(x, f) y = Div(g, two)",
}
TANH_FORMS = {
    "cube": "p = Pow(x, three) c = Mul(p, cubic) s = Add(x, c) a = Mul(s, tanh_scale)",
    "products": "q = Mul(x, x) p = Mul(q, x) c = Mul(cubic, p) s = Add(c, x) a = Mul(tanh_scale, s)",
    "factored": "k = Mul(x, tanh_scale) q = Mul(x, x) c = Mul(q, cubic) s = Add(one, c) a = Mul(k, s)",
}
NUMBERS = {
    "root": ROOT,
    "inverse": 1 / ROOT,
    "half": 0.5,
    "one": 1.0,
    "two": 2.0,
    "three": 3.0,
    "six": 6.0,
    "zero": 0.0,
    "cubic": 0.044715,
    "tanh_scale": TANH,
    "quick": 1.702,
}


def model(body: str, opset: int = 18, outputs: str = "", **numbers: float) -> onnx.ModelProto:
    text = f"g (float[batch, seq] x) => (float[batch, seq] y{outputs}) {{ {body} }}"
    used = {name: value for name, value in (NUMBERS | numbers).items() if name in body}
    return parse(text, opset, **used)


@pytest.mark.parametrize("body", ERF_FORMS.values(), ids=ERF_FORMS)
def test_gelu(body: str) -> None:
    assert found(model(body)) == ["onnxlift.Gelu"]


@pytest.mark.parametrize("body", TANH_FORMS.values(), ids=TANH_FORMS)
def test_gelu_by_tanh(body: str) -> None:
    assert found(model(f"{body} t = Tanh(a) f = Add(t, one) g = Mul(x, f) y = Mul(g, half)")) == ["onnxlift.Gelu"]


@pytest.mark.parametrize(
    ("name", "value"), [("root", 1.5), ("half", 0.25), ("one", 1.001), ("root", -ROOT), ("half", -0.5)]
)
def test_gelu_with_another_number_stays(name: str, value: float) -> None:
    assert "onnxlift.Gelu" not in found(model(ERF_FORMS["half last"], **{name: value}))


@pytest.mark.parametrize(("name", "value"), [("cubic", 0.04), ("tanh_scale", 0.8), ("three", 2.0)])
def test_gelu_by_tanh_with_another_number_stays(name: str, value: float) -> None:
    body = f"{TANH_FORMS['cube']} t = Tanh(a) f = Add(t, one) g = Mul(x, f) y = Mul(g, half)"
    assert "onnxlift.Gelu" not in found(model(body, **{name: value}))


def test_gelu_of_another_value_stays() -> None:
    body = "z = Abs(x) a = Div(z, root) e = Erf(a) f = Add(e, one) g = Mul(x, f) y = Mul(g, half)"
    assert "onnxlift.Gelu" not in found(model(body))


@pytest.mark.parametrize("inner", ["e", "f", "g"])
def test_gelu_stays_if_a_part_is_an_output(inner: str) -> None:
    assert "onnxlift.Gelu" not in found(model(ERF_FORMS["half last"], outputs=f", float[batch, seq] {inner}"))


def test_gelu_stays_if_a_part_is_read_elsewhere() -> None:
    body = ERF_FORMS["half last"] + " z = Neg(e)"
    assert "onnxlift.Gelu" not in found(model(body, outputs=", float[batch, seq] z"))


def test_gelu_stays_if_a_number_adds_an_axis() -> None:
    proto = model(ERF_FORMS["half last"])
    for tensor in proto.graph.initializer:
        if tensor.name == "half":
            tensor.dims[:] = [1, 1, 1]
    proto.graph.output[0].type.tensor_type.shape.dim.insert(0, onnx.TensorShapeProto.Dimension(dim_value=1))
    assert "onnxlift.Gelu" not in found(proto)


def test_gelu_is_found_where_it_is_only_a_factor() -> None:
    body = ERF_FORMS["half last"].replace("y =", "u =") + " y = Mul(u, x)"
    assert found(model(body)) == ["onnxlift.Gelu", "Mul"]


def test_silu() -> None:
    assert found(model("s = Sigmoid(x) y = Mul(s, x)")) == ["onnxlift.SiLU"]


def test_silu_is_found_where_it_is_scaled() -> None:
    assert found(model("s = Sigmoid(x) h = Mul(x, s) y = Mul(h, half)")) == ["onnxlift.SiLU", "Mul"]


def test_mish() -> None:
    assert found(model("p = Softplus(x) t = Tanh(p) y = Mul(x, t)")) == ["onnxlift.Mish"]


@pytest.mark.parametrize(
    "body",
    [
        "s = Add(x, three) c = Clip(s, zero, six) p = Mul(x, c) y = Div(p, six)",
        "s = Add(three, x) c = Clip(s, zero, six) p = Div(c, six) y = Mul(p, x)",
        "s = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, s)",
    ],
)
def test_hard_swish(body: str) -> None:
    assert found(model(body)) == ["onnxlift.HardSwish"]


def test_relu6() -> None:
    assert found(model("y = Clip(x, zero, six)")) == ["onnxlift.ReLU6"]
    assert found(model("y = Clip <min = 0.0, max = 6.0> (x)", opset=6)) == ["onnxlift.ReLU6"]


@pytest.mark.parametrize(
    "body",
    [
        "q = Mul(x, quick) s = Sigmoid(q) y = Mul(x, s)",
        "s = HardSigmoid(x) y = Mul(x, s)",
        "y = Clip(x, zero, three)",
        "y = Clip(x, one, six)",
        "y = Clip(x, zero)",
        "p = Softplus(x) t = Tanh(p) h = Mul(p, t) y = Neg(h)",
    ],
)
def test_other_gates_stay(body: str) -> None:
    assert not any(operator.startswith("onnxlift") for operator in found(model(body)))


@pytest.mark.parametrize(("shift", "divisor"), [("two", "six"), ("three", "three")])
def test_hard_swish_with_another_number_stays(shift: str, divisor: str) -> None:
    body = f"s = Add(x, {shift}) c = Clip(s, zero, six) p = Mul(x, c) y = Div(p, {divisor})"
    assert found(model(body)) == ["Add", "onnxlift.ReLU6", "Mul", "Div"]


def test_gate_that_is_read_elsewhere_stays() -> None:
    assert found(model("s = Sigmoid(x) y = Mul(x, s)", outputs=", float[batch, seq] s")) == ["Sigmoid", "Mul"]
