"""The attention inside an `nn.MultiheadAttention`, and the weights that the layer gives back."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import onnxlift
from rewriting.idioms.attention.multihead_graphs import FLAT, LAYER, TEXT, layer, masked, shapes
from rewriting.idioms.recognising import found, simplified

HEAD = {"one": np.array([1])}


def operators(model: onnx.ModelProto, *without: str) -> list[str]:
    return [f"{node.domain}.{node.op_type}" for node in simplified(model, *without).graph]


def test_half_precision_stays() -> None:
    """Attention in half precision is computed in single precision, which the layer does not do."""
    model = layer(shape="float16[batch, 5, 12]")
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float16), tensor.name))
    assert LAYER not in operators(model)


def test_the_operator_of_onnx_stays() -> None:
    """It is another one than ours, with other inputs and attributes."""
    text = TEXT.replace("kt = Transpose <perm = [1, 2, 0]> (kr) k = Reshape(kt, keys)", "")
    text = text.replace("vt =", "kt = Transpose <perm = [1, 0, 2]> (kr) k = Reshape(kt, heads) vt =")
    spelled = "qk = MatMul(q, k) scaled = Mul(qk, scale) p = Softmax(scaled) o = MatMul(p, v)"
    text = text.replace(spelled, "o = Attention(q, k, v)")
    model = layer(text)
    model.opset_import[0].version = 23
    model.ir_version = 10
    assert LAYER not in operators(model)


def test_dropout_that_is_always_on_stays() -> None:
    text = TEXT.replace("p = Softmax(scaled)", "sm = Softmax(scaled) p = Dropout(sm, ratio, yes)")
    assert LAYER not in operators(layer(text, ratio=0.25, yes=np.array(True)))


def test_weights_that_nobody_reads_are_not_given_back() -> None:
    assert LAYER not in operators(layer(), "attention")


@pytest.mark.parametrize(
    ("how", "other", "is_layer"),
    [
        ("masked = Identity(scaled)", {"scale": 0.4}, False),
        ("masked = Where(m, scaled, least)", {"least": -1e38}, False),
        ("masked = Where(m, scaled, least)", {"least": -np.inf}, True),
    ],
    ids=["scale", "a number where something is hidden", "nothing where something is hidden"],
)
def test_scores(how: str, other: dict[str, Any], is_layer: bool) -> None:
    text = masked(how) + " w = Identity(p)"
    more = ", bool[5, 5] m" if "m," in how else ""
    assert (LAYER in found(layer(text, more=more, outputs=", float[batch, 3, 5, 5] w", **other))) is is_layer


MEAN = "ReduceMean <keepdims = 0> (p, one)"


@pytest.mark.parametrize(
    ("more", "outputs", "left"),
    [
        ("w = Gather <axis = 1> (p, i)", "float[batch, 5, 5] w", ["Gather"]),
        (f"s = {MEAN} w = Transpose <perm = [0, 2, 1]> (s)", "float[batch, 5, 5] w", ["Transpose"]),
        ("w = ReduceMean <keepdims = 1> (p, one)", "float[batch, 1, 5, 5] w", ["ReduceMean"]),
        ("w = ReduceMean <keepdims = 1> (p, zero)", "float[1, 3, 5, 5] w", ["ReduceMean"]),
        ("w = ReduceMean <keepdims = 0> (p, both)", "float[batch, 5] w", ["ReduceMean"]),
        ("w = Exp(p)", "float[batch, 3, 5, 5] w", ["Exp"]),
        (f"w = Identity(p) s = {MEAN}", "float[batch, 3, 5, 5] w, float[batch, 5, 5] s", ["ReduceMean"]),
        (f"s = {MEAN} w = Exp(p)", "float[batch, 3, 5, 5] w, float[batch, 5, 5] s", ["ReduceMean", "Exp"]),
    ],
    ids=["one head", "transposed", "an axis that stays", "batches", "two axes", "exp", "an output", "two readers"],
)
def test_what_becomes_of_the_weights_outside(more: str, outputs: str, left: list[str]) -> None:
    proto = layer(f"{TEXT} {more}", outputs=f", {outputs}", both=np.array([1, 3]), **HEAD)
    assert sorted(found(proto)) == sorted([LAYER, *left])


@pytest.mark.parametrize("is_averaged", [True, False])
def test_weights_of_batches_and_heads_in_one_axis(is_averaged: bool) -> None:
    mean = "w = ReduceMean <keepdims = 0> (p4, one)" if is_averaged else "w = Identity(p4)"
    text = f"{FLAT} p4 = Reshape(p, four) {mean}"
    shape = "batch, 5, 5" if is_averaged else "batch, 3, 5, 5"
    proto = layer(text, outputs=f", float[{shape}] w", four=np.array([-1, 3, 5, 5]), **HEAD)
    assert found(proto) == [LAYER]
    assert ("average_attn_weights=False" in onnxlift.lift(proto).source) is not is_averaged


def test_weights_of_a_single_head() -> None:
    proto = layer(f"{FLAT} w = Identity(p)", outputs=", float[batch, 5, 5] w", **shapes(5, 1))
    assert found(proto) == [LAYER]
    assert "average_attn_weights" not in onnxlift.lift(proto).source


BRANCHES = """w = If (c) <
    then_branch = then_graph () => (float[batch, 5, 5] one_w) {{ {} }},
    else_branch = else_graph () => (float[batch, 5, 5] other_w) {{ other_w = Identity(n) }}
>"""


@pytest.mark.parametrize("inner", ["one_w = ReduceMean <keepdims = 0> (p, one)", "one_w = Gather <axis = 1> (p, i)"])
def test_weights_that_a_branch_reads_stay(inner: str) -> None:
    text = f"{TEXT} {BRANCHES.format(inner)}"
    proto = layer(text, more=", bool c, float[batch, 5, 5] n", outputs=", float[batch, 5, 5] w", **HEAD)
    assert LAYER not in operators(proto)


def test_weights_that_are_read_before_the_values_are_multiplied_stay() -> None:
    """The layer comes where the attention ends."""
    text = TEXT.replace("o = MatMul(p, v)", "w = Exp(p) o = MatMul(p, v)")
    assert LAYER not in found(layer(text, outputs=", float[batch, 3, 5, 5] w"))
