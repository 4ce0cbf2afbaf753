"""Conversions between element types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from lifting.ops.checking import check, check_official, official_cases

NODE = helper.make_node
NUMPY = [np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32]
SMALL = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "bfloat16", "float4_e2m1fn"]


@pytest.mark.parametrize("case", official_cases("Cast", "CastLike", alone=True))
def test_official(case: Any) -> None:
    check_official(case)


def onnx_type(dtype: Any) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


@pytest.mark.parametrize("source", [*NUMPY, np.uint64, np.bool_])
@pytest.mark.parametrize("target", [np.float16, np.float32, np.int8, np.int64, np.uint32, np.bool_])
def test_between_numbers(source: Any, target: Any) -> None:
    x = np.array([[0, 1, 2], [100, 33, 7]]).astype(source)
    check(NODE("Cast", ["x"], ["y"], to=onnx_type(target)), {"x": x}, expected=[x.astype(target)], rtol=0)


def test_integers_lose_their_upper_bits() -> None:
    x = np.array([200, -200, 70_000, -1, 2**40 + 5])
    for target in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.uint64):
        check(NODE("Cast", ["x"], ["y"], to=onnx_type(target)), {"x": x}, expected=[x.astype(target)], rtol=0)


def test_truth() -> None:
    x = np.array([0.0, -0.0, 0.25, -3.0, np.nan, np.inf], np.float32)
    check(NODE("Cast", ["x"], ["y"], to=TensorProto.BOOL), {"x": x})


def test_large_floats_become_infinite() -> None:
    x = np.array([1e6, -1e6, 65519.0, 65520.0, 1e-9], np.float32)
    check(NODE("Cast", ["x"], ["y"], to=TensorProto.FLOAT16), {"x": x})


def every_kind_of_float() -> np.ndarray:
    """Numbers of all magnitudes, halfway ones among them, and the special ones."""
    rng = np.random.default_rng(0)
    spread = rng.normal(size=20_000) * np.exp(rng.normal(size=20_000) * 6)
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 464, -464, 465, 248, 247, 61440, -61440, 57344, 448, 240]
    return np.concatenate([spread, np.arange(-600, 600) / 32, np.arange(0, 70_000, 32), special]).astype(np.float32)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("saturate", [True, False])
def test_to_small_floats(name: str, saturate: bool) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = every_kind_of_float()
    with np.errstate(all="ignore"):
        expected = numpy_helper.saturate_cast(x, dtype) if saturate and "float8" in name else x.astype(dtype)
    if name == "float4_e2m1fn":
        expected = np.where(np.isnan(x), 0, expected.astype(np.float32)).astype(dtype)  # its zero has either sign
    node = NODE("Cast", ["x"], ["y"], to=onnx_type(dtype), saturate=int(saturate))
    check(node, {"x": x}, opset=24, expected=[expected], rtol=0, atol=0)


@pytest.mark.parametrize("name", SMALL[:4])
@pytest.mark.parametrize("target", [np.float32, np.float16, np.int32])
def test_from_float8(name: str, target: Any) -> None:
    x = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name))
    x = x[np.isfinite(x.astype(np.float32))]
    check(NODE("Cast", ["x"], ["y"], to=onnx_type(target)), {"x": x}, expected=[x.astype(target)], rtol=0)


@pytest.mark.parametrize("round_mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_to_powers_of_two(round_mode: str, saturate: int) -> None:
    x = np.abs(every_kind_of_float())
    expected = numpy_helper.to_float8e8m0(x, bool(saturate), round_mode)
    node = NODE("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, saturate=saturate, round_mode=round_mode)
    check(node, {"x": x}, opset=24, expected=[expected], rtol=0, atol=0)


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_to_parts_of_a_byte(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    for x in (np.arange(-40, 40), np.arange(-40, 40).astype(np.float32) / 1.5):
        node = NODE("Cast", ["x"], ["y"], to=onnx_type(dtype))
        check(node, {"x": x}, opset=25, expected=[x.astype(dtype)], rtol=0)


def test_from_text() -> None:
    x = np.array(["1.5", "-2e-3", "INF", "+inf", "-INF", "NaN", "3"], object)
    expected = np.array([1.5, -2e-3, np.inf, np.inf, -np.inf, np.nan, 3], np.float32)
    check(NODE("Cast", ["x"], ["y"], to=TensorProto.FLOAT), {"x": x}, expected=[expected])
    x = np.array([["9007199254740993", "-4"], ["100.5", "+7"]], object)
    expected = np.array([[9007199254740993, -4], [100, 7]])
    check(NODE("Cast", ["x"], ["y"], to=TensorProto.INT64), {"x": x}, expected=[expected], rtol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
def test_to_text(dtype: Any) -> None:
    x = np.array([[0.1, 314.15926], [-2, 0]]).astype(dtype)
    expected = x.astype(np.str_).astype(object)
    check(NODE("Cast", ["x"], ["y"], to=TensorProto.STRING), {"x": x}, expected=[expected])


def test_special_numbers_to_text() -> None:
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    check(NODE("Cast", ["x"], ["y"], to=TensorProto.STRING), {"x": x})


def test_type_by_name_in_the_first_opset() -> None:
    x = np.array([1.5, -2.5], np.float32)
    check(NODE("Cast", ["x"], ["y"], to="INT32"), {"x": x}, opset=1, expected=[x.astype(np.int32)])


def test_like() -> None:
    inputs = {"x": np.array([1.5, -2.5], np.float32), "like": np.zeros((0,), np.int64)}
    source = check(NODE("CastLike", ["x", "like"], ["y"]), inputs, reference=True)
    assert "return x.long()" in source
