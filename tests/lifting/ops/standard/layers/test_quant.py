"""Quantisation."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import onnxlift
from lifting.ops.checking import check, check_official, model_of, official_cases

NODE = helper.make_node
RANGES = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}
OPERATORS = (
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "QLinearMatMul",
    "QLinearConv",
)


@pytest.mark.parametrize("case", official_cases(*OPERATORS, alone=True))
def test_official(case: Any) -> None:
    check_official(case)


def rand(*shape: int, scale: float = 5.0) -> np.ndarray:
    return np.random.default_rng(shape).normal(scale=scale, size=shape).astype(np.float32)


def integers(dtype: Any, *shape: int) -> np.ndarray:
    low, high = RANGES[np.dtype(dtype).name]
    return np.random.default_rng(shape).integers(low, high, shape, endpoint=True).astype(dtype)


def code(source: str) -> str:
    return next(line.strip() for line in source.splitlines() if line.startswith("        return "))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("constants", [(), ("scale", "zero")])
@pytest.mark.parametrize(("shape", "axis"), [((), 1), ((1,), 1), ((3,), 1), ((4,), -1), ((2,), 0)])
def test_quantize(dtype: str, constants: tuple[str, ...], shape: tuple[int, ...], axis: int) -> None:
    x = rand(2, 3, 4, scale=40.0)
    x.flat[0], x.flat[5] = 1e9, -1e9
    inputs = {"x": x, "scale": np.abs(rand(*shape)) * np.float32(0.05) + 0.01, "zero": integers(dtype, *shape)}
    inputs["scale"] = inputs["scale"].astype(np.float32)
    for dynamic in (False, True):
        node = NODE("QuantizeLinear", list(inputs), ["y"], axis=axis)
        check(node, inputs, opset=21, constants=constants, rtol=0, dynamic=dynamic)


def test_halves_go_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 300.0, -7.25], np.float32)
    inputs = {"x": x, "scale": np.float32(1.0), "zero": np.uint8(3)}
    source = check(NODE("QuantizeLinear", list(inputs), ["y"]), inputs, constants=["scale", "zero"], rtol=0)
    assert code(source) == "return quantize(x, self.scale, self.zero_point, self.zero_point.dtype)"


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("constants", [(), ("scale", "zero")])
@pytest.mark.parametrize(("shape", "axis"), [((), 1), ((1,), 1), ((3,), 1), ((4,), -1), ((2,), 0)])
def test_dequantize(dtype: str, constants: tuple[str, ...], shape: tuple[int, ...], axis: int) -> None:
    inputs = {"x": integers(dtype, 2, 3, 4), "scale": rand(*shape), "zero": integers(dtype, *shape)}
    for dynamic in (False, True):
        node = NODE("DequantizeLinear", list(inputs), ["y"], axis=axis)
        check(node, inputs, opset=21, constants=constants, rtol=0, atol=0, dynamic=dynamic)


def test_dequantize_reads_well() -> None:
    inputs = {"x": integers("uint8", 2, 3), "scale": np.float32(0.02), "zero": np.uint8(128)}
    source = check(NODE("DequantizeLinear", list(inputs), ["y"]), inputs, constants=["scale", "zero"])
    assert code(source) == "return dequantize(x, self.scale, self.zero_point.float())"


def test_pair_reads_well() -> None:
    inputs = {"x": rand(2, 3), "scale": np.float32(0.02), "zero": np.int8(-128)}
    nodes = [NODE("QuantizeLinear", list(inputs), ["q"]), NODE("DequantizeLinear", ["q", "scale", "zero"], ["y"])]
    source = check(nodes, inputs, constants=["scale", "zero"], rtol=0)
    assert code(source) == "return fake_quantize(x, self.scale, self.zero_point.float(), self.zero_point.dtype)"


@pytest.mark.parametrize("size", [6, 7])
@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_blocks(op: str, size: int) -> None:
    x = rand(2, size, 3) if op == "QuantizeLinear" else integers("int8", 2, size, 3)
    inputs = {"x": x, "scale": np.abs(rand(2, 3, 3)) + np.float32(0.01), "zero": integers("int8", 2, 3, 3)}
    block_size = -(-size // 3)
    for dynamic in (False, True):
        node = NODE(op, list(inputs), ["y"], axis=1, block_size=block_size)
        check(node, inputs, opset=21, reference=True, dynamic=dynamic, rtol=1e-6)


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("axis", [1, -2])
def test_unknown_rank(op: str, axis: int) -> None:
    scale, zero = np.abs(rand(3)) + np.float32(0.01), integers("int8", 3)
    x = rand(2, 3, 4, scale=40.0) if op == "QuantizeLinear" else integers("int8", 2, 3, 4)
    node = NODE(op, ["x", "scale", "zero"], ["y"], axis=axis)
    check(node, {"x": x, "scale": scale, "zero": zero}, constants=["scale", "zero"], unranked=True, rtol=0)


@pytest.mark.parametrize("block_size", [-1, 2, 2**40])
def test_blocks_that_do_not_fit(block_size: int) -> None:
    inputs = {"x": integers("int8", 9, 2), "scale": np.abs(rand(3, 2))}
    node = NODE("DequantizeLinear", list(inputs), ["y"], axis=0, block_size=block_size)
    with pytest.raises(onnxlift.UnsupportedError, match="blocks"):
        onnxlift.lift(model_of(node, inputs, 21))


@pytest.mark.parametrize("constants", [(), ("scale", "zero")])
@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz])
def test_eight_bit_floats(dtype: Any, saturate: int, constants: tuple[str, ...]) -> None:
    x = rand(5, 7, scale=300.0)
    x.flat[:4] = 1e9, -1e9, np.inf, np.nan
    inputs = {"x": x, "scale": np.float32(0.7), "zero": np.array(0, dtype)}
    node = NODE("QuantizeLinear", list(inputs), ["y"], saturate=saturate)
    check(node, inputs, opset=21, constants=constants, reference=True, rtol=0)


@pytest.mark.parametrize("precision", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_precision(precision: int) -> None:
    inputs = {"x": rand(5, 7), "scale": np.array(0.03, np.float16)}
    node = NODE("QuantizeLinear", list(inputs), ["y"], precision=precision, output_dtype=TensorProto.INT16)
    check(node, inputs, opset=23, reference=True, rtol=0)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
def test_four_bits(dtype: Any) -> None:
    inputs = {"x": rand(3, 4), "scale": np.float32(0.7), "zero": np.array(2, dtype)}
    nodes = [NODE("QuantizeLinear", list(inputs), ["q"]), NODE("DequantizeLinear", ["q", "scale", "zero"], ["y"])]
    check(nodes, inputs, opset=21, constants=["scale", "zero"], reference=True)


@pytest.mark.parametrize("precision", [np.float16, np.float32])
def test_half(precision: Any) -> None:
    inputs = {"x": rand(3, 4).astype(np.float16), "scale": np.array(0.03, precision), "zero": np.int8(-5)}
    if precision == np.float16:
        check(NODE("QuantizeLinear", list(inputs), ["y"]), inputs, opset=21, reference=True, rtol=0)
    back = {"x": integers("int8", 3, 4), "scale": inputs["scale"], "zero": inputs["zero"]}
    check(NODE("DequantizeLinear", list(back), ["y"]), back, opset=21, reference=True, rtol=0)


def test_output_type_without_zero_point() -> None:
    inputs = {"x": rand(3, 4, scale=90.0), "scale": np.float32(0.5)}
    node = NODE("QuantizeLinear", list(inputs), ["y"], output_dtype=TensorProto.INT8)
    check(node, inputs, opset=21, reference=True, rtol=0)


def test_int32_has_no_zero_point() -> None:
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 4)).astype(np.int32)
    check(NODE("DequantizeLinear", ["x", "scale"], ["y"]), {"x": x, "scale": np.float32(1e-4)}, opset=13)


@pytest.mark.parametrize(
    "x", [rand(3, 4), np.abs(rand(3, 4)) + 1, -np.abs(rand(3, 4)) - 1, np.zeros((2, 2), np.float32)]
)
def test_dynamic_quantize(x: np.ndarray) -> None:
    check(NODE("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"]), {"x": x})


@pytest.mark.parametrize("constants", [(), ("as", "az", "bs", "bz", "ys", "yz"), ("b", "bs", "bz")])
@pytest.mark.parametrize("columns", [(), (5,)])
def test_quantized_product(constants: tuple[str, ...], columns: tuple[int, ...]) -> None:
    inputs = {
        "a": integers("uint8", 2, 3, 70),
        "as": np.float32(0.02),
        "az": np.uint8(113),
        "b": integers("uint8", 70, 5),  # of int8, ONNX Runtime adds up with saturation on some processors
        "bs": np.abs(rand(*columns)) * np.float32(0.01) + np.float32(0.001),
        "bz": integers("uint8", *columns),
        "ys": np.float32(0.3),
        "yz": np.uint8(118),
    }
    inputs["bs"] = np.asarray(inputs["bs"], np.float32)
    check(NODE("QLinearMatMul", list(inputs), ["y"]), inputs, constants=constants, rtol=0)


@pytest.mark.parametrize("constants", [(), ("az", "bz", "ys", "yz")])
@pytest.mark.parametrize("result", [np.uint8, ml_dtypes.float8_e5m2])
def test_product_of_8_bit_floats(constants: tuple[str, ...], result: Any) -> None:
    """Neither ONNX Runtime nor the reference multiplies fractions."""
    inputs = {
        "a": rand(2, 3, 7).astype(ml_dtypes.float8_e4m3fn),
        "as": np.array([0.02, 0.3, 0.11], np.float32),
        "az": np.zeros(3, ml_dtypes.float8_e4m3fn),
        "b": rand(7, 5).astype(ml_dtypes.float8_e5m2),
        "bs": np.float32(0.7),
        "bz": np.array(0.25, ml_dtypes.float8_e5m2),
        "ys": np.float32(0.03),
        "yz": np.array(3, result),
    }
    wide = {name: np.asarray(value, np.float64) for name, value in inputs.items()}
    product = wide["a"] @ (wide["b"] - wide["bz"]) * (wide["as"][:, None] * wide["bs"] / wide["ys"])
    expected = np.clip(np.rint(product) + 3, 0, 255) if result == np.uint8 else product + 3
    check(NODE("QLinearMatMul", list(inputs), ["y"]), inputs, constants=constants, expected=[expected.astype(result)])


@pytest.mark.parametrize("constants", [(), ("w", "ws", "wz", "b"), ("xs", "xz", "w", "ws", "wz", "ys", "yz", "b")])
@pytest.mark.parametrize("channels", [(), (4,)])
def test_quantized_convolution(constants: tuple[str, ...], channels: tuple[int, ...]) -> None:
    inputs = {
        "x": integers("uint8", 2, 6, 7, 5),
        "xs": np.float32(0.02),
        "xz": np.uint8(113),
        "w": integers("uint8", 4, 3, 3, 2),
        "ws": np.asarray(np.abs(rand(*channels)) * 0.01 + 0.001, np.float32),
        "wz": np.full(channels, 131, np.uint8),
        "ys": np.float32(0.3),
        "yz": np.uint8(118),
        "b": np.random.default_rng(1).integers(-2000, 2000, 4).astype(np.int32),
    }
    node = NODE("QLinearConv", list(inputs), ["y"], group=2, pads=[1, 0, 2, 1], strides=[2, 1])
    check(node, inputs, opset=10, constants=constants, rtol=0)
