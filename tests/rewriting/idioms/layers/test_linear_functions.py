"""Products with matrices that are computed from parameters."""

from __future__ import annotations

import onnx
import pytest

from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.layers import linear_functions
from rewriting.idioms.recognising import found, parse, simplified
from rewriting.running_stages import normalise

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


@pytest.mark.parametrize("shape", [(1,), (), (3, 3)], ids=["one number", "no axis", "two axes"])
@pytest.mark.parametrize("product", ["h = MatMul(x, t) y = Add(h, b)", "y = Gemm <transB = 1> (x, p, b)"])
def test_what_is_no_bias_of_the_matrix_stays(product: str, shape: tuple[int, ...]) -> None:
    body = f"{TURNED if 'MatMul' in product else PART}{product}"
    model = parse(f"g (float[3, 6] x) => (float[3, 3] y) {{ {body} }}", w=(5, 6), b=shape)
    assert found(model)[-1] == ("Add" if "MatMul" in product else "Gemm")


def test_a_second_bias_stays() -> None:
    body = f"{TURNED}{BIAS}h = MatMul(x, t) a = Add(h, q) y = Add(a, c)"
    model = parse(f"g (float[batch, 6] x) => (float[batch, 3] y) {{ {body} }}", w=(5, 6), b=(5,), c=(3,))
    assert found(model) == ["Slice", "Slice", FUNCTION, "Add"]


def test_a_gemm_with_what_depends_on_an_input_stays() -> None:
    body = "s = Sin(v) y = Gemm <transB = 1> (x, s)"
    assert found(parse(f"g (float[batch, 6] x, float[3, 6] v) => (float[batch, 3] y) {{ {body} }}")) == ["Sin", "Gemm"]


def test_a_branch_may_read_an_input() -> None:
    """Which the node with the branches does not show."""
    branches = """then_branch = yes () => (float[3, 6] a) { a = Sin(v) },
        else_branch = no () => (float[3, 6] b) { b = Exp(v) }"""
    body = f"""m = ReduceMax <keepdims = 0> (w) zero = Constant <value_float = 0.0> () c = Greater(m, zero)
        p = If (c) <{branches}> t = Transpose <perm = [1, 0]> (p) y = MatMul(x, t)"""
    model = parse(f"g (float[batch, 6] x, float[3, 6] v) => (float[batch, 3] y) {{ {body} }}", w=(5, 6))
    assert FUNCTION not in found(model)


def test_a_matrix_of_no_parameters_is_no_weight() -> None:
    body = "p = RandomNormal <shape = [3, 6]> () t = Transpose <perm = [1, 0]> (p) y = MatMul(x, t)"
    graph = simplified(parse(f"g (float[batch, 6] x) => (float[batch, 3] y) {{ {body} }}")).graph
    assert [node.op_type for node in graph] == ["RandomNormal", "Transpose", "MatMul"]


def rewrites(model: onnx.ModelProto) -> int:
    """How often the idiom applies where no other has been before."""
    graph = load(model)
    normalise(graph)
    return linear_functions.run(graph)


@pytest.mark.parametrize(("order", "expected"), [("", 1), ("<perm = [1, 0]>", 1), ("<perm = [0, 1]>", 0)])
def test_a_matrix_that_is_not_turned_stays(order: str, expected: int) -> None:
    body = f"s = Sin(w) t = Transpose {order} (s) y = MatMul(x, t)"
    assert rewrites(parse(f"g (float[batch, 4] x) => (float[batch, 4] y) {{ {body} }}", w=(4, 4))) == expected


def test_a_parameter_itself_is_the_weight_of_a_layer() -> None:
    body = "t = Transpose <perm = [1, 0]> (w) y = MatMul(x, t)"
    assert rewrites(parse(f"g (float[batch, 4] x) => (float[batch, 3] y) {{ {body} }}", w=(3, 4))) == 0


@pytest.mark.parametrize(("steps", "expected"), [(4, 1), (3, 0)])
def test_a_matrix_far_from_its_parameters_stays(steps: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_functions, "MOST_STEPS", steps)  # the part, the whole, where it starts and ends
    model = parse(f"g (float[batch, 6] x) => (float[batch, 3] y) {{ {TURNED} y = MatMul(x, t) }}", w=(5, 6))
    assert rewrites(model) == expected


def test_a_matrix_of_a_parameter_and_of_what_is_not_known_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_functions, "MOST_STEPS", 3)  # the matrix, its two factors
    body = "a = Sin(v) b = Exp(a) p = Mul(b, w) t = Transpose <perm = [1, 0]> (p) y = MatMul(x, t)"
    model = parse(f"g (float[batch, 6] x, float[3, 6] v) => (float[batch, 3] y) {{ {body} }}", w=(3, 6))
    assert rewrites(model) == 0
