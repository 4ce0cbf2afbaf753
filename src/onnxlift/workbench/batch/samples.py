"""Two small models of our own, on which a server warms up: a network of convolutions, and a block with attention."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import numpy_helper, parser

IMAGES = """images (float[batch, 3, 8, 8] x) => (float[batch, 5] y) {
    a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, conv_weight, conv_bias) b = Relu(a)
    c = BatchNormalization (b, scale, shift, mean, variance) d = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
    e = GlobalAveragePool (d) f = Flatten <axis = 1> (e) y = Gemm <transB = 1> (f, fc_weight, fc_bias) }"""
BLOCK = """block (float[batch, tokens, 4] x) => (float[batch, tokens, 4] y) {
    n = LayerNormalization <axis = -1> (x, scale, shift) q = MatMul(n, query) k = MatMul(n, key) v = MatMul(n, value)
    t = Transpose <perm = [0, 2, 1]> (k) s = MatMul(q, t) m = Mul(s, half) p = Softmax <axis = -1> (m)
    o = MatMul(p, v) i = Identity(o) w = MatMul(i, out) r = Add(w, x) u = Sigmoid(r) g = Mul(r, u) h = Tanh(g)
    z = Shape(x) l = Reshape(h, z) y = Add(l, r) }"""
WEIGHTS: dict[str, dict[str, tuple[int, ...]]] = {
    IMAGES: {
        "conv_weight": (4, 3, 3, 3),
        "fc_weight": (5, 4),
        "fc_bias": (5,),
        **dict.fromkeys(("conv_bias", "scale", "shift", "mean", "variance"), (4,)),
    },
    BLOCK: {
        **dict.fromkeys(("scale", "shift"), (4,)),
        **dict.fromkeys(("query", "key", "value", "out"), (4, 4)),
        "half": (),
    },
}


def samples() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield the models by name."""
    numbers = np.random.default_rng(0)
    for text, shapes in WEIGHTS.items():
        model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {text}')
        for name, shape in shapes.items():
            weight = np.asarray(numbers.random(shape), np.float32)
            model.graph.initializer.append(numpy_helper.from_array(weight, name))
        yield model.graph.name, model
