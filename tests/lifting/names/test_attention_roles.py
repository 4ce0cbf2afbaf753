"""Which variables are called queries, keys, values and scores: only those that are."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from small_graphs import Graph, code

SWAP = [0, 2, 1]


def long(g: Graph, value: str, times: int = 5) -> str:
    """`value`, computed at such length that it has a line of its own."""
    for _ in range(times):
        value = g.node("Sin", g.node("Softplus", value))
    return value


def test_what_a_layer_makes_queries_of_is_no_query() -> None:
    g = Graph()
    y = long(g, g.input("x", "n", 4))
    q, k, v = (g.linear(y, name) for name in ("query", "key", "value"))
    weights = g.node("Softmax", g.node("MatMul", q, g.node("Transpose", k, perm=[1, 0])), axis=-1)
    text = code(g.lift(g.node("MatMul", weights, v), weights))
    assert not any(f" {name} = F.softplus" in text for name in ("q", "k", "v", "query", "key", "value"))


def test_product_that_no_softmax_is_taken_of_is_no_score() -> None:
    g = Graph()
    x = long(g, g.input("x", "n", 4, 4))
    product = long(g, g.node("MatMul", x, g.node("Transpose", x, perm=SWAP)))
    text = code(g.lift(g.node("MatMul", product, x), product))
    assert "scores" not in text and " q = " not in text and " k = " not in text


@pytest.mark.parametrize("between", ["Mul", "Add", "Tanh", "Where"])
def test_product_that_a_softmax_is_taken_of_is_scores(between: str) -> None:
    g = Graph()
    q, k, number = g.input("a", "n", 4, 4), g.input("b", "n", 4, 4), g.constant("onnx::number", np.float32(3))
    scores = g.node("MatMul", q, g.node("Transpose", k, perm=SWAP))
    if between == "Where":
        masked = g.node("Where", g.node("Greater", q, number), scores, number)
    else:
        masked = g.node("Tanh", scores) if between == "Tanh" else g.node(between, scores, number)
    text = code(g.lift(g.node("Softmax", masked, axis=-1), g.node("Exp", scores), g.node("Sin", scores)))
    assert "scores = a @ b.transpose(1, 2)" in text


def test_what_is_attended_to_without_scores_is_no_value() -> None:
    """As in a graph attention, whose weights are no softmax of products."""
    g = Graph()
    x = g.input("x", "n", 4, 4)
    y = long(g, x)
    weights = g.node("Softmax", g.node("LeakyRelu", g.node("MatMul", y, x), alpha=0.2), axis=-1)
    text = code(g.lift(g.node("MatMul", weights, y)))
    assert " v = " not in text and "scores" not in text


def test_query_key_and_value_at_once_is_none_of_them() -> None:
    g = Graph()
    y = long(g, g.input("x", "n", 4, 4))
    weights = g.node("Softmax", g.node("MatMul", y, g.node("Transpose", y, perm=SWAP)), axis=-1)
    text = code(g.lift(g.node("MatMul", weights, y), weights))
    assert not any(f" {name} = " in text for name in ("q", "k", "v"))


def test_values_on_the_left_of_the_weights() -> None:
    g = Graph()
    q, k = g.input("a", "n", 4, 4), g.input("b", "n", 4, 4)
    v = long(g, g.input("c", "n", 6, 4))
    weights = g.node("Softmax", g.node("MatMul", q, g.node("Transpose", k, perm=SWAP)), axis=-1)
    attn = g.node("MatMul", v, g.node("Transpose", weights, perm=SWAP))
    text = code(g.lift(g.node("Add", attn, v), weights))
    assert "v @ weights.transpose(1, 2)" in text


def test_parts_of_a_layer_that_gives_all_three() -> None:
    g = Graph()
    x = g.linear(g.input("x", "n", 12), "to_qkv", 12, 12)
    a, b, c = (f"val_1{i}" for i in range(3))
    g.nodes.append(onnx.helper.make_node("Split", [x], [a, b, c], axis=-1, num_outputs=3))
    text = code(g.lift(g.node("Mul", g.node("Add", a, g.node("Exp", b)), g.node("Mul", g.node("Sin", a), c))))
    assert "q, k, v = self.to_qkv(x).chunk(3, 1)" in text
