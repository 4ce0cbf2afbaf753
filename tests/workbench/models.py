"""Small models for the verbs that cut and join: with branches, loops, functions, and weights in a file of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

HEAD = '<ir_version: 10, opset_import: ["" : 20]>'


def parsed(text: str, head: str = HEAD, **weights: object) -> onnx.ModelProto:
    """A model from its text form, with these arrays as initialisers."""
    model = parser.parse_model(f"{head} {text}")
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in weights.items()
    )
    return model


def chain() -> onnx.ModelProto:
    """x -> Mul by w -> a -> Add of v -> b -> Relu -> c -> Add of x -> y, and Neg of a -> z."""
    text = """chain (float[n, 4] x) => (float[n, 4] y, float[n, 4] z) {
        a = Mul(x, w) b = Add(a, v) c = Relu(b) y = Add(c, x) z = Neg(a) }"""
    return parsed(text, w=[1, 2, 3, 4], v=[-1, 0, 1, 2])


def branches() -> onnx.ModelProto:
    """Branches that capture a value of the main graph and a weight, and a loop that captures another."""
    text = """branches (float[n, 4] x, bool go, int64 trips) => (float[n, 4] y) {
        a = Mul(x, w)
        k = Neg(x)
        b = If (go) <
            then_branch = t () => (float[n, 4] t2) { t1 = Relu(a) t2 = Add(t1, v) },
            else_branch = e () => (float[n, 4] e1) { e1 = Neg(k) }
        >
        y = Loop (trips, go, b) <body = l (int64 i, bool c, float[n, 4] s) => (bool d, float[n, 4] r) {
            d = Identity(c) r = Add(s, k)
        }>
    }"""
    return parsed(text, w=[1, 2, 3, 4], v=[-1, 0, 1, 2])


def functions() -> onnx.ModelProto:
    """Two functions, one of which calls the other, and a third that only one half calls."""
    text = """functions (float[n, 4] x) => (float[n, 4] y) { a = local.Twice(x) y = local.Minus(a) }
    <domain: "local", opset_import: ["" : 20, "local" : 1]> Twice (u) => (w) { v = local.Plus(u) w = local.Plus(v) }
    <domain: "local", opset_import: ["" : 20]> Plus (u) => (w) { one = Constant <value_float = 1.0> () w = Add(u, one) }
    <domain: "local", opset_import: ["" : 20]> Minus (u) => (w) { w = Neg(u) }"""
    return parsed(text, '<ir_version: 10, opset_import: ["" : 20, "local" : 1, "ai.onnx.ml" : 3]>')


def with_data_file(folder: Path, name: str = "big.onnx", factor: float = 1.0) -> Path:
    """A model whose two weights are in a file beside it."""
    text = "big (float[n, 64] x) => (float[n, 64] y) { h = MatMul(x, first) y = MatMul(h, second) }"
    random = np.random.default_rng(0)
    first, second = random.standard_normal((2, 64, 64)) * 0.1
    path = folder / name
    model = parsed(text, first=first, second=second * factor)
    onnx.save(model, path, save_as_external_data=True, location=f"{name}.data", size_threshold=0)
    return path


X = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
