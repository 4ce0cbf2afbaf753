"""ONNX Runtime's fused operators: what its own optimiser writes, in single nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import onnxlift
from lifting.ops.checking import check, model_of
from lifting.ops.microsoft.operators import Array, node, normal, run
from onnxlift.errors import UnsupportedError

random = np.random.default_rng(13)
X = normal(2, 3, 8)


@pytest.mark.parametrize("op_type", ["Gelu", "QuickGelu", "FastGelu"])
def test_activations(op_type: str) -> None:
    run(op_type, {"x": X})


def test_gelu_with_bias() -> None:
    for op_type in ("BiasGelu", "FastGelu"):
        source = run(op_type, {"x": X, "b": normal(8)}, "b")
        assert "F.gelu(x + self.b" in source


def test_quick_gelu_of_one_is_silu() -> None:
    assert "F.silu(x)" in run("QuickGelu", {"x": X}, alpha=1.0)


@pytest.mark.parametrize("alpha", [1.0, 0.37])
@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_fused_matmul(alpha: float, transposed: tuple[int, int]) -> None:
    a, b = normal(2, 3, 4, 5), normal(2, 3, 5, 6)
    a, b = a.swapaxes(-1, -2) if transposed[0] else a, b.swapaxes(-1, -2) if transposed[1] else b
    run("FusedMatMul", {"a": a, "b": b}, alpha=alpha, transA=transposed[0], transB=transposed[1])
    check(
        node("TransposeMatMul", "a b", alpha=alpha, transA=transposed[0], transB=transposed[1]),
        {"a": a, "b": b},
        unranked=True,
    )


@pytest.mark.parametrize("matrix", [0, 1])
def test_fused_matmul_with_batch_transposed(matrix: int) -> None:
    a = normal(4, 2, 3, 5) if not matrix else normal(5, 2, 3, 4)
    run("FusedMatMul", {"a": a, "b": normal(2, 3, 5, 6)}, transBatchA=1, transA=matrix)
    b = normal(5, 2, 3, 6) if not matrix else normal(6, 2, 3, 5)
    run("FusedMatMul", {"a": normal(2, 3, 4, 5), "b": b}, transBatchB=1, transB=matrix)


@pytest.mark.parametrize(
    "activation",
    [
        {"activation": "Relu"},
        {"activation": "Tanh"},
        {"activation": "Sigmoid"},
        {"activation": "LeakyRelu", "activation_params": [0.3]},
        {"activation": "Clip", "activation_params": [-0.5, 0.75]},
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
        {},
    ],
)
def test_fused_conv(activation: dict[str, Any]) -> None:
    inputs = {"x": normal(2, 3, 7, 6), "w": normal(4, 3, 3, 2), "b": normal(4)}
    options = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1], **activation}
    source = run("FusedConv", inputs, "w b", **options)
    assert "nn.Conv2d(" in source


def test_fused_conv_with_sum() -> None:
    inputs = {"x": normal(2, 3, 7, 6), "w": normal(4, 3, 3, 3), "b": normal(4), "z": normal(2, 4, 5, 4)}
    source = run("FusedConv", inputs, "w b", activation="Relu")
    assert "(x) + z)" in source


@pytest.mark.parametrize(
    "activation",
    [
        {"activation": "Relu"},
        {"activation": "LeakyRelu", "activation_alpha": 0.2},
        {"activation": "Elu", "activation_alpha": 0.7},
        {"activation": "Sigmoid"},
        {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.4},
    ],
)
def test_fused_gemm(activation: dict[str, Any]) -> None:
    source = run("FusedGemm", {"a": normal(3, 5), "b": normal(4, 5), "c": normal(4)}, "b c", transB=1, **activation)
    assert "nn.Linear(5, 4)" in source
    run("FusedGemm", {"a": normal(5, 3), "b": normal(5, 4)}, transA=1, alpha=0.5, **activation)


def test_unknown_activation_is_refused() -> None:
    model = model_of(node("FusedGemm", "a b", activation="Wobble"), {"a": normal(3, 5), "b": normal(5, 4)}, 17)
    with pytest.raises(UnsupportedError, match="its activation is Wobble"):
        onnxlift.lift(model)


def test_unknown_attribute_is_refused() -> None:
    model = model_of(node("BiasGelu", "a b", wobble=1), {"a": normal(3, 5), "b": normal(5)}, 17)
    with pytest.raises(UnsupportedError, match="attribute wobble"):
        onnxlift.lift(model)


def test_attribute_of_the_wrong_type_is_refused() -> None:
    model = model_of(node("FusedMatMul", "a b", alpha="much"), {"a": normal(3, 5), "b": normal(5, 4)}, 17)
    with pytest.raises(UnsupportedError, match="do not go together"):
        onnxlift.lift(model)


def test_users_own_function_comes_first() -> None:
    from onnxlift.lifting.ops import registry

    table = dict(registry._TABLE)
    try:

        @onnxlift.op("BiasGelu", domain="com.microsoft")
        def mine(n: Any, A: Any, B: Any) -> Any:
            return A * B

        model = model_of(node("BiasGelu", "a b"), {"a": normal(3, 5), "b": normal(5)}, 17)
        assert "return a * b" in onnxlift.lift(model).source
    finally:
        registry._TABLE.clear()
        registry._TABLE.update(table)


def test_nhwc_conv() -> None:
    x, w, b = normal(2, 7, 6, 3), normal(4, 3, 3, 2), normal(4)
    options = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}
    conv = helper.make_node("Conv", ["x", "w", "b"], ["y"], **options)
    first = {"x": x.transpose(0, 3, 1, 2), "w": w, "b": b}
    (expected,) = onnx.reference.ReferenceEvaluator(model_of(conv, first, 17)).run(None, first)
    expected = expected.transpose(0, 2, 3, 1)
    inputs = {"x": x, "w": w.transpose(0, 2, 3, 1), "b": b}
    check(node("NhwcConv", "x w b", **options), inputs, constants=["w", "b"], expected=[expected])
    z = normal(*expected.shape)
    check(
        node("NhwcFusedConv", "x w b z", activation="Relu", **options),
        {"x": x, "w": w, "b": b, "z": z},
        constants=["w", "b"],
        expected=[np.maximum(expected + z, 0)],
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_nhwc_max_pool(dtype: type) -> None:
    x = random.integers(0, 100, (2, 7, 6, 3)).astype(dtype)
    run("NhwcMaxPool", {"x": x}, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])


def test_what_no_cpu_runs() -> None:
    x, bias, skip = normal(2, 3, 8), normal(8), normal(2, 3, 8)
    check(node("BiasAdd", "x b s"), {"x": x, "b": bias, "s": skip}, expected=[x + bias + skip])
    check(node("FusedMatMulActivation", "a b", activation="Relu", alpha=2.0, transB=1), {"a": x, "b": skip},
          expected=[np.maximum(2 * x @ skip.swapaxes(1, 2), 0)])  # fmt: skip
    a, g = np.split(x + bias, 2, -1)
    gelu = _ort_gelu(g)
    check(node("BiasSplitGelu", "x b"), {"x": x, "b": bias}, expected=[a * gelu], rtol=1e-4)
    w = normal(8, 5)
    check(
        node("GemmFastGelu", "x w b"),
        {"x": x, "w": w, "b": normal(5) * 0},
        expected=[0.5 * (x @ w) * (1 + np.tanh(0.7978845608 * ((x @ w) + 0.044715 * (x @ w) ** 3)))],
        rtol=1e-4,
    )
    scores = x + bias
    softmax = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    check(
        node("BiasSoftmax", "x b", axis=2, is_inner_broadcast=0),
        {"x": x, "b": bias[None, None]},
        expected=[softmax],
        rtol=1e-4,
    )


def _ort_gelu(x: Array) -> Array:
    from math import erf

    return (x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))).astype(np.float32)
