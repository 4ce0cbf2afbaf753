"""Normalisations as layers, as functions of computed weights, and in the forms of older opsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper
from onnx.reference import ReferenceEvaluator

import onnxlift
from lifting.ops.checking import check, check_official, model_of, official_cases


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


def _weights(channels: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(channels)
    return {
        "scale": rng.uniform(0.5, 1.5, channels).astype(np.float32),
        "b": rng.standard_normal(channels, np.float32),
        "mean": rng.standard_normal(channels, np.float32),
        "var": rng.uniform(0.5, 1.5, channels).astype(np.float32),
    }


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 5), (2, 3, 2, 4, 5), (2, 3, 2, 2, 2, 3)])
def test_batch_norm(shape: tuple[int, ...], opset: int) -> None:
    weights = _weights(3)
    inputs = {"x": rand(*shape), **weights}
    node = helper.make_node("BatchNormalization", list(inputs), ["y"], epsilon=1e-3)
    source = check(node, inputs, opset=opset, constants=list(weights))
    if len(shape) < 6:
        assert f"nn.BatchNorm{max(len(shape) - 2, 1)}d(3, eps=0.001)" in source
    fixed = check(node, inputs, opset=opset, constants=["mean", "var"])
    assert "F.batch_norm(x, self.mean, self.var, scale, b, eps=0.001)" in fixed
    assert "batch_norm(x, scale, b, mean, var, 0.001)" in check(node, inputs, opset=opset)


def test_batch_norm_momentum_is_the_other_share() -> None:
    weights = _weights(3)
    inputs = {"x": rand(2, 3, 4, 5), **weights}
    node = helper.make_node("BatchNormalization", list(inputs), ["y"], momentum=0.99)
    assert "nn.BatchNorm2d(3, momentum=0.01)" in check(node, inputs, constants=list(weights))


def test_batch_norm_of_unknown_rank() -> None:
    weights = _weights(3)
    inputs = {"x": rand(2, 3, 4, 5), **weights}
    node = helper.make_node("BatchNormalization", list(inputs), ["y"])
    check(node, inputs, constants=list(weights), unranked=True)


def test_batch_norm_of_one_axis() -> None:
    weights = _weights(1)
    inputs = {"x": rand(5), **weights}
    expected = (inputs["x"] - weights["mean"]) / np.sqrt(weights["var"] + 1e-5) * weights["scale"] + weights["b"]
    node = helper.make_node("BatchNormalization", list(inputs), ["y"])
    check(node, inputs, constants=list(weights), opset=9, expected=[expected])


@pytest.mark.parametrize("statistics", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_batch_norm_of_mixed_types(dtype: type, statistics: type) -> None:
    weights = _weights(3)
    weights |= {k: weights[k].astype(dtype) for k in ("scale", "b")}
    weights |= {k: weights[k].astype(statistics) for k in ("mean", "var")}
    inputs = {"x": rand(2, 3, 4, dtype=dtype), **weights}
    tolerance = 2e-2 if np.float16 in (dtype, statistics) else 1e-5
    node = helper.make_node("BatchNormalization", list(inputs), ["y"])
    check(node, inputs, constants=list(weights), opset=15, reference=True, rtol=tolerance, atol=tolerance)


def test_batch_norm_of_every_place() -> None:
    rng = np.random.default_rng(3)
    weights = {k: rng.uniform(0.5, 1.5, (3, 4, 5)).astype(np.float32) for k in ("scale", "b", "mean", "var")}
    inputs = {"x": rand(2, 3, 4, 5), **weights}
    node = helper.make_node("BatchNormalization", list(inputs), ["y"], spatial=0)
    check(node, inputs, opset=7, constants=list(weights))


@pytest.mark.parametrize("spatial", [(), (5,), (4, 5)])
def test_batch_norm_while_training(spatial: tuple[int, ...]) -> None:
    inputs = {"x": rand(4, 3, *spatial), **_weights(3)}
    node = helper.make_node(
        "BatchNormalization", list(inputs), ["y", "new_mean", "new_var"], momentum=0.7, training_mode=1
    )
    check(node, inputs, opset=15, constants=["scale", "b"], reference=True, rtol=1e-4)


def test_batch_norm_of_a_training_model_is_a_layer_in_train_mode() -> None:
    inputs = {"x": rand(4, 3, 5), **_weights(3)}
    outputs = ["y", "new_mean", "new_var"]
    node = helper.make_node("BatchNormalization", list(inputs), outputs, momentum=0.7, training_mode=1)
    model = model_of([node], inputs, 15, list(inputs)[1:])
    (y, new_mean, _) = (torch.from_numpy(array) for array in ReferenceEvaluator(model).run(None, {"x": inputs["x"]}))
    del model.graph.output[1:]
    lifted = onnxlift.lift(model)
    assert "nn.BatchNorm1d(3, momentum=0.3)" in lifted.source
    assert lifted.report.warnings
    module, x = lifted.module(train=True), torch.from_numpy(inputs["x"])
    torch.testing.assert_close(module(x), y)
    (statistic,) = (buffer for name, buffer in module.named_buffers() if name.endswith("running_mean"))
    torch.testing.assert_close(statistic, new_mean)
    assert not torch.allclose(module.eval()(x), y)


def test_batch_norm_while_training_before_opset_14() -> None:
    inputs = {"x": rand(4, 3, 5), **_weights(3)}
    x, mean, var = inputs["x"], inputs["x"].mean((0, 2)), inputs["x"].var((0, 2))
    y = (x - mean[:, None]) / np.sqrt(var + 1e-5)[:, None] * inputs["scale"][:, None] + inputs["b"][:, None]
    new = [inputs[k] * 0.9 + batch * np.float32(0.1) for k, batch in (("mean", mean), ("var", var))]
    node = helper.make_node("BatchNormalization", list(inputs), ["y", "new_mean", "new_var", "saved_mean", "saved_var"])
    check(node, inputs, opset=9, expected=[a.astype(np.float32) for a in (y, *new, mean, var)], rtol=1e-4)


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (2, 3, 2, 4, 5), (2, 3, 1), (2, 3, 1, 1)])
def test_instance_norm(shape: tuple[int, ...]) -> None:
    weights = {k: v for k, v in _weights(3).items() if k in ("scale", "b")}
    inputs = {"x": rand(*shape), **weights}
    node = helper.make_node("InstanceNormalization", list(inputs), ["y"])
    source = check(node, inputs, constants=list(weights), rtol=1e-4)
    if np.prod(shape[2:]) > 1:
        assert f"nn.InstanceNorm{len(shape) - 2}d(3, affine=True)" in source
        check(node, inputs, constants=list(weights), unranked=True, rtol=1e-4)
    check(node, inputs, opset=6, rtol=1e-4)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("opset", [18, 21])
def test_group_norm(opset: int, dynamic: bool, constant: bool) -> None:
    size = 2 if opset == 18 else 6
    inputs = {"x": rand(2, 6, 4, 5), "scale": rand(size), "b": rand(size) + 1}
    groups = inputs["x"].reshape(2, 2, -1)
    normal = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-3)
    scale, b = (np.repeat(inputs[k], 6 // size)[:, None, None] for k in ("scale", "b"))
    expected = normal.reshape(2, 6, 4, 5) * scale + b
    node = helper.make_node("GroupNormalization", ["x", "scale", "b"], ["y"], num_groups=2, epsilon=1e-3)
    constants = ["scale", "b"] if constant else []
    source = check(node, inputs, opset=opset, constants=constants, dynamic=dynamic, expected=[expected], rtol=1e-4)
    if constant and not (dynamic and opset == 18):
        assert "nn.GroupNorm(2, 6, eps=0.001)" in source


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("axis", "shape"), [(-1, (5,)), (3, (5,)), (2, (4, 5)), (-3, (3, 4, 5)), (0, (2, 3, 4, 5))])
def test_layer_norm(axis: int, shape: tuple[int, ...], bias: bool, constant: bool, outputs: int) -> None:
    inputs = {"x": rand(2, 3, 4, 5), "scale": rand(*shape), "b": rand(*shape) + 1}
    if not bias:
        del inputs["b"]
    node = helper.make_node("LayerNormalization", list(inputs), ["y", "mean", "inverse"][:outputs], axis=axis)
    constants = [*inputs][1:] if constant else []
    source = check(node, inputs, constants=constants, rtol=1e-4, atol=1e-5)
    if constant and outputs == 1:
        text = str(shape[0]) if len(shape) == 1 else str(shape)
        assert f"nn.LayerNorm({text}{'' if bias else ', bias=False'})" in source


@pytest.mark.parametrize("how", [{"dynamic": True}, {"unranked": True}, {}])
@pytest.mark.parametrize(("axis", "shape"), [(-1, (5,)), (-2, (4, 5)), (-1, (1,)), (-2, (5,)), (-2, (4, 1))])
def test_layer_norm_of_unknown_sizes(axis: int, shape: tuple[int, ...], how: dict[str, bool]) -> None:
    inputs = {"x": rand(2, 3, 4, 5), "scale": rand(*shape), "b": rand(*shape) + 1}
    node = helper.make_node("LayerNormalization", list(inputs), ["y"], axis=axis)
    check(node, inputs, constants=["scale", "b"], reference=True, rtol=1e-4, atol=1e-5, **how)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("outputs", [1, 3])
def test_layer_norm_of_other_types(dtype: type, outputs: int) -> None:
    inputs = {"x": rand(3, 50, dtype=dtype) * 10, "scale": rand(50, dtype=dtype), "b": rand(50, dtype=dtype)}
    node = helper.make_node("LayerNormalization", list(inputs), ["y", "mean", "inverse"][:outputs])
    check(node, inputs, constants=["scale", "b"], rtol=5e-3 if dtype == np.float16 else 1e-6, atol=5e-3)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("axis", "shape"), [(-1, (5,)), (2, (4, 5)), (-2, (5,)), (-1, (1,))])
def test_rms_norm(axis: int, shape: tuple[int, ...], constant: bool) -> None:
    inputs = {"x": rand(2, 3, 4, 5), "scale": rand(*shape)}
    node = helper.make_node("RMSNormalization", list(inputs), ["y"], axis=axis, epsilon=1e-6)
    source = check(node, inputs, opset=23, constants=["scale"] if constant else [], reference=True, rtol=1e-4)
    if constant and shape == (5,) and axis == -1:
        assert "nn.RMSNorm(5, eps=1e-6)" in source


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_lp_normalization(axis: int, p: int) -> None:
    x = rand(3, 4, 5)
    x[:, 2] *= 1e-15
    x[1, :, 0] = 0
    x[:, :, 3] = 0
    x[2] = 0
    norm = np.linalg.norm(x.astype(np.float64), p, axis, keepdims=True)
    expected = np.divide(x, norm, out=np.zeros_like(x, np.float64), where=norm != 0).astype(np.float32)
    node = helper.make_node("LpNormalization", ["x"], ["y"], axis=axis, p=p)
    check(node, {"x": x}, opset=22, expected=[expected])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_lrn(size: int) -> None:
    x = rand(2, 6, 4, 5)
    before, after = (size - 1) // 2, size // 2
    energy = np.stack([(x[:, max(c - before, 0) : c + after + 1] ** 2).sum(1) for c in range(6)], 1)
    expected = (x / (1.2 + 0.3 / size * energy) ** 0.6).astype(np.float32)
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.3, beta=0.6, bias=1.2)
    check(node, {"x": x}, expected=[expected])


@pytest.mark.parametrize("axes", [None, [0, 1], [2, 3], [-1]])
def test_mean_variance_normalization(axes: list[int] | None) -> None:
    attributes = {} if axes is None else {"axes": axes}
    node = helper.make_node("MeanVarianceNormalization", ["x"], ["y"], **attributes)
    check(node, {"x": rand(2, 3, 4, 5) + 2}, reference=True, rtol=1e-4, atol=1e-5)


NORMS = """BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization
MeanVarianceNormalization RMSNormalization""".split()


@pytest.mark.parametrize("case", official_cases(*NORMS))
def test_official(case: Any) -> None:
    check_official(case)
