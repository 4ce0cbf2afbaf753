from __future__ import annotations

import re

import numpy as np
import onnx.helper
import onnx.parser
import onnxruntime
import torch

import onnxlift
from small_graphs import Graph

MODEL = """<ir_version: 9, opset_import: ["" : 18]> g (float[n, 4] x) => (float[n, 4] y, float[n, 4] z) {
    a = Sin(x) b = Cos(x) second = Exp(b) first = Tanh(a) both = Mul(first, second)
    y = Add(both, second) z = Sub(first, both) }"""


def test_statements_stand_where_their_computation_begins() -> None:
    model = onnx.parser.parse_model(MODEL)
    lifted = onnxlift.lift(model)
    assert lifted.source.index("first = ") < lifted.source.index("second = ")
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for actual, expected in zip(lifted.module()(torch.from_numpy(x)), session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_what_works_on_parts_of_a_tensor_comes_in_their_order() -> None:
    """A reader expects the query first, though transformers' GPT-2 begins with the key."""
    g = Graph()
    x = g.input("x", "n", 6)
    g.nodes.append(onnx.helper.make_node("Split", [x], ["p", "q", "r"], "/Split", axis=1, num_outputs=3))
    waves = {part: g.node("Softplus", g.node("Sin", part)) for part in ("r", "p", "q")}
    products = [g.node("Mul", waves[a], waves[b]) for a, b in ("pq", "qr", "rp")]
    lines = [line.strip() for line in g.lift(*products).source.splitlines() if ".chunk(" in line or "softplus" in line]
    names = lines[0].partition(" = ")[0].split(", ")
    assert [re.findall(r"\((\w+)\.sin", line) for line in lines[1:]] == [[name] for name in names]
