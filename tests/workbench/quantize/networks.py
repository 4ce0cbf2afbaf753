"""Small networks to quantise, and samples of their inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from workbench.running import model_of

Array = np.ndarray[Any, Any]


def normal(*shape: int, scale: float = 1.0) -> Array:
    """Random numbers, the same for the same shape."""
    return (np.random.default_rng(shape).standard_normal(shape) * scale).astype(np.float32)


def convnet() -> onnx.ModelProto:
    """Two convolutions and a linear layer; the batch is open."""
    return model_of(
        """(float[batch, 3, 8, 8] x) => (float[batch, 10] y) {
            a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w1, b1)
            b = Relu(a)
            c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (b, w2, b2)
            d = Relu(c)
            e = GlobalAveragePool(d)
            f = Flatten(e)
            y = Gemm <transB = 1> (f, w3, b3)
        }""",
        {
            "w1": normal(16, 3, 3, 3, scale=0.3),
            "b1": normal(16),
            "w2": normal(16, 16, 3, 3, scale=0.1),
            "b2": normal(16),
            "w3": normal(10, 16),
            "b3": normal(10),
        },
    )


def perceptron() -> onnx.ModelProto:
    """An embedding, a MatMul and a Gemm with weights that are worth storing in fewer bits."""
    return model_of(
        """(int64[batch, 5] ids) => (float[batch, 40] y) {
            a = Gather(table, ids)
            b = MatMul(a, w1)
            c = Relu(b)
            d = ReduceMean <axes = [1], keepdims = 0> (c)
            y = Gemm(d, w2, b2)
        }""",
        {"table": normal(60, 40), "w1": normal(40, 48), "w2": normal(48, 40), "b2": normal(40)},
        opset=13,
    )


def samples(count: int = 4, scale: float = 1.0) -> list[dict[str, Array]]:
    """Samples for the convnet."""
    random = np.random.default_rng(3)
    return [{"x": (random.standard_normal((2, 3, 8, 8)) * scale).astype(np.float32)} for _ in range(count)]


def sqnr(expected: Array, actual: Array) -> float:
    """The ratio of signal to noise in decibels, written down once more."""
    noise = np.sum((expected - actual).astype(float) ** 2)
    return float(10 * np.log10(np.sum(expected.astype(float) ** 2) / max(noise, 1e-30)))
