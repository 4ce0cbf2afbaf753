"""Products of the matrices of all batches and heads, counted in one axis; and what is done to them there."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.rewriting.idioms.attention import flattened_heads
from rewriting.idioms import unsimplified
from rewriting.idioms.recognising import Data, assert_same_numbers, found, parse, simplified

INPUTS = "float[batch, 3, seq, 8] q, float[batch, 3, keys, 8] k, float[batch, 3, keys, 8] v, float[batch, 1, 1, keys] m"
KNOWN: dict[str, Data] = {
    "flat_q": np.array((-1, 5, 8)),
    "flat": np.array((-1, 4, 8)),
    "scores": np.array((-1, 3, 5, 4)),
    "flat_scores": np.array((-1, 5, 4)),
    "result": np.array((-1, 3, 5, 8)),
    "scale": 8**-0.5,
    "twice": np.array([2.0], np.float32),
    "pair": np.array((2.0, 3.0, 4.0, 5.0), np.float32),
    "other": np.array((3, -1, 5, 4)),
}
FLAT = "fq = Reshape(q, flat_q) fk = Reshape(k, flat) fv = Reshape(v, flat)"
SCORES = "kt = Transpose <perm = [0, 2, 1]> (fk) s = MatMul(fq, kt) u = Reshape(s, scores)"
WEIGHTS = "a = Add(u, m) f = Reshape(a, flat_scores) p = Softmax <axis = -1> (f)"
RESULT = "o = MatMul(p, fv) y = Reshape(o, result)"
WHOLE = f"{FLAT} {SCORES} {WEIGHTS} {RESULT}"
Y = "float[batch, 3, 5, 8] y"


def model(body: str = WHOLE, outputs: str = Y, inputs: str = INPUTS, opset: int = 18, **more: Data) -> onnx.ModelProto:
    known = {name: value for name, value in (KNOWN | more).items() if f" {name})" in body or f"({name}," in body}
    sized = inputs.replace("seq", "5").replace("keys", "4")
    return parse(f"g ({sized}) => ({outputs}) {{ {body} }}", opset, **known)


def test_attention_with_a_mask_for_each_batch() -> None:
    for operators in (found(model()), unsimplified.found(model())):
        assert operators.count("onnxlift.Attention") == 1 and "MatMul" not in operators
    assert found(model()) == ["onnxlift.Attention"]
    assert "F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=1.0)" in onnxlift.lift(model()).source


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("u = Reshape(s, scores)", "c = Mul(s, scale) u = Reshape(c, scores)"),
        ("u = Reshape(s, scores)", "c = Div(s, scale) u = Reshape(c, scores)"),
        ("u = Reshape(s, scores)", "fw = Reshape(w, flat_scores) e = Add(s, fw) u = Reshape(e, scores)"),
        ("p = Softmax <axis = -1> (f)", "n = Softmax <axis = -1> (f) d = Cast <to = 11> (n) p = Cast <to = 1> (d)"),
        (
            "fq = Reshape(q, flat_q)",
            "tq = Transpose <perm = [0, 1, 3, 2]> (q) r = Reshape(tq, columns) fq = Transpose <perm = [0, 2, 1]> (r)",
        ),
    ],
    ids=["factor", "divisor", "sum", "casts", "queries"],
)
def test_what_is_done_in_between(old: str, new: str) -> None:
    inputs = f"{INPUTS}, float[batch, 3, seq, keys] w" if "(w, " in new else INPUTS
    operators = found(model(WHOLE.replace(old, new), inputs=inputs, columns=np.array((-1, 8, 5))))
    assert "Reshape" not in operators, operators


@pytest.mark.parametrize("axis", [2, -1])
def test_a_softmax_before_opset_13(axis: int) -> None:
    body = WHOLE.replace("axis = -1", f"axis = {axis}")
    assert "Reshape" not in found(model(body, opset=12))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("u = Reshape(s, scores)", "c = Tanh(s) u = Reshape(c, scores)"),
        ("u = Reshape(s, scores)", "c = Mul(s, pair) u = Reshape(c, scores)"),
        ("u = Reshape(s, scores)", "c = Mul(twice, s) u = Reshape(c, scores)"),
        ("u = Reshape(s, scores)", "c = Reshape(s, turned) u = Transpose <perm = [0, 1, 3, 2]> (c)"),
        ("kt = Transpose <perm = [0, 2, 1]> (fk)", "kt = Reshape(fk, columns)"),
        ("p = Softmax <axis = -1> (f)", "p = Softmax <axis = 1> (f)"),
        ("kt = Transpose <perm = [0, 2, 1]> (fk)", "n = Neg(fk) kt = Transpose <perm = [0, 2, 1]> (n)"),
    ],
    ids=["a function", "a vector", "a number in front", "rows and columns", "cut", "another axis", "keys"],
)
def test_other_products_stay(old: str, new: str) -> None:
    proto = model(WHOLE.replace(old, new), turned=np.array((-1, 3, 4, 5)), columns=np.array((-1, 8, 4)))
    assert "onnxlift.Attention" not in found(proto)
    assert "onnxlift.Attention" not in unsimplified.found(proto)


def test_heads_and_batches_in_another_order_stay() -> None:
    proto = model(f"{FLAT} {SCORES.replace('scores)', 'other)')} y = Sin(u)", "float[3, batch, 5, 4] y")
    assert "Reshape" in found(proto)


def test_an_operator_of_somebody_else() -> None:
    proto = model(f"{FLAT} {SCORES.replace('u = ', 'u = acme.')}", "float[batch, 3, 5, 4] u")
    proto.opset_import.add(domain="acme", version=1)
    assert "acme" in [node.domain for node in simplified(proto).graph]


def test_a_matrix_for_all_stays() -> None:
    """It has as many rows as there are batches and heads."""
    text = """g (float[2, 3, 5, 6] q, float[2, 3, 8] w) => (float[2, 3, 5, 8] y)
        { fq = Reshape(q, flat) fw = Reshape(w, rows) o = MatMul(fq, fw) y = Reshape(o, result) }"""
    shapes = {"flat": np.array((6, 5, 6)), "rows": np.array((6, 8)), "result": np.array((2, 3, 5, 8))}
    assert "Reshape" in found(parse(text, **shapes))


@pytest.mark.parametrize(("value", "shape"), [("s", "t, 5, 4"), ("p", "t, 5, 4"), ("o", "t, 5, 8")])
def test_what_is_read_elsewhere(value: str, shape: str) -> None:
    proto = model(f"{WHOLE} z = Neg({value})", f"{Y}, float[{shape}] z")
    assert "onnxlift.Attention" not in found(proto)


def test_flat_queries_that_are_read_elsewhere_are_there_twice() -> None:
    operators = found(model(f"{WHOLE} z = Neg(fq)", f"{Y}, float[t, 5, 8] z"))
    assert operators.count("onnxlift.Attention") == 1 and operators.count("Reshape") == 1


def test_what_is_no_product_stays() -> None:
    body = "f = Reshape(q, flat_q) p = Softmax <axis = -1> (f) y = Reshape(p, result)"
    assert [*found(model(body))] == ["Reshape", "Softmax", "Reshape"]


def test_the_result_may_be_an_output_of_the_model() -> None:
    assert [*found(model(f"{FLAT} {SCORES}", "float[batch, 3, 5, 4] u"))].count("Reshape") == 0


def test_large_graphs_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flattened_heads, "_MOST_NODES", 1)
    assert "Reshape" in found(model())


def test_a_product_in_a_branch_stays() -> None:
    branches = """y = If (flag) <then_branch = inside () => (float[batch, 3, 5, 4] a) { a = Reshape(s, scores) },
        else_branch = outside () => (float[batch, 3, 5, 4] b) { c = Reshape(s, scores) b = Neg(c) }>"""
    body = f"{FLAT} {SCORES.replace('u = Reshape(s, scores)', '')} {branches}"
    proto = model(body, "float[batch, 3, 5, 4] y", f"{INPUTS}, bool flag")
    assert "MatMul" in [node.op_type for node in simplified(proto).graph]


def test_matrices_that_change_places_with_their_rows_stay() -> None:
    """All sizes are the same, so any order of axes fits."""
    text = """g (float[2, 3, 6, 6] q, float[2, 3, 6, 6] k) => (float[2, 3, 6, 6] y)
        { fq = Reshape(q, flat) fk = Reshape(k, flat) t = Transpose <perm = [1, 0, 2]> (fq)
          o = MatMul(t, fk) y = Reshape(o, result) }"""
    assert "Transpose" in found(parse(text, flat=np.array((6, 6, 6)), result=np.array((2, 3, 6, 6))))


@pytest.mark.parametrize(
    ("bias", "heads", "is_one"),
    [
        ("6, 5, 4", "3", True),
        ("6, 1, 4", "3", True),
        ("1, 5, 4", "3", False),
        ("5, 4", "3", False),
        ("6, 5, 4", "h", False),
    ],
)
def test_what_is_added_is_cut_for_itself(bias: str, heads: str, is_one: bool) -> None:
    text = f"""g (float[2, {heads}, 5, 8] q, float[2, {heads}, 8, 4] k, float[{bias}] b) => (float[2, {heads}, 5, 4] y)
        {{ fq = Reshape(q, flat) fk = Reshape(k, columns) s = MatMul(fq, fk) e = Exp(b) a = Add(s, e)
          y = Reshape(a, end) }}"""
    shapes = {"flat": np.array((-1, 5, 8)), "columns": np.array((-1, 8, 4)), "end": np.array((2, -1, 5, 4))}
    proto = parse(text, **shapes)
    graph = [node.op_type for node in simplified(proto).graph]
    assert (graph.count("Reshape") == 1) == is_one, graph
    if heads == "3":
        assert_same_numbers(proto)
        if is_one:
            assert "b.exp().unflatten(0, (2, 3))" in onnxlift.lift(proto).source
