"""What the norms have in common: the root of a mean square, weights and casts."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriting.idioms.recognising import Data, found, parse, simplified

SHAPE = "batch, 4, 6"
RMS = "s = Mul(x, x) v = ReduceMean <axes = [2]> (s) e = Add(v, epsilon) r = Sqrt(e) y = Div(x, r)"
INVERSE = RMS.replace("y = Div(x, r)", "i = Reciprocal(r) y = Mul(x, i)")
QUOTIENT = INVERSE.replace("Reciprocal(r)", "Div(one, r)")
POWERS = INVERSE.replace("r = Sqrt(e) i = Reciprocal(r)", "i = Pow(e, power)")
ROOT = RMS.replace("Sqrt(e)", "Pow(e, half)")
WEIGHTED = f"{RMS.replace('y =', 'n =')} y = Mul(n, w)"
CENTRED = f"m = ReduceMean <axes = [2]> (x) d = Sub(x, m) {RMS.replace('(x', '(d').replace(' x)', ' d)')}"
CAST = f"x = Cast <to = 1> (h) {RMS.replace('y =', 'n =')} y = Cast <to = 10> (n)"
NUMBERS: dict[str, Data] = {
    "epsilon": 1e-3,
    "one": 1.0,
    "two": 2.0,
    "half": 0.5,
    "quarter": 0.25,
    "power": -0.5,
    "small": -0.25,
}
NUMBERS |= {"fine": np.array(1e-3), "w": (6,)}


def model(body: str, inputs: str = f"float[{SHAPE}] x", outputs: str = f"float[{SHAPE}] y") -> onnx.ModelProto:
    known = {name: value for name, value in NUMBERS.items() if f"{name})" in body or f"{name}," in body}
    return parse(f"g ({inputs}) => ({outputs}) {{ {body} }}", 13, **known)


@pytest.mark.parametrize("body", [RMS, INVERSE, QUOTIENT, POWERS, ROOT, WEIGHTED, CENTRED])
def test_norms(body: str) -> None:
    assert found(model(body)) == ["onnxlift.LayerNorm" if body == CENTRED else "onnxlift.RMSNorm"]


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        (QUOTIENT, "one", "two"),
        (POWERS, "power", "small"),
        (ROOT, "half", "quarter"),
        (RMS, "<axes = [2]> ", ""),
        (RMS, "<axes = [2]> ", "<axes = [0]> "),
    ],
    ids=["twice the inverse", "the inverse of another root", "another root", "all axes", "the first axis"],
)
def test_other_quotients_stay(body: str, old: str, new: str) -> None:
    assert "onnxlift.RMSNorm" not in found(model(body.replace(old, new)))


@pytest.mark.parametrize(
    ("body", "value", "last"),
    [
        (INVERSE, "i", 1),
        (POWERS, "i", 1),
        (RMS, "r", 1),
        (RMS, "e", 1),
        (RMS, "v", 1),
        (RMS, "s", 6),
        (WEIGHTED, "n", 6),
    ],
)
def test_what_is_read_elsewhere_stays(body: str, value: str, last: int) -> None:
    outputs = f"float[{SHAPE}] y, float[batch, 4, {last}] o"
    operators = found(model(f"{body} o = Exp({value})", outputs=outputs))
    assert "Mul" in operators and ("onnxlift.RMSNorm" in operators) == (body == WEIGHTED)


@pytest.mark.parametrize(
    ("body", "name", "number"),
    [(QUOTIENT, "one", 1.0), (POWERS, "power", -0.5), (ROOT, "half", 0.5)],
    ids=["quotient", "inverse root", "root"],
)
@pytest.mark.parametrize("axes", [3, 4])
def test_a_number_with_more_axes_gives_the_result_more(body: str, name: str, number: float, axes: int) -> None:
    proto = model(body.replace(name, "deep"), outputs=f"float[{'1, ' * (axes - 3)}{SHAPE}] y")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.full((1,) * axes, number, np.float32), "deep"))
    assert ("onnxlift.RMSNorm" in found(proto)) == (axes == 3)


@pytest.mark.parametrize("body", [RMS, CENTRED])
def test_a_divisor_behind_a_norm_stays(body: str) -> None:
    assert found(model(f"{body.replace('y =', 'n =')} y = Div(n, w)"))[1:] == ["Div"]


def test_integers_stay() -> None:
    text = POWERS.replace("epsilon", "number")
    proto = parse(
        f"g (int32[{SHAPE}] x) => (int32[{SHAPE}] y) {{ {text} }}", 13, number=np.array(1, np.int32), power=-0.5
    )
    assert "onnxlift.RMSNorm" not in found(proto)


@pytest.mark.parametrize(
    ("body", "axes", "is_norm"), [(RMS, "-1", True), (POWERS, "-1", True), (RMS, "-2", False), (RMS, "1", False)]
)
def test_axes_of_any_number_of_them(body: str, axes: str, is_norm: bool) -> None:
    proto = model(body.replace("[2]", f"[{axes}]"))
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.ClearField("shape")
    assert ("RMSNorm" in [node.op_type for node in simplified(proto).graph]) == is_norm


def cast(body: str, inner: str = "float16", outer: str = "float16", more: str = "") -> onnx.ModelProto:
    return model(body, f"{inner}[{SHAPE}] h", f"{outer}[{SHAPE}] y{more}")


def test_half_precision_needs_no_casts() -> None:
    assert found(cast(CAST), rtol=2e-3, atol=2e-3) == ["onnxlift.RMSNorm"]


@pytest.mark.parametrize(
    ("proto", "operators"),
    [
        (cast(CAST.replace("= 10", "= 11"), outer="double"), ["Cast", "onnxlift.RMSNorm", "Cast"]),
        (cast(CAST.replace("= 10", "= 11"), "double", "double"), ["Cast", "onnxlift.RMSNorm", "Cast"]),
        (cast(CAST.replace("n =", "k =").replace("y =", "n = Mul(k, w) y =")), ["Cast", "onnxlift.RMSNorm", "Cast"]),
        (cast(f"{CAST} o = Exp(n)", more=f", float[{SHAPE}] o"), ["Cast", "onnxlift.RMSNorm", "Cast", "Exp"]),
        (cast(CAST.replace("= 1>", "= 11>").replace("epsilon", "fine")), ["Cast", "onnxlift.RMSNorm", "Cast"]),
    ],
    ids=["to another type", "of double precision", "of a weight", "of what is read elsewhere", "to double"],
)
def test_other_casts_stay(proto: onnx.ModelProto, operators: list[str]) -> None:
    assert found(proto, rtol=2e-3, atol=2e-3) == operators


def test_what_makes_another_type_need_not_be_a_cast() -> None:
    text = CAST.replace("[2]", "[1]").replace("Cast <to = 10>", "EyeLike <dtype = 10>")
    proto = model(text, "float16[4, 6] h", "float16[4, 6] y")
    assert [node.op_type for node in simplified(proto).graph][-1] == "EyeLike"
