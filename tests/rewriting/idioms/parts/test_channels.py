"""Where the axis of a layer's channels goes."""

from __future__ import annotations

import numpy as np
import pytest

from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.parts.channels import channel_axes
from rewriting.idioms.recognising import parse
from rewriting.running_stages import normalise

KNOWN = {
    "W": (4, 3, 3, 3),
    "M": (5, 4),
    "one": np.array([1]),
    "last": np.array([-1]),
    "places": np.array([2, 3]),
    "flat": np.array([0, 0, -1]),
    "joined": np.array([-1, 4, 36]),
    "apart": np.array([0, 2, 2, 6, 6]),
    "front": np.array([-1, 4, 1]),
    "mixed": np.array([0, 6, 4, 6]),
    "pair": np.array([-1, 4]),
    "g": (1,),
    "five": (5,),
    "line": np.array([-1]),
    "eight": np.array([1, 2, 1, 1]),
    "from": np.array([1]),
    "first": np.array(0),
    "to": np.array([3]),
    "rows": (6,),
    "column": (1, 6, 1),
}
CONV, LINEAR = "h = Conv(x, W)", "h = MatMul(r, M)"
ABSENT = object()


@pytest.mark.parametrize(
    ("body", "axis"),
    [
        (f"{CONV} y = Relu(h)", 1),
        (f"{LINEAR} y = Relu(h)", 1),
        ("h = MatMul(s, M) y = Relu(h)", 2),
        ("y = Relu(x)", ABSENT),
        ("y = MatMul(x, x)", ABSENT),
        (f"{CONV} y = MatMul(h, h)", None),
        (f"{CONV} t = Transpose <perm = [0, 2, 3, 1]> (h) y = MatMul(t, M2)", 3),
        (f"{CONV} t = Transpose <perm = [0, 2, 3, 1]> (h) p = Softmax(u) y = MatMul(p, t)", 3),
        (f"{CONV} y = Transpose <perm = [0, 2, 3, 1]> (h)", 3),
        (f"{CONV} y = Transpose(h)", 2),
        (f"{CONV} y = Unsqueeze(h, one)", 2),
        (f"{CONV} y = Unsqueeze(h, last)", 1),
        (f"{LINEAR} k = Unsqueeze(h, one) y = Squeeze(k, one)", 1),
        (f"{CONV} y = ReduceMax <keepdims = 0> (h, one)", None),
        (f"{CONV} t = Transpose <perm = [0, 2, 3, 1]> (h) y = ReduceMax <keepdims = 0> (t, one)", 2),
        (f"{CONV} y = ReduceMax(h, places)", 1),
        (f"{CONV} y = ReduceMax(h, one)", None),
        (f"{CONV} y = Reshape(h, flat)", 1),
        (f"{CONV} y = Reshape(h, joined)", 1),
        (f"{CONV} y = Reshape(h, apart)", None),
        (f"{CONV} y = Reshape(h, line)", None),
        (f"{LINEAR} y = Reshape(h, front)", 1),
        (f"{CONV} y = Reshape(h, mixed)", None),
        ("h = MatMul(s, M) y = Reshape(h, pair)", 1),
        ("h = MatMul(s, M) y = Reshape(h, front)", 1),
        (f"{CONV} y = Flatten(h)", None),
        ("y = BatchNormalization(v, g, g, g, g)", ABSENT),
        (f"{CONV} t = Transpose <perm = [0, 2, 3, 1]> (h) y = ReduceMax(t, one)", 3),
        (f"{CONV} y = ReduceMax <keepdims = 0> (h)", None),
        (f"{CONV} y = Add(h, rows)", 1),
        (f"{CONV} y = Add(column, h)", 1),
        (f"{LINEAR} y = Add(h, x4)", 3),
        (f"{CONV} n = Neg(h) y = Concat <axis = 1> (n, h)", 1),
        (f"{CONV} y = Tile(h, eight)", None),
        (f"{CONV} y = Slice(h, from, to, one)", 1),
        (f"{CONV} y = Shape(h)", None),
        (f"{LINEAR} q = MatMul(v, five) y = Mul(h, q)", 1),
        (f"{LINEAR} q = MatMul(v, five) y = Mul(q, h)", 1),
        (f"{CONV} q = SequenceConstruct(h, h) y = SequenceAt(q, first)", None),
    ],
)
def test_where_channels_go(body: str, axis: object) -> None:
    inputs = "float[batch, 3, 8, 8] x, float[batch, 5] r, float[batch, 7, 5] s, float[batch, 6, 9, 6] u, float[5] v"
    known = {**KNOWN, "M2": (4, 3), "x4": (2, 3, 1, 4)}
    words = set("".join(letter if letter.isalnum() else " " for letter in body).split())
    kind = "int64" if "Shape(h)" in body else "float"
    proto = parse(f"g ({inputs}) => ({kind}[a] y) {{ {body} }}", **{n: d for n, d in known.items() if n in words})
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    graph = load(proto)
    normalise(graph)
    (result,) = graph.graph.outputs
    assert channel_axes(graph.graph).get(result, ABSENT) == axis
