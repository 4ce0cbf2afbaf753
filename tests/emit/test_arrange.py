from __future__ import annotations

import numpy as np
import onnx.parser
import onnxruntime
import torch

import onnxlift

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
