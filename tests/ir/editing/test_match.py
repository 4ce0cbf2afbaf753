"""The vocabulary of the idioms by itself, where it is simpler to ask than through one of them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnxlift.ir.editing import match
from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.graph.constants import number
from rewriting.idioms import unsimplified
from rewriting.idioms.recognising import Data, found, parse
from rewriting.idioms.unsimplified import Values, graph

X = "g (float[batch, 4] x) => (y)"


# Who made a value, who reads it

IN_A_BRANCH = """g (float[batch, 4] x, float s) => (float[batch, 4] y) {{ c = IsNaN(s) c2 = Not(c) {outside}
    y = If (c2) <
        then_branch = t () => (float[a, b] p) {{ {inside} }}, else_branch = e () => (float[a, b] q) {{ q = Neg(x) }}
    >
}}"""


@pytest.mark.parametrize(
    ("outside", "inside"),
    [
        ("a = Tanh(x)", "p = Sub(x, a)"),
        ("a = Sigmoid(x)", "p = Mul(x, a)"),
        ("a = Div(x, root) f = Erf(a)", "h = Add(f, one) i = Mul(x, h) p = Mul(i, half)"),
    ],
    ids=["tanhshrink", "silu", "gelu"],
)
def test_what_was_made_outside_a_branch_is_no_part_of_a_pattern_in_it(outside: str, inside: str) -> None:
    known = {"root": 2**0.5, "one": 1.0, "half": 0.5} if "root" in outside else {}
    assert found(parse(IN_A_BRANCH.format(outside=outside, inside=inside), **known))[-1] == "If"


def test_nor_is_what_is_read_in_a_branch_a_reader_outside() -> None:
    edit, values = graph(IN_A_BRANCH.format(outside="a = Abs(x) b = Exp(a)", inside="p = Add(a, b)"))
    assert [node.op_type for node in match.readers_of(edit, values["a"])] == ["Exp"]
    edit, values = graph(IN_A_BRANCH.format(outside="a = Abs(x)", inside="p = Add(a, x)"))
    assert not [*match.arithmetic_after(edit, _maker(values["a"]))]


def _maker(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None
    return node


def test_an_operator_of_the_same_name_in_another_domain() -> None:
    edit, values = graph(f"{X} {{ y = Tanh(x) }}")
    assert match.made_by(edit, values["y"], "Tanh") is not None
    assert match.made_by(edit, values["y"], "Tanh", domain=match.DOMAIN) is None
    assert match.made_by(edit, values["y"], "Tan", "Sinh") is None


def test_readers_of_a_value_as_the_first_input() -> None:
    edit, values = graph(f"{X} {{ a = Sub(x, x) b = Sub(a, x) y = Mul(b, x) }}")
    assert [node.op_type for node in match.readers_of(edit, values["x"])] == ["Sub"]


MANY = " ".join(f"a{i} = Sub(x, n{i})" for i in range(9)) + f" y = Sum({', '.join(f'a{i}' for i in range(9))})"


def many() -> tuple[Edit, Values]:
    return graph(f"{X} {{ {MANY} }}", **{f"n{i}": float(i) for i in range(9)})


def test_values_with_many_readers_are_in_no_pattern() -> None:
    edit, values = many()
    assert match.readers_of(edit, values["x"]) == ()
    edit, values = many()
    assert not match.is_private(edit, values["x"])
    assert match.is_private(edit, values["x"], readers=9)  # but for those that read it as often themselves


def test_values_with_many_readers_are_asked_for_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for ask in (match.is_private, match.readers_of):
        edit, values = many()
        assert not ask(edit, values["x"])
        with monkeypatch.context() as patch:
            patch.setattr(ir.Value, "uses", None)
            assert not ask(edit, values["x"])


def test_arithmetic_after_a_node_ends_with_other_operators_and_readers() -> None:
    def after(text: str) -> list[str]:
        edit, values = graph(f"{X} {{ a = Erf(x) {text} }}", one=1.0)
        return [node.op_type for node in match.arithmetic_after(edit, _maker(values["a"]))]

    assert after("b = Add(a, one) c = Mul(x, b) d = Exp(c) y = Add(d, one)") == ["Add", "Mul"]
    assert after("b = Add(a, one) c = Div(b, x) y = Add(b, c)") == ["Add"]
    assert after("b = Mul(a, a) y = Add(b, one)") == []
    assert after(" ".join(f"{b} = Add({a}, one)" for a, b in zip("abcdefg", "bcdefgy", strict=True))) == ["Add"] * 5


# Numbers


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (np.array(2, np.int32), 2.0),
        (np.array([[0.5]]), 0.5),
        (np.array([0.5, 0.5]), None),
        (np.array([], np.float32), None),
        (np.array(True), None),
        (np.array("0.5", object), None),
    ],
    ids=["integer", "matrix", "two", "none", "boolean", "text"],
)
def test_the_number_that_a_constant_is(data: np.ndarray, expected: float | None) -> None:
    _, values = graph(f"{X} {{ y = Neg(x) z = Identity(n) }}".replace("(y)", "(y, z)"), n=data)
    assert number(values["n"]) == expected


def test_numbers_are_close_by_the_precision_of_their_type() -> None:
    assert match.is_close(1 + 1e-7, 1, ir.DataType.FLOAT) and not match.is_close(1 + 1e-7, 1, ir.DataType.DOUBLE)
    assert match.is_close(1.001, 1, ir.DataType.FLOAT16) and not match.is_close(1.001, 1, ir.DataType.FLOAT)
    assert not match.is_close(1 + 1e-7, 1, None) and not match.is_close(1 + 1e-7, 1, ir.DataType.INT64)


def test_a_number_with_an_axis_does_not_go_into_what_may_have_none() -> None:
    text = "g (float[] x) => (float[] y) { s = Mul(x, b) p = Softplus(s) y = Div(p, b) }"
    assert found(parse(text, b=2.0)) == ["onnxlift.Softplus"]
    assert "onnxlift.Softplus" not in found(parse(text, b=np.array([2.0], np.float32)))


@pytest.mark.parametrize(
    "text", ["s = Mul(x, w) p = Softplus(s) y = Div(p, b)", "s = Mul(x, b) p = Softplus(s) y = Div(p, w)"]
)
def test_a_number_with_more_axes_than_its_operand(text: str) -> None:
    proto = parse(f"g (float[batch, 4] x) => (y) {{ {text} }}", b=2.0, w=np.full((1, 1, 1), 2.0, np.float32))
    assert "onnxlift.Softplus" not in found(proto)
    proto = parse(f"g (float[batch, 4] x) => (y) {{ {text} }}", b=2.0, w=np.full((1, 1), 2.0, np.float32))
    assert found(proto) == ["onnxlift.Softplus"]


def test_nothing_is_divided_by_zero() -> None:
    _, values = graph(f"{X} {{ a = Div(x, zero) b = Div(x, two) y = Sub(a, b) }}", zero=0.0, two=2.0)
    assert match.divided_by_number(_maker(values["a"])) is None
    assert match.divided_by_number(_maker(values["b"])) == (values["x"], 2.0)


# Zeros and fillers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("z = ConstantOfShape(shape)", True),
        ("z = ConstantOfShape <value = float[1] {0.0}> (shape)", True),
        ("z = ConstantOfShape <value = float[1] {2.0}> (shape)", False),
        ("f = ConstantOfShape(shape) u = Unsqueeze(f, axis) z = Squeeze(u, axis)", True),
        ("f = ConstantOfShape(shape) u = Exp(f) z = Squeeze(u, axis)", False),
        ("z = Expand(nothing, shape)", True),
        ("z = Expand(something, shape)", False),
        ("z = Expand(x, shape)", False),
    ],
)
def test_zeros(text: str, expected: bool) -> None:
    known = {
        "shape": np.array([1, 4]),
        "axis": np.array([0]),
        "nothing": np.zeros(4),
        "something": np.array([0, 0.5, 0, 0]),
    }
    used = {name: data for name, data in known.items() if name in text}
    edit, values = graph(f"{X} {{ {text} w = Cast <to = 1> (z) y = Add(x, w) }}", **used)
    assert match.is_zeros(edit, values["z"]) is expected


def test_fillers(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{X} {{ made = Constant <value = float[2] {{1.0, 1.0}}> () a = Add(x, val_1) b = Add(a, weight) "
    text += "c = Add(b, val_2) d = ReduceSum(made) e = Add(c, d) y = Add(e, val_3) }"
    ones = np.ones(4, np.float32)
    _, values = graph(text, val_1=ones, weight=ones, val_2=np.array([1, 1, 0.5, 1], np.float32), val_3=(4,))
    assert [name for name in ("made", "val_1", "weight", "val_2") if match.is_filler(values[name], 1)] == [
        "made",
        "val_1",
    ]
    assert not match.is_filler(values["val_1"], 0) and not match.is_filler(values["x"], 0)
    monkeypatch.setattr(match, "_MOST_FILLED", 3)
    assert not match.is_filler(values["val_1"], 1)


# Polynomials

NUMBERS = {"two": 2.0, "three": 3.0, "half": 0.5, "zero": 0.0}
XZ = "g (float[batch, 4] x, float[batch, 4] z) => ({outputs}) {{ {text} }}"


def terms(text: str, outputs: str = "y", **constants: Data) -> dict[str, float] | None:
    """The polynomial of y with the names of its leaves."""
    used = {name: data for name, data in (NUMBERS | constants).items() if f"{name})" in text or f"{name}," in text}
    edit, values = graph(XZ.format(text=text, outputs=outputs), **used)
    result = match.polynomial(edit, values["y"])
    if result is None:
        return None
    return {" ".join(sorted(v.name or "" for v in factors)): number for factors, number in result.terms.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = Add(x, z) b = Sub(a, half) y = Mul(b, two)", {"x": 2, "z": 2, "": -1}),
        ("a = Sub(half, x) y = Mul(a, x)", {"x": 0.5, "x x": -1}),
        ("a = Add(x, z) y = Div(a, two)", {"x": 0.5, "z": 0.5}),
        ("a = Add(x, half) y = Pow(a, two)", {"x x": 1, "x": 1, "": 0.25}),
        ("a = Add(x, half) y = Pow(a, three)", {"x x x": 1, "x x": 1.5, "x": 0.75, "": 0.125}),
        ("y = Div(two, x)", {"y": 1}),
        ("a = Mul(x, two) y = Div(x, a)", {"y": 1}),
        ("y = Div(x, zero)", {"y": 1}),
        ("y = Pow(x, half)", {"y": 1}),
        ("y = Pow(x, z)", {"y": 1}),
        ("a = Exp(x) y = Mul(a, two)", {"a": 2}),
        ("a = Add(x, z) b = Exp(z) c = Add(a, b) d = Add(c, half) y = Mul(d, two)", {"x": 2, "z": 2, "b": 2, "": 1}),
        ("a = Add(x, z) b = Exp(z) c = Add(a, b) d = Sin(z) e = Add(c, d) y = Add(e, half)", None),
        ("a = Pow(x, three) y = Mul(a, z)", {"x x x z": 1}),
        ("a = Pow(x, three) b = Pow(z, two) y = Mul(a, b)", None),
    ],
)
def test_polynomials(text: str, expected: dict[str, float] | None) -> None:
    assert terms(text) == expected


def test_polynomials_end_where_others_read_a_value() -> None:
    assert terms("a = Add(x, half) y = Mul(a, two)", "y, a") == {"a": 2}
    assert terms("a = Add(x, half) b = Mul(a, two) y = Mul(a, b)") == {"a a": 2}
    assert terms("y = Add(x, half) b = Mul(y, two)", "y, b") == {"x": 1, "": 0.5}


def test_polynomials_of_many_nodes_end_somewhere() -> None:
    names = [f"a{i}" for i in range(14)]
    text = " ".join(f"{b} = Mul({a}, two)" for a, b in zip(["x", *names], [*names, "y"], strict=True))
    assert terms(text) == {"a2": 2.0**12}


def test_polynomials_of_other_terms_and_numbers_are_not_equal() -> None:
    edit, values = graph(XZ.format(outputs="y", text="a = Mul(x, z) b = Mul(a, half) y = Add(b, x)"), half=0.5)
    x, z = values["x"], values["z"]
    found = match.polynomial(edit, values["y"])
    assert found is not None
    assert found.equals({(x, z): 0.5, (x,): 1.0}, x.dtype) and found.equals({(z, x): 0.5, (x,): 1.0}, x.dtype)
    assert not found.equals({(x, z): 0.4, (x,): 1.0}, x.dtype)
    assert not found.equals({(x, z): 0.5}, x.dtype)
    assert not found.equals({(x, z): 0.5, (x,): 1.0, (z,): 1.0}, x.dtype)


GELU = "a = Div(x, root) e = Erf(a) f = Add(e, one) g = Mul(x, f)"


@pytest.mark.parametrize(
    "text",
    [
        "c = Mul(half, wide) y = Mul(c, g)",
        "c = Mul(wide, half) y = Mul(c, g)",
        "y = Mul(flat_half, g)",
        "y = Mul(g, flat_half)",
    ],
)
def test_a_number_that_adds_an_axis_is_in_no_polynomial(text: str) -> None:
    known = {"half": 0.5, "wide": np.ones((1, 1, 1), np.float32), "flat_half": np.full((1, 1, 1), 0.5, np.float32)}
    used = {name: data for name, data in known.items() if f"{name})" in text or f"{name}," in text}
    proto = parse(
        f"g (float[batch, seq] x) => (float[1, batch, seq] y) {{ {GELU} {text} }}", root=2**0.5, one=1.0, **used
    )
    assert "onnxlift.Gelu" not in unsimplified.found(proto)
