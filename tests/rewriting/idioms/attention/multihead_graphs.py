"""An `nn.MultiheadAttention` as text, as PyTorch's older exporter writes it, for tests to change."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from rewriting.idioms.recognising import parse

TEXT = """first = Transpose <perm = [1, 0, 2]> (x)
    pw = MatMul(first, W) packed = Add(pw, in_proj_bias)
    split = Reshape(packed, parts) u = Unsqueeze(split, zero) t = Transpose <perm = [3, 1, 2, 0, 4]> (u)
    three = Squeeze(t, last) qs = Gather(three, i) ks = Gather(three, j) vs = Gather(three, l)
    qr = Reshape(qs, rows) qt = Transpose <perm = [1, 0, 2]> (qr) q = Reshape(qt, heads)
    kr = Reshape(ks, rows) kt = Transpose <perm = [1, 2, 0]> (kr) k = Reshape(kt, keys)
    vr = Reshape(vs, rows) vt = Transpose <perm = [1, 0, 2]> (vr) v = Reshape(vt, heads)
    qk = MatMul(q, k) scaled = Mul(qk, scale) p = Softmax(scaled) o = MatMul(p, v)
    back = Transpose <perm = [2, 0, 1, 3]> (o) joined = Reshape(back, width)
    ow = MatMul(joined, W2) ob = Add(ow, b2) y = Transpose <perm = [1, 0, 2]> (ob)"""
# The same with batches and heads in one axis all the way.
FLAT = TEXT.replace("Reshape(qt, heads)", "Identity(qt)").replace("Reshape(kt, keys)", "Identity(kt)")
FLAT = FLAT.replace("Reshape(vt, heads)", "Identity(vt)").replace("[2, 0, 1, 3]> (o)", "[1, 0, 2]> (o)")
LAYER = "onnxlift.MultiheadAttention"


def layer(
    text: str = TEXT,
    shape: str = "float[batch, 5, 12]",
    output: str = "",
    more: str = "",
    outputs: str = "",
    **other: Any,
) -> onnx.ModelProto:
    """The layer as torch's exporter writes it, with twelve features in three heads."""
    integers = {
        "parts": [0, 0, 3, 12],
        "rows": [5, -1, 4],
        "heads": [-1, 3, 5, 4],
        "keys": [-1, 3, 4, 5],
        "width": [0, -1, 12],
        "zero": [0],
        "last": [3],
        "i": 0,
        "j": 1,
        "l": 2,
    }
    known: dict[str, Any] = {name: np.array(value) for name, value in integers.items()}
    known |= {"scale": 0.5, "W": (12, 36), "in_proj_bias": (36,), "W2": (12, 12), "b2": (12,)} | other
    used = {name: value for name, value in known.items() if f"{name})" in text or f"{name}," in text}
    return parse(f"g ({shape} x{more}) => ({output or shape} y{outputs}) {{ {text} }}", **used)


def masked(how: str, text: str = TEXT) -> str:
    return text.replace("p = Softmax(scaled)", f"{how} p = Softmax(masked)")


# Queries from x, keys and values from c.
CROSS = """first = Transpose <perm = [1, 0, 2]> (x) other = Transpose <perm = [1, 0, 2]> (c)
    w_q, w_kv = Split <axis = 0> (in_proj_weight, cut) b_q, b_kv = Split <axis = 0> (in_proj_bias, cut)
    wt_q = Transpose <perm = [1, 0]> (w_q) pq = MatMul(first, wt_q) qs = Add(pq, b_q)
    wt_kv = Transpose <perm = [1, 0]> (w_kv) pkv = MatMul(other, wt_kv) both = Add(b_kv, pkv)
    split = Reshape(both, two) t = Transpose <perm = [2, 0, 1, 3]> (split) ks = Gather(t, i) vs = Gather(t, j)
    qr = Reshape(qs, rows) qt = Transpose <perm = [1, 0, 2]> (qr) q = Reshape(qt, heads)
    kr = Reshape(ks, others) kt = Transpose <perm = [1, 2, 0]> (kr) k = Reshape(kt, keys)
    vr = Reshape(vs, others) vt = Transpose <perm = [1, 0, 2]> (vr) v = Reshape(vt, values)
    qk = MatMul(q, k) scaled = Mul(qk, scale) p = Softmax(scaled) o = MatMul(p, v)
    back = Transpose <perm = [2, 0, 1, 3]> (o) joined = Reshape(back, width)
    ow = MatMul(joined, W2) ob = Add(ow, b2) y = Transpose <perm = [1, 0, 2]> (ob)"""


def cross(text: str = CROSS, **other: Any) -> onnx.ModelProto:
    sizes = {"in_proj_weight": (36, 12), "cut": np.array([12, 24]), "two": np.array([0, 0, 2, 12])}
    others = {"others": np.array([7, -1, 4]), "keys": np.array([-1, 3, 4, 7]), "values": np.array([-1, 3, 7, 4])}
    return layer(text, more=", float[batch, 7, 12] c", **(sizes | others | other))


# Queries, keys and values from x, c and d.
THREE = """first = Transpose <perm = [1, 0, 2]> (x) second = Transpose <perm = [1, 0, 2]> (c)
    third = Transpose <perm = [1, 0, 2]> (d) CUTS
    p_q = MatMul(first, t_q) p_k = MatMul(second, t_k) p_v = MatMul(third, t_v)
    qs = Add(p_q, b_q) ks = Add(p_k, b_k) vs = Add(p_v, b_v)
    qr = Reshape(qs, rows) qt = Transpose <perm = [1, 0, 2]> (qr) q = Reshape(qt, heads)
    kr = Reshape(ks, others) k1 = Transpose <perm = [1, 0, 2]> (kr)
    kt = Transpose <perm = [0, 2, 1]> (k1) k = Reshape(kt, keys)
    vr = Reshape(vs, values) vt = Transpose <perm = [1, 0, 2]> (vr) v = Reshape(vt, heads1)
    qk = MatMul(q, k) scaled = Mul(qk, scale) p = Softmax(scaled) o = MatMul(p, v)
    back = Transpose <perm = [2, 0, 1, 3]> (o) joined = Reshape(back, width)
    ow = MatMul(joined, W2) ob = Add(ow, b2) y = Transpose <perm = [1, 0, 2]> (ob)"""
SPLIT = """w_q, w_k, w_v = Split <axis = 0> (in_proj_weight, cut) b_q, b_k, b_v = Split <axis = 0> (in_proj_bias, cut)
    t_q = Transpose <perm = [1, 0]> (w_q) t_k = Transpose <perm = [1, 0]> (w_k) t_v = Transpose <perm = [1, 0]> (w_v)"""


def three(cuts: str = SPLIT, text: str = THREE, keys: int = 7, values: int = 7, **other: Any) -> onnx.ModelProto:
    """The layer with queries, keys and values of their own, whose weights and biases are what `cuts` makes; without
    that, parameters."""
    integers = {
        "cut": [12, 12, 12],
        "others": [keys, 6, 4],
        "values": [values, 6, 4],
        "keys": [2, 3, 4, values],
        "heads1": [2, 3, values, 4],
    }
    known: dict[str, Any] = {name: np.array(value) for name, value in integers.items()}
    known |= {"in_proj_weight": (36, 12)}
    if not cuts:
        known |= {f"t_{name}": (12, 12) for name in "qkv"} | {f"b_{name}": (12,) for name in "qkv"}
    sources = f", float[2, {keys}, 12] c, float[2, {values}, 12] d"
    return layer(text.replace("CUTS", cuts), "float[2, 5, 12]", **({"more": sources} | known | other))


def weighted(more: str, shape: str, **other: Any) -> onnx.ModelProto:
    """The layer, with the probabilities `p`, (batch, heads, queries, keys), read by `more`, which makes `w`."""
    return layer(f"{TEXT} {more}", outputs=f", float[{shape}] w", **other)


def shapes(length: int = 5, heads: int = 3) -> dict[str, Any]:
    """What the layer is reshaped to for a sequence of this length, and so many heads."""
    features = 12 // heads
    sizes = {
        "rows": [length, -1, features],
        "heads": [-1, heads, length, features],
        "keys": [-1, heads, features, length],
    }
    return {name: np.array(size) for name, size in sizes.items()} | {"scale": features**-0.5}


def appended(
    keys: str, values: str, /, text: str = TEXT, more: str = "", length: int = 5, **other: Any
) -> onnx.ModelProto:
    """The layer with something appended to its keys and values, which have batches and heads in one axis there."""
    text = text.replace("kt = Transpose <perm = [1, 2, 0]> (kr) k = Reshape(kt, keys)", keys)
    text = text.replace("vt = Transpose <perm = [1, 0, 2]> (vr) v = Reshape(vt, heads)", values)
    sizes = shapes(length) | {"keys": np.array([2, 3, 4, length + 1]), "heads1": np.array([2, 3, length + 1, 4])}
    return layer(text, shape=f"float[2, {length}, 12]", more=more, **(sizes | other))


KEYS = "k1 = Transpose <perm = [1, 0, 2]> (kr) {} kt = Transpose <perm = [0, 2, 1]> (k2) k = Reshape(kt, keys)"
VALUES = "v1 = Transpose <perm = [1, 0, 2]> (vr) {} v = Reshape(v2, heads1)"
K0, V0 = "k2 = Concat <axis = 1> (k1, z)", "v2 = Concat <axis = 1> (v1, z)"
ZEROS = np.zeros((6, 1, 4), np.float32)


def named(model: onnx.ModelProto, module: str = "/attn/", **others: str) -> onnx.ModelProto:
    """The model with its nodes in this module, apart from those that make `others`, which are in these; and with names
    as exporters generate them for the parameters whose names have an underscore: `W_q`, `b_kv`."""
    names = {tensor.name: f"onnx::{tensor.name}" for tensor in model.graph.initializer if tensor.name[1:2] == "_"}
    for place, node in enumerate(model.graph.node):
        node.name = f"{others.get(node.output[0], module)}{node.op_type}_{place}"
        node.input[:] = [names.get(name, name) for name in node.input]
    for tensor in model.graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    return model
