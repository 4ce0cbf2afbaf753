from __future__ import annotations

import pytest

from .recognising import found, parse

PART = "s = Constant <value_ints = [1]> () e = Constant <value_ints = [4]> () p = Slice(w, s, e) "
TURNED = PART + "t = Transpose <perm = [1, 0]> (p) "
BIAS = "q = Slice(b, s, e) "
FUNCTION = "onnxlift.BareLinear"


@pytest.mark.parametrize("addition", ["Add(h, q)", "Add(q, h)"])
def test_a_product_with_rows_and_their_bias(addition: str) -> None:
    body = f"{TURNED}{BIAS}h = MatMul(x, t) y = {addition}"
    model = parse(f"g (float[batch, seq, 6] x) => (float[batch, seq, 3] y) {{ {body} }}", w=(5, 6), b=(5,))
    assert found(model) == ["Slice", "Slice", FUNCTION]


def test_without_a_bias_and_with_a_parameter_as_one() -> None:
    text = f"g (float[batch, 6] x) => (float[batch, 3] y) {{ {TURNED} y = MatMul(x, t) }}"
    assert found(parse(text, w=(5, 6))) == ["Slice", FUNCTION]
    text = f"g (float[batch, 6] x) => (float[batch, 3] y) {{ {TURNED} h = MatMul(x, t) y = Add(h, b) }}"
    assert found(parse(text, w=(5, 6), b=(3,))) == ["Slice", FUNCTION]


def test_gemm() -> None:
    for arguments, names in (("(x, p, q)", ["Slice", "Slice", FUNCTION]), ("(x, p)", ["Slice", FUNCTION])):
        body = f"{PART}{BIAS if 'q' in arguments else ''}y = Gemm <transB = 1> {arguments}"
        model = parse(f"g (float[batch, 6] x) => (float[batch, 3] y) {{ {body} }}", w=(5, 6), b=(5,))
        assert found(model) == names


@pytest.mark.parametrize("attributes", ["transB = 1, alpha = 0.5", "transB = 1, beta = 0.5", "transA = 1, transB = 1"])
def test_other_gemms_stay(attributes: str) -> None:
    body = f"{PART}{BIAS}y = Gemm <{attributes}> (x, p, q)"
    model = parse(f"g (float[6, 6] x) => (float[6, 3] y) {{ {body} }}", w=(5, 6), b=(5,))
    assert found(model) == ["Slice", "Slice", "Gemm"]


def test_a_gemm_with_the_matrix_as_it_is_stays() -> None:
    body = f"{PART} y = Gemm(x, p)"
    assert found(parse(f"g (float[batch, 3] x) => (float[batch, 6] y) {{ {body} }}", w=(5, 6))) == ["Slice", "Gemm"]


def test_what_depends_on_an_input_is_no_weight() -> None:
    body = "t = Transpose <perm = [1, 0]> (v) y = MatMul(x, t)"
    assert FUNCTION not in found(parse(f"g (float[batch, 6] x, float[3, 6] v) => (float[batch, 3] y) {{ {body} }}"))
    body = f"{TURNED} h = MatMul(x, t) y = Add(h, v)"
    model = parse(f"g (float[batch, 6] x, float[3] v) => (float[batch, 3] y) {{ {body} }}", w=(5, 6))
    assert found(model) == ["Slice", FUNCTION, "Add"]


def test_a_product_that_others_read_has_no_bias() -> None:
    body = f"{TURNED}{BIAS}h = MatMul(x, t) y = Add(h, q) z = Tanh(h)"
    model = parse(f"g (float[batch, 6] x) => (float[batch, 3] y, float[batch, 3] z) {{ {body} }}", w=(5, 6), b=(5,))
    assert found(model) == ["Slice", "Slice", FUNCTION, "Add", "Tanh"]


def test_a_bias_that_broadcasts_stays() -> None:
    body = f"{TURNED}h = MatMul(x, t) y = Add(h, b)"
    model = parse(f"g (float[batch, 6] x) => (float[batch, 3] y) {{ {body} }}", w=(5, 6), b=(1, 3))
    assert found(model) == ["Slice", FUNCTION, "Add"]
