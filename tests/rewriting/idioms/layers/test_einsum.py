"""Products of matrices that are written as einsum; other equations stay."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.layers import einsum as idiom
from rewriting.idioms.recognising import found, parse
from rewriting.running_stages import normalise

SIZES = {"b": "batch", "h": "3", "i": "seq", "j": "keys", "d": "8", "e": "6"}


def einsum(equation: str, rest: str = "y = Identity(p)") -> onnx.ModelProto:
    terms, _, result = equation.replace(" ", "").partition("->")
    shapes = [", ".join(SIZES[letter] for letter in term) for term in (*terms.split(","), result)]
    inputs = ", ".join(f"float[{shape}] {name}" for shape, name in zip(shapes, "qk", strict=False))
    names = ", ".join("qk"[: len(shapes) - 1])
    return parse(f'g ({inputs}) => (float[{shapes[-1]}] y) {{ p = Einsum <equation = "{equation}"> ({names}) {rest} }}')


@pytest.mark.parametrize(
    ("equation", "written"),
    [
        ("bid,bde->bie", "q @ k"),
        ("b i d, b d e -> b i e", "q @ k"),
        ("id,de->ie", "q @ k"),
        ("bhid,bhjd->bhij", "q @ k.mT"),
        ("bid,bjd->bij", "q @ k.transpose(1, 2)"),
        ("bhid,de->bhie", "q @ k"),
        ("bid,ed->bie", "q @ k.T"),
    ],
)
def test_products_of_matrices(equation: str, written: str) -> None:
    model = einsum(equation)
    assert set(found(model)) <= {"Transpose", "MatMul"}
    assert written in onnxlift.lift(model).source


@pytest.mark.parametrize(
    "equation",
    [
        "bi,bj->bij",  # no letter to sum over
        "bid,bid->b",  # no rows and columns
        "bhid,bhid->bhi",  # no columns
        "bid,bjd->bji",  # the result is transposed
        "bdi,bde->bie",  # the first operand is
        "bihd,bjhd->bhij",  # both are
        "bhid,bjd->bhij",  # several rows with a stack of matrices
        "bhdi,bhde->bie",  # two letters to sum over
        "dd,de->e",  # a diagonal
        "bid->bdi",  # one operand
        "bhid,hbde->bhie",  # the axes in front of the second operand
        "id,dje->ije",  # two columns
        "bid,bd->bi",  # no column
        "bd,bde->be",  # no row
    ],
)
def test_other_equations_stay(equation: str) -> None:
    assert "Einsum" in found(einsum(equation))


EINSUM = 'y = Einsum <equation = "{}"> (q, k)'


def test_any_number_of_axes_stays() -> None:
    shapes = "(float[batch, 5, 8] q, float[batch, 8, 6] k) => (float[batch, 5, 6] y)"
    assert found(parse(f"g {shapes} {{ {EINSUM.format('...id,...de->...ie')} }}")) == ["Einsum"]


def test_a_constant_is_no_weight_of_a_layer() -> None:
    model = parse(f"g (float[batch, 8] q) => (float[batch, 6] y) {{ {EINSUM.format('bd,ed->be')} }}", k=(6, 8))
    assert found(model) == ["Einsum"]
    assert [*onnxlift.lift(model).state_dict] == ["k"]


QUERIES = "float[batch, seq, 3, 8] q, float[batch, keys, 3, 8] k, float[batch, keys, 3, 8] v"
SCORES = 's = Einsum <equation = "bihd,bjhd->bhij"> (q, k) t = Mul(s, scale)'
VALUES = 'y = Einsum <equation = "bhij,bjhd->bihd"> (p, v)'


def attention(body: str, outputs: str = "float[batch, seq, 3, 8] y") -> onnx.ModelProto:
    return parse(f"g ({QUERIES}) => ({outputs}) {{ {body} }}", scale=1 / np.sqrt(8))


def test_attention_in_any_order_of_axes() -> None:
    model = attention(f"{SCORES} p = Softmax(t) {VALUES}")
    assert set(found(model)) == {"Transpose", "onnxlift.Attention"}
    source = onnxlift.lift(model).source
    assert all(f"{name}.transpose(1, 2)" in source for name in ("q", "k", "v", "attn"))


@pytest.mark.parametrize("between", ["p = Sigmoid(t)", "r = Softmax(t) p = Exp(r)", "r = Exp(t) p = Softmax(r)"])
def test_without_attention_the_order_of_axes_stays(between: str) -> None:
    assert "Einsum" in found(attention(f"{SCORES} {between} {VALUES}"))


def test_nothing_is_transposed_that_need_not_be() -> None:
    assert found(einsum("bid,bde->bie")) == ["MatMul"]


def test_integers_stay() -> None:
    shapes = "(int64[batch, 5, 8] q, int64[batch, 8, 6] k) => (int64[batch, 5, 6] y)"
    assert found(parse(f"g {shapes} {{ {EINSUM.format('bid,bde->bie')} }}")) == ["Einsum"]


@pytest.mark.parametrize(
    ("shapes", "operators"),
    [
        ("float[2, 5, 1] q, float[2, 6, 8] k", ["Einsum"]),
        ("float[2, 5, 8] q, float[2, 6, 1] k", ["Einsum"]),
        ("float[2, 5, 1] q, float[2, 6, 1] k", ["Transpose", "MatMul"]),
        ("float[2, 5, 8] q, float[1, 6, 8] k", ["Transpose", "MatMul"]),
    ],
)
def test_one_number_for_all_that_are_summed(shapes: str, operators: list[str]) -> None:
    model = parse(f"g ({shapes}) => (float[2, 5, 6] y) {{ {EINSUM.format('bid,bjd->bij')} }}")
    assert found(model) == operators


@pytest.mark.parametrize(
    ("equation", "stays"),
    [
        ("bihd,bjhd->bhij", False),
        ("bhid,bjd->bij", True),  # the first operand has a letter that is summed over alone
        ("bid,bhjd->bij", True),  # the second one has
        ("bid,bjd", True),  # the letters that are there once
    ],
)
def test_sums_before_a_softmax(equation: str, stays: bool) -> None:
    model = einsum(equation if "->" in equation else f"{equation}->ij", "y = Softmax(p)")
    if "->" not in equation:
        model.graph.node[0].attribute[0].s = equation.encode()
    assert ("Einsum" in found(model)) == stays


def test_scores_that_are_an_output_keep_the_order_of_axes() -> None:
    model = attention(f"{SCORES} p = Softmax(t) {VALUES}", "float[batch, seq, 3, 8] y, float[batch, 3, seq, keys] s")
    assert [operator for operator in found(model) if operator == "Einsum"]


def test_a_softmax_in_a_branch_is_another_computation() -> None:
    text = """g (float[batch, seq, 3, 8] q, float[batch, keys, 3, 8] k) => (float[batch, 3, seq, keys] y) {
        s = Einsum <equation = "bihd,bjhd->bhij"> (q, k) z = ReduceMax <keepdims = 0> (q) c = Greater(z, one)
        y = If (c) <
            then_branch = t () => (float[batch, 3, seq, keys] a) { a = Softmax(s) },
            else_branch = e () => (float[batch, 3, seq, keys] b) { b = Expand(one, four) }
        >
    }"""
    assert "Einsum" in found(parse(text, one=1.0, four=np.array([1, 1, 1, 1])))


def test_operands_of_which_not_even_the_number_of_axes_is_known() -> None:
    text = """g (float[batch, 6] x, float[2, 6, 3] k) => (float[a, b, c] y) {
        s = ReduceSumSquare <keepdims = 0> (x) c = Greater(s, zero)
        i = If (c) <
            then_branch = t () => (float[u, v, w] p) { p = Reshape(x, rows) },
            else_branch = e () => (float[d, 6] q) { q = Neg(x) }
        >
        h = Einsum <equation = "bij,bjh->bhi"> (i, k) y = Softmax(h)
    }"""
    assert "Einsum" not in found(parse(text, rows=np.array([1, -1, 6]), zero=0.0))


def test_an_equation_of_another_operator() -> None:
    shapes = "(float[batch, 5, 8] q, float[batch, 8, 6] k) => (float[batch, 5, 6] y)"
    model = parse(f'g {shapes} {{ y = acme.Contract <equation = "bid,bde->bie"> (q, k) }}')
    model.opset_import.add(domain="acme", version=1)
    graph = load(model)
    normalise(graph)
    assert idiom.run(graph) == 0
