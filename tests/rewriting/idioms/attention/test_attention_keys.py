"""The conditions under which the keys of an attention, or its queries, are taken from before what was done to them."""

from __future__ import annotations

import numpy as np
import pytest

from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.attention import attention as idiom
from rewriting.idioms.attention.test_attention import HEADS, SCALED, TURNED, attention, model
from rewriting.idioms.recognising import found, parse
from rewriting.running_stages import normalise

ATTENDED = "qk = MatMul(q, t) s = Mul(qk, scale) p = Softmax(s) y = MatMul(p, v)"


def test_transposed_queries_without_a_scale_stay() -> None:
    body = f"qt = Transpose <perm = [0, 1, 3, 2]> (q) {SCALED.replace('q, t', 'qt, t')} p = Softmax(s) y = MatMul(p, v)"
    proto = model(body, TURNED)
    assert found(proto) == ["Transpose", "onnxlift.Attention"]
    assert attention(proto)[0] == ["qt", "k", "v"]


def test_scaled_keys_that_are_read_elsewhere_stay_scaled() -> None:
    body = f"ks = Mul(k, scale) z = Neg(ks) t = Transpose <perm = [0, 1, 3, 2]> (ks) {ATTENDED.replace('scale', 'one')}"
    proto = model(body, output="float[batch, 3, seq, 8] y, float[batch, 3, keys, 8] z", one=0.7)
    assert sorted(found(proto)) == ["Mul", "Neg", "onnxlift.Attention"]
    assert attention(proto)[0] == ["q", "ks", "v"]


def test_transposed_keys_that_are_read_elsewhere_stay_scaled() -> None:
    body = f"ks = Mul(k, scale) t = Transpose <perm = [0, 1, 3, 2]> (ks) z = Neg(t) {ATTENDED.replace('scale', 'one')}"
    proto = model(body, output="float[batch, 3, seq, 8] y, float[batch, 3, 8, keys] z", one=0.7)
    assert sorted(found(proto)) == ["Mul", "Neg", "Transpose", "onnxlift.Attention"]
    assert attention(proto)[0] == ["q", "ks", "v"]


@pytest.mark.parametrize(
    ("keys", "order", "heads", "inputs"),
    [
        ("float[5, 6, 8] k", "[1, 2, 0]", (2, 3, 8, 5), "float[2, 3, seq, 8] q, float[2, 3, 5, 8] v"),
        ("float[5, 16, 8] k", "[1, 2, 0]", (-1, 0, 8, 5), "float[2, 8, seq, 8] q, float[2, 8, 5, 8] v"),
        ("float[2, 5, 24] k", "[0, 2, 1]", (2, 3, 8, 5), "float[2, 3, seq, 8] q, float[2, 3, 5, 8] v"),
        ("float[5, 8] k", "[1, 0]", (1, 8, 5), "float[1, seq, 8] q, float[1, 5, 8] v"),
        ("float[5, 24] k", "[1, 0]", (3, 8, 5), "float[3, seq, 8] q, float[3, 5, 8] v"),
        ("float[5, 24] k", "[1, 0]", (1, 3, 8, 5), "float[1, 3, seq, 8] q, float[1, 3, 5, 8] v"),
        ("float[3, 2, 8, 5] k", "[1, 0, 2, 3]", (2, 3, 8, 5), "float[2, 3, seq, 8] q, float[2, 3, 5, 8] v"),
        ("float[2, 5, 3, 8] k", "[0, 3, 2, 1]", (2, 3, 8, 5), "float[2, 3, seq, 8] q, float[2, 3, 5, 8] v"),
    ],
    ids=["heads", "a zero", "another axis", "two axes", "two to three", "two to four", "four", "four that mix"],
)
def test_keys_reshaped_after_their_transpose(keys: str, order: str, heads: tuple[int, ...], inputs: str) -> None:
    q, v = inputs.split(", float")
    body = f"turned = Transpose <perm = {order}> (k) t = Reshape(turned, heads) {ATTENDED}"
    output = q.replace(" q", " y")
    proto = model(body, f"{q}, {keys}, float{v}", output, heads=np.array(heads))
    assert found(proto)[-1] == "onnxlift.Attention"


@pytest.mark.parametrize(("heads", "maker"), [((-1, 0, 8, 5), "Transpose"), ((2, 8, 8, 5), "Reshape")])
def test_a_zero_means_the_size_in_its_place(heads: tuple[int, ...], maker: str) -> None:
    """So it does not mean the same for keys that are not transposed."""
    inputs = "float[2, 8, seq, 8] q, float[5, 16, 8] k, float[2, 8, 5, 8] v"
    body = f"turned = Transpose <perm = [1, 2, 0]> (k) t = Reshape(turned, heads) {ATTENDED}"
    graph = load(model(body, inputs, "float[2, 8, seq, 8] y", heads=np.array(heads)))
    normalise(graph)
    assert idiom.run(graph) == 1
    (node,) = [node for node in graph.graph if node.op_type == "Attention"]
    keys = node.inputs[1]
    made = None if keys is None else keys.producer()
    assert made is not None and made.op_type == maker


def test_keys_with_a_new_axis_for_their_only_feature() -> None:
    inputs = "float[batch, 3, seq, 1] q, float[batch, keys, 3] k, float[batch, 3, keys, 8] v"
    body = f"turned = Transpose <perm = [0, 2, 1]> (k) t = Unsqueeze(turned, two) {ATTENDED}"
    assert found(model(body, inputs, two=np.array([2])))[-1] == "onnxlift.Attention"


OTHER_KEYS = HEADS.replace("float[batch, 3, keys, 8] k", "float[batch, 3, 8, keys] k")
Y_AND_Z = "float[batch, 3, seq, 8] y, float[batch, 3, keys, 8] z"


@pytest.mark.parametrize("first", [True, False])
def test_keys_that_are_transposed_for_somebody_else_too(first: bool) -> None:
    """The same transpose is used, unless it comes later."""
    turned, attended = "z = Transpose <perm = [0, 1, 3, 2]> (k)", ATTENDED.replace("q, t", "q, k")
    proto = model(f"{turned} {attended}" if first else f"{attended} {turned}", OTHER_KEYS, Y_AND_Z)
    assert found(proto).count("Transpose") == (1 if first else 2)
    if first:
        assert attention(proto)[0] == ["q", "z", "v"]


def test_keys_that_are_transposed_otherwise_for_somebody_else() -> None:
    body = f"z = Transpose <perm = [0, 3, 1, 2]> (k) {ATTENDED.replace('q, t', 'q, k')}"
    proto = model(body, OTHER_KEYS, "float[batch, 3, seq, 8] y, float[batch, keys, 3, 8] z")
    assert found(proto).count("Transpose") == 2


def test_keys_that_are_transposed_behind_a_branch() -> None:
    """What a graph computes after a branch is not there in it."""
    attended = ATTENDED.replace("q, t", "q, k").replace("y =", "inner =")
    branches = f"""y = If (flag) <then_branch = inside () => (float[batch, 3, seq, 8] inner) {{ {attended} }},
        else_branch = outside () => (float[batch, 3, seq, 8] other) {{ other = Neg(q) }}>"""
    turned = "z = Transpose <perm = [0, 1, 3, 2]> (k)"
    text = f"g ({OTHER_KEYS}, bool flag) => ({Y_AND_Z}) {{ {branches} {turned} }}"
    graph = load(parse(text, scale=8**-0.5))
    normalise(graph)
    assert idiom.run(graph) == 1
    (branch,) = [node for node in graph.graph if node.op_type == "If"]
    inside = branch.attributes["then_branch"].as_graph()
    assert [node.op_type for node in inside] == ["Transpose", "Attention"]
