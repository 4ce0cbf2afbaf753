"""Activations, the softmax family through its change of meaning in opset 13, and Dropout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper

import onnxlift
from lifting.ops.checking import check, check_official, model_of, official_cases


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (np.random.default_rng(shape).standard_normal(shape) * 3).astype(dtype)


UNARY = [
    ("Celu", 12, {}, "F.celu(x)"),
    ("Celu", 12, {"alpha": 2.5}, "F.celu(x, 2.5)"),
    ("Elu", 22, {}, "F.elu(x)"),
    ("Elu", 6, {"alpha": 0.7}, "F.elu(x, 0.7)"),
    ("Gelu", 20, {}, "F.gelu(x)"),
    ("Gelu", 20, {"approximate": "tanh"}, 'F.gelu(x, approximate="tanh")'),
    ("HardSigmoid", 6, {}, "(x * 0.2 + 0.5).clamp(0, 1)"),
    ("HardSigmoid", 22, {"alpha": 1 / 6}, "F.hardsigmoid(x)"),
    ("HardSigmoid", 22, {"alpha": -0.3, "beta": 0.1}, "clamp"),
    ("HardSwish", 14, {}, "F.hardswish(x)"),
    ("LeakyRelu", 6, {}, "F.leaky_relu(x)"),
    ("LeakyRelu", 16, {"alpha": 0.2}, "F.leaky_relu(x, 0.2)"),
    ("Mish", 18, {}, "F.mish(x)"),
    ("Relu", 6, {}, "F.relu(x)"),
    ("Selu", 6, {}, "F.selu(x)"),
    ("Selu", 22, {"alpha": 1.5, "gamma": 0.9}, "F.elu(x, 1.5) * 0.9"),
    ("Shrink", 9, {}, "F.hardshrink(x)"),
    ("Shrink", 9, {"bias": 0.7, "lambd": 0.7}, "F.softshrink(x, 0.7)"),
    ("Shrink", 9, {"bias": 1.5, "lambd": 0.7}, "shrink(x, 1.5, 0.7)"),
    ("Sigmoid", 6, {}, "x.sigmoid()"),
    ("Softplus", 1, {}, "F.softplus(x)"),
    ("Softsign", 1, {}, "F.softsign(x)"),
    ("Tanh", 6, {}, "x.tanh()"),
    ("ThresholdedRelu", 10, {}, "F.threshold(x, 1.0, 0.0)"),
    ("ThresholdedRelu", 22, {"alpha": -0.5}, "F.threshold(x, -0.5, 0.0)"),
]


@pytest.mark.parametrize(("op_type", "opset", "attributes", "text"), UNARY)
def test_unary(op_type: str, opset: int, attributes: dict[str, Any], text: str) -> None:
    node = helper.make_node(op_type, ["x"], ["y"], **attributes)
    assert text in check(node, {"x": rand(3, 4, 5)}, opset=opset)
    check(node, {"x": rand(0, 4)}, opset=opset, dynamic=True)


@pytest.mark.parametrize("op_type", ["Elu", "Selu", "Softplus", "Sigmoid", "Tanh", "LeakyRelu", "Relu", "Mish"])
def test_unary_of_double(op_type: str) -> None:
    x = np.linspace(-50, 50, 37)
    node = helper.make_node(op_type, ["x"], ["y"])
    check(node, {"x": x}, opset=22, reference=True, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("op_type", "value"), [("Swish", 1.0), ("Swish", 1.7)])
def test_swish(op_type: str, value: float) -> None:
    x = rand(3, 4)
    expected = (x / (1 + np.exp(-value * x))).astype(np.float32)
    check(helper.make_node(op_type, ["x"], ["y"], alpha=value), {"x": x}, opset=24, expected=[expected])


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_relu_of_integers(dtype: type) -> None:
    x = np.array([[-128, 3], [0, -1]], dtype)
    check(helper.make_node("Relu", ["x"], ["y"]), {"x": x}, opset=14, expected=[np.maximum(x, 0)])


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_shrink_of_integers(dtype: type) -> None:
    x = np.array([[100, 3], [0, 1]], dtype)
    node = helper.make_node("Shrink", ["x"], ["y"], bias=1.5, lambd=1.5)
    check(node, {"x": x}, opset=9)


@pytest.mark.parametrize(
    ("shape", "slope", "opset", "text"),
    [
        ((2, 3, 4, 5), (3, 1, 1), 16, "nn.PReLU(3)"),
        ((2, 3, 4, 5), (1, 3, 1, 1), 16, "nn.PReLU(3)"),
        ((2, 3, 4, 5), (1,), 9, "nn.PReLU()"),
        ((2, 3, 4, 5), (), 9, "nn.PReLU()"),
        ((2, 3), (3,), 7, "nn.PReLU(3)"),
        ((2, 3, 4, 5), (5,), 16, "torch.where"),
        ((2, 3, 4, 5), (4, 1), 16, "torch.where"),
        ((2, 3, 3), (3,), 16, "torch.where"),
        ((4,), (4,), 16, "torch.where"),
    ],
)
def test_prelu(shape: tuple[int, ...], slope: tuple[int, ...], opset: int, text: str) -> None:
    inputs = {"x": rand(*shape), "slope": rand(*slope)}
    node = helper.make_node("PRelu", ["x", "slope"], ["y"])
    assert text in check(node, inputs, opset=opset, constants=["slope"])
    check(node, inputs, opset=opset)
    check(node, inputs, opset=opset, constants=["slope"], dynamic=True)


def test_prelu_along_the_channels_before_opset_7() -> None:
    x, slope = rand(2, 3, 4), rand(3)
    expected = np.where(x < 0, x * slope[:, None], x)
    node = helper.make_node("PRelu", ["x", "slope"], ["y"])
    assert "nn.PReLU(3)" in check(node, {"x": x, "slope": slope}, opset=6, constants=["slope"], expected=[expected])
    check(node, {"x": x, "slope": slope}, opset=6, expected=[expected])


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.uint64, np.int64])
def test_prelu_of_integers(dtype: type) -> None:
    x = np.array([[7, 3], [0, 2]]).astype(dtype)
    x = x if np.dtype(dtype).kind == "u" else x - 4
    slope = np.array([2, 5], dtype)
    expected = np.where(x < 0, x * slope, x).astype(dtype)
    check(helper.make_node("PRelu", ["x", "slope"], ["y"]), {"x": x, "slope": slope}, expected=[expected])


@pytest.mark.parametrize("how", [{}, {"dynamic": True}, {"unranked": True}])
@pytest.mark.parametrize("opset", [9, 11, 13])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, None])
@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax(op_type: str, axis: int | None, opset: int, how: dict[str, bool]) -> None:
    if opset == 9 and axis is not None and axis < 0:
        axis = 0
    attributes = {} if axis is None else {"axis": axis}
    check(helper.make_node(op_type, ["x"], ["y"], **attributes), {"x": rand(2, 3, 4)}, opset=opset, **how)


def test_softmax_reads_well() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
    assert "x.softmax(-1)" in check(node, {"x": rand(2, 3)}, opset=9)
    assert "x.softmax(1)" in check(node, {"x": rand(2, 3, 1, 1)}, opset=9)
    assert "x.softmax(1)" in check(node, {"x": rand(2, 3, 4)}, opset=13)
    assert "x.flatten(1).softmax(-1).view_as(x)" in check(node, {"x": rand(2, 3, 4)}, opset=9)


def test_hardmax_takes_the_first_of_equals() -> None:
    x = np.array([[1, 3, 3, 2], [5, 5, 5, 5]], np.float32)
    check(helper.make_node("Hardmax", ["x"], ["y"]), {"x": x}, opset=13)


@pytest.mark.parametrize("opset", [7, 10, 12, 13])
@pytest.mark.parametrize("mask", [False, True])
def test_dropout_does_nothing_when_predicting(opset: int, mask: bool) -> None:
    node = helper.make_node("Dropout", ["x"], ["y", "mask"][: 1 + mask])
    # ONNX does not say what the mask is when nothing is dropped; before opset 12 ONNX Runtime has it the other way.
    x = rand(3, 4)
    kept = np.ones_like(x, np.float32 if opset < 10 else np.bool_)
    assert "nn.Dropout()" in check(node, {"x": x}, opset=opset, expected=[x, kept][: 1 + mask])
    inputs = {"x": rand(3, 4), "ratio": np.array(0.3, np.float32), "training": np.array(False)}
    if opset >= 12:
        node = helper.make_node("Dropout", list(inputs), ["y", "mask"][: 1 + mask])
        assert "nn.Dropout(0.3)" in check(node, inputs, opset=opset, constants=["ratio", "training"])
        check(node, inputs, opset=opset)


@pytest.mark.parametrize("constants", [["ratio", "training"], ["ratio"], []])
@pytest.mark.parametrize("seed", [None, 7, -1])
def test_dropout_while_training(constants: list[str], seed: int | None) -> None:
    inputs = {"x": rand(40, 50), "ratio": np.array(0.25, np.float32), "training": np.array(True)}
    attributes = {} if seed is None else {"seed": seed}
    node = helper.make_node("Dropout", list(inputs), ["y", "mask"], **attributes)
    module = onnxlift.lift(model_of([node], inputs, 13, constants)).module()
    fed = [torch.from_numpy(v) for k, v in inputs.items() if k not in constants]
    (y, mask), (_, again) = module(*fed), module(*fed)
    torch.testing.assert_close(y, torch.where(mask, fed[0] / 0.75, 0.0))
    assert 0.7 < mask.float().mean() < 0.8
    assert torch.equal(mask, again) is (seed is not None)
    if seed is not None:  # as ONNX's reference draws, which knows no negative seeds
        drawn = np.random.RandomState(seed % 2**32).uniform(size=(40, 50))
        np.testing.assert_array_equal(mask, drawn >= 0.25)


@pytest.mark.parametrize("opset", [1, 6, 7, 12, 22])
def test_dropout_is_live_in_train_mode(opset: int) -> None:
    inputs = {"x": rand(40, 50), "ratio": np.array(0.25, np.float32), "training": np.array(True)}
    node = helper.make_node(
        "Dropout", list(inputs) if opset >= 12 else ["x"], ["y"], **({"ratio": 0.25} if opset < 12 else {})
    )
    used = {name: inputs[name] for name in node.input}
    lifted = onnxlift.lift(model_of([node], used, opset, [name for name in used if name != "x"]))
    x = torch.from_numpy(inputs["x"])
    assert torch.equal(lifted.module()(x), x)
    y = lifted.module(train=True)(x)
    assert 0.7 < (y != 0).float().mean() < 0.8
    torch.testing.assert_close(y, torch.where(y != 0, x / 0.75, 0.0))
    assert len(lifted.report.warnings) == (opset != 7)  # which says nothing of training


ACTIVATIONS = """Celu Dropout Elu Gelu HardSigmoid HardSwish Hardmax LeakyRelu LogSoftmax Mish PRelu Relu Selu Shrink
Sigmoid Softmax Softplus Softsign Swish Tanh ThresholdedRelu""".split()
OFFICIAL = [case for case in official_cases(*ACTIVATIONS) if len(case.values[0].model.graph.node) == 1]


@pytest.mark.parametrize("case", OFFICIAL)
def test_official(case: Any) -> None:
    check_official(case)
