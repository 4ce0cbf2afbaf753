"""ONNX Runtime's normalisations with what is fused into them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import onnxlift
from lifting.ops.checking import check, run
from lifting.ops.microsoft.operators import node, normal


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("beta", [False, True])
def test_skip_layer_normalization(beta: bool, bias: bool) -> None:
    inputs = {"x": normal(2, 3, 8), "s": normal(2, 3, 8), "gamma": normal(8), "beta": normal(8), "bias": normal(8)}
    names = ["x", "s", "gamma", "beta" if beta else "", "bias" if bias else ""]
    fed = {name: inputs[name] for name in names if name}
    source = check(node("SkipLayerNormalization", " ".join(names), epsilon=1e-3), fed, constants=list(fed)[2:])
    assert "nn.LayerNorm(8, eps=0.001" in source
    check(node("SkipLayerNormalization", " ".join(names), "y   total"), fed, constants=list(fed)[2:])


@pytest.mark.parametrize("shape", [(3, 8), (1, 3, 8)])
def test_skip_broadcasts(shape: tuple[int, ...]) -> None:
    fed = {"x": normal(2, 3, 8), "s": normal(*shape), "gamma": normal(8), "beta": normal(8)}
    check(node("SkipLayerNormalization", "x s gamma beta"), fed, constants=["gamma", "beta"], dynamic=True)


def test_skip_simplified() -> None:
    fed = {"x": normal(2, 3, 8), "s": normal(2, 3, 8), "gamma": normal(8), "bias": normal(8)}
    source = check(node("SkipSimplifiedLayerNormalization", "x s gamma bias", "y   total"), fed, constants=["gamma"])
    assert "nn.RMSNorm(8" in source
    fed.pop("bias")
    check(node("SkipSimplifiedLayerNormalization", "x s gamma"), fed)


def test_simplified_in_the_default_domain() -> None:
    simplified = helper.make_node("SimplifiedLayerNormalization", ["x", "w"], ["y"], epsilon=1e-4)
    source = check(simplified, {"x": normal(2, 3, 8), "w": normal(8)}, constants=["w"], opset=17)
    assert "nn.RMSNorm(8, eps=0.0001)" in source


def test_bias_goes_to_the_linear_layer() -> None:
    """SkipLayerNormalization takes the bias away from the product before it; it is still that layer's."""
    product = helper.make_node("MatMul", ["x", "dense.weight"], ["p"], name="/dense/MatMul")
    norm = node("SkipLayerNormalization", "s p gamma beta bias")
    fed = {"x": normal(2, 3, 4), "s": normal(2, 3, 8), "dense.weight": normal(4, 8)}
    fed |= {"gamma": normal(8), "beta": normal(8), "bias": normal(8)}
    source = check([product, norm], fed, constants=["dense.weight", "gamma", "beta", "bias"])
    assert "nn.Linear(4, 8)\n" in source


@pytest.mark.parametrize("given", ["", "segments", "positions", "mask"])
def test_embed_layer_normalization(given: str) -> None:
    random = np.random.default_rng(1)
    ids = random.integers(0, 20, (2, 5)).astype(np.int32)
    tables = {"words": normal(20, 8), "places": normal(10, 8), "kinds": normal(2, 8)}
    fed = {"ids": ids, "seg": random.integers(0, 2, (2, 5)).astype(np.int32), **tables}
    fed |= {"gamma": normal(8), "beta": normal(8), "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)}
    fed["pos"] = random.integers(0, 10, (2, 5)).astype(np.int32)
    names = ["ids", "seg", "words", "places", "kinds", "gamma", "beta", "mask", "pos"]
    left_out = {"seg", "kinds"} if given != "segments" else set()
    left_out |= {"pos"} if given != "positions" else set()
    left_out |= {"mask"} if given != "mask" else set()
    listed = ["" if name in left_out else name for name in names]
    while not listed[-1]:
        listed.pop()
    fed = {name: array for name, array in fed.items() if name not in left_out}
    constants = [name for name in ("words", "places", "kinds", "gamma", "beta") if name in fed]
    outputs = "y count total" if given in ("mask", "segments") else "y count"
    source = check(node("EmbedLayerNormalization", " ".join(listed), outputs), fed, constants=constants)
    assert "nn.Embedding(20, 8)" in source


@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
def test_group_norm(activation: int, last: int) -> None:
    x, gamma, beta = normal(2, 6, 4, 5), normal(6), normal(6)
    expected = _group_norm(x, gamma, beta, activation)
    moved = (lambda a: a.transpose(0, 2, 3, 1)) if last else (lambda a: a)
    options = {"groups": 3, "activation": activation, "channels_last": last, "epsilon": 1e-3}
    source = check(
        node("GroupNorm", "x gamma beta", **options),
        {"x": moved(x), "gamma": gamma, "beta": beta},
        constants=["gamma", "beta"],
        expected=[moved(expected)],
        rtol=1e-4,
        atol=1e-5,
    )
    assert "nn.GroupNorm(3, 6, eps=0.001)" in source
    skip, bias = normal(2, 6), normal(6)
    total = x + skip[:, :, None, None] + bias[:, None, None]
    check(
        node("SkipGroupNorm", "x gamma beta skip bias", "y total", **options),
        {"x": moved(x), "gamma": gamma, "beta": beta, "skip": skip, "bias": bias},
        expected=[moved(_group_norm(total, gamma, beta, activation)), moved(total)],
        rtol=1e-4,
        atol=1e-5,
    )


def _group_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, activation: int) -> np.ndarray:  # type: ignore[type-arg]
    grouped = x.reshape(2, 3, -1)
    centred = grouped - grouped.mean(-1, keepdims=True)
    y = (centred / np.sqrt(grouped.var(-1, keepdims=True) + 1e-3)).reshape(x.shape)
    y = y * gamma[:, None, None] + beta[:, None, None]
    return y / (1 + np.exp(-y)) if activation else y


def test_statistics_for_training() -> None:
    """ONNX Runtime's CPU build does not compute them, although it accepts the node."""
    x, skip, gamma = normal(2, 3, 8), normal(2, 3, 8), normal(8)
    infos = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [2, 3, 8]), ("s", [2, 3, 8]), ("gamma", [8]))]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("y", "mean", "inv")]
    graph = helper.make_graph([node("SkipLayerNormalization", "x s gamma", "y mean inv")], "g", infos, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    _, mean, inverse = run(onnxlift.lift(model), [x, skip, gamma])
    np.testing.assert_allclose(mean, (x + skip).mean(-1, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(inverse, 1 / (x + skip).std(-1, keepdims=True), rtol=1e-4)
