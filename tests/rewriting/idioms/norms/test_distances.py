"""Distances and similarities of vectors, and what differs from them in one place."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriting.idioms.recognising import Data, found, parse, simplified

COSINE = """n = ReduceL2(x, last) c = Clip(n, small) p = Div(x, c)
    m = ReduceL2(z, last) e = Clip(m, small) q = Div(z, e)
    r = Mul(p, q) y = ReduceSum <keepdims = 0> (r, last)"""
DISTANCE = "d = Sub(x, z) s = Add(d, small) y = ReduceL2 <keepdims = 0> (s, last)"
OURS = {"onnxlift.CosineSimilarity", "onnxlift.PairwiseDistance"}


def model(body: str, more: str = "", z: str = "batch, seq, 8", dtype: str = "float") -> onnx.ModelProto:
    known: dict[str, Data] = {"last": np.array([2]), "both": np.array([2, 1]), "small": 1e-6, "two": np.array([-1])}
    used = {name: value for name, value in known.items() if f"{name})" in body}
    proto = parse(f"g ({dtype}[batch, seq, 8] x, {dtype}[{z}] z) => ({dtype} y{more}) {{ {body} }}", **used)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


@pytest.mark.parametrize("body", [COSINE, DISTANCE], ids=["cosine", "distance"])
def test_distances(body: str) -> None:
    assert set(found(model(body))) <= OURS


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        (DISTANCE, "ReduceL2", "ReduceMax"),
        (DISTANCE, "ReduceL2 <keepdims = 0>", "ReduceSum <keepdims = 1>"),
        (DISTANCE, "(s, last)", "(s, both)"),
        (COSINE, "(r, last)", "(r, both)"),
        (COSINE, "Mul(p, q)", "Mul(p, z)"),
        (COSINE, "Mul(p, q)", "Mul(p, p)"),
    ],
    ids=["the largest", "the sum", "of two axes", "over two axes", "one of any length", "with itself"],
)
def test_other_reductions_stay(body: str, old: str, new: str) -> None:
    assert body.count(old) == 1
    assert not OURS & set(found(model(body.replace(old, new))))


@pytest.mark.parametrize(
    ("body", "value"), [(DISTANCE, "d"), (DISTANCE, "s"), (COSINE, "p"), (COSINE, "q"), (COSINE, "r")]
)
def test_what_is_read_elsewhere_stays(body: str, value: str) -> None:
    assert not OURS & set(found(model(f"{body} o = Exp({value})", ", float[batch, seq, 8] o")))


@pytest.mark.parametrize("z", ["1, seq, 8", "batch, seq, 1", "seq, 8"])
@pytest.mark.parametrize("body", [COSINE, DISTANCE], ids=["cosine", "distance"])
def test_vectors_of_two_shapes_stay(body: str, z: str) -> None:
    body = body.replace("ReduceL2(z, last)", "ReduceL2(z, two)")
    assert not OURS & set(found(model(body, z=z)))


def test_a_number_of_half_precision_is_another_one() -> None:
    proto = model(DISTANCE.replace("small", "t"), dtype="bfloat16")
    proto.graph.initializer.append(onnx.helper.make_tensor("t", onnx.TensorProto.BFLOAT16, [], [1e-6]))
    assert [node.op_type for node in simplified(proto).graph][-1] == "ReduceL2"
