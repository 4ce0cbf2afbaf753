"""Convolutions against ONNX Runtime, with constant weights (layers) and computed ones (functions)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import onnxlift
from lifting.ops.checking import check, check_official, model_of, official_cases

CONV = [
    # spatial shape, channels in, out, kernel, attributes, what the source says with constant weights
    ((9,), 3, 4, (3,), {}, "nn.Conv1d(3, 4, 3)"),
    ((9, 8), 3, 4, (3, 3), {"pads": [1, 1, 1, 1]}, "nn.Conv2d(3, 4, 3, padding=1)"),
    ((9, 8), 3, 4, (3, 2), {"pads": [1, 0, 1, 0], "strides": [2, 1]}, "stride=(2, 1), padding=(1, 0)"),
    ((9, 8), 3, 4, (3, 2), {"pads": [0, 1, 2, 3]}, "F.pad(x, (1, 3, 0, 2))"),
    ((9, 8), 4, 6, (3, 3), {"group": 2, "dilations": [2, 1]}, "dilation=(2, 1), groups=2"),
    ((9, 8), 3, 3, (3, 3), {"group": 3, "strides": [3, 3]}, "stride=3, groups=3"),
    ((5, 6, 7), 2, 3, (2, 3, 1), {"pads": [0, 1, 0, 0, 1, 0]}, "nn.Conv3d(2, 3, (2, 3, 1), padding=(0, 1, 0))"),
    ((9, 8), 3, 4, (3, 3), {"auto_pad": "SAME_UPPER"}, "padding=1"),
    ((9, 8), 3, 4, (4, 2), {"auto_pad": "SAME_UPPER"}, 'padding="same"'),
    ((9, 8), 3, 4, (4, 2), {"auto_pad": "SAME_LOWER"}, "F.pad("),
    ((9, 8), 3, 4, (4, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 3]}, "nn.Conv2d(3, 4, (4, 3), stride=(2, 3)"),
    ((9, 8), 3, 4, (4, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 3]}, "nn.Conv2d(3, 4, (4, 3), stride=(2, 3)"),
    ((9, 8), 3, 4, (3, 3), {"auto_pad": "VALID", "kernel_shape": [3, 3]}, "nn.Conv2d(3, 4, 3)"),
]


def _conv(rng: np.random.Generator, spatial: tuple[int, ...], channels: int, out: int, kernel: Any, group: int) -> Any:
    return {
        "x": rng.standard_normal((2, channels, *spatial), np.float32),
        "w": rng.standard_normal((out, channels // group, *kernel), np.float32),
        "b": rng.standard_normal(out, np.float32),
    }


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("spatial", "channels", "out", "kernel", "attributes", "text"), CONV)
def test_conv(spatial: Any, channels: int, out: int, kernel: Any, attributes: Any, text: str, bias: bool) -> None:
    inputs = _conv(np.random.default_rng(1), spatial, channels, out, kernel, attributes.get("group", 1))
    if not bias:
        del inputs["b"]
    node = helper.make_node("Conv", list(inputs), ["y"], **attributes)
    source = check(node, inputs, constants=[*inputs][1:], rtol=1e-4, atol=1e-5)
    assert (text if bias else "bias=False") in source
    assert "nn.Conv" not in check(node, inputs, opset=11, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("size", [7, 8, 9, 10])
def test_conv_pads_that_depend_on_the_size(auto_pad: str, size: int) -> None:
    inputs = _conv(np.random.default_rng(size), (size, size + 3), 2, 3, (3, 4), 1)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], auto_pad=auto_pad, strides=[2, 3])
    assert "pad_same(" in check(node, inputs, constants=["w", "b"], dynamic=True, rtol=1e-4, atol=1e-5)


def test_conv_of_an_empty_batch() -> None:
    inputs = _conv(np.random.default_rng(1), (5, 5), 2, 3, (3, 3), 1) | {"x": np.zeros((0, 2, 5, 5), np.float32)}
    check(helper.make_node("Conv", ["x", "w", "b"], ["y"]), inputs, constants=["w", "b"], dynamic=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_conv_of_other_types(dtype: type) -> None:
    inputs = {k: v.astype(dtype) for k, v in _conv(np.random.default_rng(1), (5, 6), 2, 3, (3, 3), 1).items()}
    tolerance = 1e-2 if dtype == np.float16 else 1e-9
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 0, 1, 0])
    check(node, inputs, constants=["w", "b"], reference=True, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"strides": [1]}, "strides has 1 numbers"),
        ({"strides": [0, 1]}, "must be 1 or more"),
        ({"kernel_shape": [2, 2]}, "its attribute kernel_shape is"),
        ({"auto_pad": "SOME"}, "auto_pad"),
    ],
)
def test_conv_refuses_what_makes_no_sense(attributes: Any, reason: str) -> None:
    inputs = _conv(np.random.default_rng(1), (5, 6), 2, 3, (3, 3), 1)
    model = model_of([helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)], inputs, 21, ["w", "b"])
    with pytest.raises(onnxlift.OnnxLiftError, match=reason):
        onnxlift.lift(model)


TRANSPOSED = [
    ((5,), (3,), {"strides": [2]}, "nn.ConvTranspose1d(4, 6, 3, stride=2)"),
    ((5, 4), (3, 3), {}, "nn.ConvTranspose2d(4, 6, 3)"),
    ((5, 4), (3, 2), {"strides": [2, 3], "pads": [1, 0, 1, 0]}, "padding=(1, 0)"),
    ((5, 4), (3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}, "output_padding=1"),
    ((5, 4), (3, 3), {"strides": [2, 2], "pads": [1, 1, 0, 1]}, "padding=1, output_padding=(1, 0)"),
    ((5, 4), (3, 3), {"strides": [2, 2], "pads": [0, 0, 1, 2]}, "F.pad("),
    ((5, 4), (5, 5), {"strides": [2, 2], "pads": [3, 3, 0, 1]}, "conv_transpose("),
    ((5, 4), (3, 3), {"group": 2, "dilations": [2, 2]}, "groups=2, dilation=2"),
    ((5, 4), (3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, "F.pad("),
    ((5, 4), (3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}, "padding=1, output_padding=1"),
    ((5, 4), (3, 3), {"strides": [2, 2], "output_shape": [10, 8]}, "padding=1, output_padding=1"),
    ((5, 4), (3, 3), {"strides": [2, 2], "output_shape": [9, 8], "auto_pad": "SAME_UPPER"}, "nn.ConvTranspose2d"),
    ((5, 4), (3, 3), {"strides": [2, 2], "output_shape": [12, 10]}, "nn.ConvTranspose2d"),
    ((3, 4, 5), (2, 3, 2), {"strides": [1, 2, 1]}, "nn.ConvTranspose3d(4, 6, (2, 3, 2), stride=(1, 2, 1))"),
]


def _transposed(spatial: tuple[int, ...], kernel: tuple[int, ...], group: int) -> Any:
    rng = np.random.default_rng(3)
    return {
        "x": rng.standard_normal((2, 4, *spatial), np.float32),
        "w": rng.standard_normal((4, 6 // group, *kernel), np.float32),
        "b": rng.standard_normal(6, np.float32),
    }


@pytest.mark.parametrize(("spatial", "kernel", "attributes", "text"), TRANSPOSED)
def test_conv_transpose(spatial: Any, kernel: Any, attributes: Any, text: str) -> None:
    inputs = _transposed(spatial, kernel, attributes.get("group", 1))
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)
    assert text in check(node, inputs, constants=["w", "b"], rtol=1e-4, atol=1e-5)
    assert "nn.Conv" not in check(node, inputs, opset=11, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER"])
@pytest.mark.parametrize("output_shape", [[9, 8], [10, 7], [11, 9]])
def test_conv_transpose_to_a_size_from_an_unknown_one(auto_pad: str, output_shape: list[int]) -> None:
    inputs = _transposed((5, 4), (3, 3), 1)
    attributes = {"strides": [2, 2], "output_shape": output_shape, "auto_pad": auto_pad}
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)
    check(node, inputs, constants=["w", "b"], dynamic=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 0, 2, 1]}, {"strides": [2, 1], "auto_pad": "SAME_UPPER"}])
@pytest.mark.parametrize("points", [[], ["x_zero"], ["x_zero", "w_zero"]])
@pytest.mark.parametrize("dynamic", [True, False])
def test_conv_integer(attributes: Any, points: list[str], dynamic: bool) -> None:
    rng = np.random.default_rng(4)
    inputs: dict[str, Any] = {
        "x": rng.integers(0, 255, (2, 3, 6, 5), np.uint8),
        "w": rng.integers(0, 255, (4, 3, 3, 2), np.uint8),
        "x_zero": np.array(131, np.uint8),
        "w_zero": np.array(7, np.uint8),
    }
    inputs = {k: v for k, v in inputs.items() if k in ("x", "w", *points)}
    node = helper.make_node("ConvInteger", list(inputs), ["y"], **attributes)
    check(node, inputs, constants=[k for k in inputs if k != "x"], dynamic=dynamic)
    check(node, inputs)


def test_conv_integer_with_a_zero_point_for_each_channel() -> None:
    rng = np.random.default_rng(4)
    x, w = rng.integers(0, 255, (2, 3, 6, 5), np.uint8), rng.integers(0, 255, (4, 3, 3, 2), np.uint8)
    zero = np.array([3, 250, 7, 0], np.uint8)
    wide = w.astype(np.int32) - zero.astype(np.int32).reshape(-1, 1, 1, 1)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32) - 9, (3, 2), axis=(2, 3))
    expected = np.einsum("nchwij,mcij->nmhw", windows, wide).astype(np.int32)
    node = helper.make_node("ConvInteger", ["x", "w", "x_zero", "w_zero"], ["y"])
    inputs = {"x": x, "w": w, "x_zero": np.array(9, np.uint8), "w_zero": zero}
    check(node, inputs, constants=["w", "x_zero", "w_zero"], expected=[expected])


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("offset_group", [1, 2])
@pytest.mark.parametrize("masked", [True, False])
def test_deform_conv(group: int, offset_group: int, masked: bool) -> None:
    rng = np.random.default_rng(5)
    inputs = {
        "x": rng.standard_normal((2, 4, 6, 5), np.float32),
        "w": rng.standard_normal((6, 4 // group, 3, 2), np.float32),
        "offset": 2 * rng.standard_normal((2, offset_group * 12, 3, 5), np.float32),
        "b": rng.standard_normal(6, np.float32),
        "mask": rng.random((2, offset_group * 6, 3, 5), np.float32),
    }
    if not masked:
        del inputs["mask"]
    attributes = {"strides": [2, 1], "pads": [1, 0, 1, 1], "group": group, "offset_group": offset_group}
    node = helper.make_node("DeformConv", list(inputs), ["y"], **attributes)
    check(node, inputs, constants=["w", "b"], reference=True, rtol=1e-4, atol=1e-5)


def test_deform_conv_of_transposed_inputs() -> None:
    rng = np.random.default_rng(6)
    inputs = {"x": rng.standard_normal((5, 6, 4, 2), np.float32), "w": rng.standard_normal((3, 4, 3, 2), np.float32)}
    inputs["offset"] = rng.standard_normal((4, 4, 12, 2), np.float32)
    nodes = [helper.make_node("Transpose", [name], [f"{name}_t"]) for name in ("x", "offset")]
    nodes.append(helper.make_node("DeformConv", ["x_t", "w", "offset_t"], ["y"]))
    check(nodes, inputs, constants=["w"], reference=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", official_cases("Conv", "ConvTranspose", "ConvInteger", "DeformConv"))
def test_official(case: Any) -> None:
    check_official(case)
