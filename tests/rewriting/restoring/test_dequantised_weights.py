"""Weights that are stored as integers and turned into numbers by a Cast and a Mul."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rewriting.idioms.recognising import Array, found, parse

RANDOM = np.random.default_rng(5)
LINEAR = "g (float[batch, 6] x) => (float[batch, 4] y) {{ f = Cast<to = 1>(W) {} y = MatMul(x, w) }}"
PLAIN, SHIFTED = LINEAR.format("w = Mul(f, s)"), LINEAR.format("d = Sub(f, z) w = Mul(s, d)")
DEQUANTISED = ["DequantizeLinear", "MatMul"]
LAYER = ["onnxlift.QuantizedLinear"]


def integers(*shape: int, dtype: type = np.int8) -> Array:
    return RANDOM.integers(0 if dtype == np.uint8 else -60, 60, shape).astype(dtype)


def steps(*shape: int) -> Array:
    return RANDOM.uniform(0.01, 0.1, shape).astype(np.float32)


def operators(text: str, opset: int = 18, **constants: Any) -> list[str]:
    """What is found in the graph; the lifted module computes what ONNX Runtime computes."""
    return found(parse(text, opset, **constants))


@pytest.mark.parametrize("scale", [steps(), steps(1), steps(1, 4), steps(4)], ids=["one", "list", "row", "columns"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_scale_for_all_or_for_each_output_is_that_of_a_layer(scale: Array, dtype: type) -> None:
    assert operators(PLAIN, W=integers(6, 4, dtype=dtype), s=scale) == LAYER


@pytest.mark.parametrize("zero", [np.float32(3), np.array([[1, 2, 3, 250]], np.float32)], ids=["one", "columns"])
@pytest.mark.parametrize("scale", [steps(), steps(1, 4)], ids=["one scale", "scales"])
def test_a_zero_point_is_an_integer(zero: Array, scale: Array) -> None:
    assert operators(SHIFTED, W=integers(6, 4, dtype=np.uint8), s=scale, z=zero) == LAYER


def test_scales_along_the_inputs_are_no_layer_but_dequantised() -> None:
    assert operators(PLAIN, W=integers(6, 4), s=steps(6, 1)) == DEQUANTISED


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        (SHIFTED, {"W": integers(6, 4), "s": steps(), "z": np.float32(0.5)}),
        (SHIFTED, {"W": integers(6, 4), "s": steps(), "z": np.float32(200)}),
        (SHIFTED, {"W": integers(6, 4), "s": steps(6, 1), "z": np.zeros((1, 4), np.float32)}),
        (PLAIN, {"W": integers(6, 4), "s": steps(6, 4)}),
        (PLAIN, {"W": integers(6, 1), "s": steps(1, 4)}),
        (PLAIN, {"W": integers(4), "s": steps(6, 4)}),
        (PLAIN, {"W": integers(6, 4).astype(np.int16), "s": steps()}),
    ],
    ids=["a fraction", "out of range", "two axes", "each its own", "a wider result", "more axes", "16 bits"],
)
def test_other_numbers_stay_arithmetic(text: str, constants: dict[str, Array]) -> None:
    assert "DequantizeLinear" not in operators(text, **constants)


def test_an_opset_without_axes_is_no_hindrance() -> None:
    """DequantizeLinear got an axis in opset 13, and blocks in 21. The node has the version that it needs."""
    assert operators(PLAIN, 12, W=integers(6, 4), s=steps(1, 4)) == LAYER


@pytest.mark.parametrize("number", [np.int8(3), integers(1, 4)], ids=["one", "columns"])
def test_a_zero_point_may_be_cast_as_the_weight_is(number: Array) -> None:
    text = SHIFTED.replace("d = Sub(f, z)", "c = Cast<to = 1>(z) d = Sub(f, c)")
    assert operators(text, W=integers(6, 4), s=steps(1, 4), z=np.asarray(number)) == LAYER


BLOCKS = """g (float[batch, 32] x) => (float[batch, 4] y)
    {{ f = Cast<to = 1>(W) {} r = Reshape(w, shape) {} y = MatMul(x, t) }}"""
TURN, SHAPE = "t = Transpose<perm = [1, 0]>(r)", np.array([4, 32])
BLOCK_LAYER = ["com.microsoft.MatMulNBits"]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_scale_for_each_block_of_features_is_that_of_a_layer(dtype: type) -> None:
    text = BLOCKS.format("w = Mul(f, s)", TURN)
    assert operators(text, W=integers(4, 2, 16, dtype=dtype), s=steps(4, 2, 1), shape=SHAPE) == BLOCK_LAYER


@pytest.mark.parametrize("zero", [np.float32(3), integers(4, 2, 1).astype(np.float32)], ids=["one", "by block"])
def test_a_zero_point_for_each_block(zero: Array) -> None:
    text = BLOCKS.format("d = Sub(f, z) w = Mul(d, s)", TURN)
    assert operators(text, W=integers(4, 2, 16), s=steps(4, 2, 1), z=zero, shape=SHAPE) == BLOCK_LAYER


def test_blocks_of_a_matrix_that_is_reshaped_for_them() -> None:
    text = BLOCKS.format("w = Mul(f, s)", TURN).replace(
        "f = Cast<to = 1>(W)", "c = Cast<to = 1>(W) f = Reshape(c, parts)"
    )
    parts = np.array([4, 2, 16])
    assert operators(text, W=integers(4, 32), s=steps(4, 2, 1), shape=SHAPE, parts=parts) == BLOCK_LAYER


def test_blocks_that_lie_along_the_first_axis() -> None:
    text = BLOCKS.format("w = Mul(f, s)", "t = Identity(r)")
    assert operators(text, W=integers(2, 16, 4), s=steps(2, 1, 4), shape=np.array([32, 4])) == BLOCK_LAYER


@pytest.mark.parametrize(
    ("weight", "scale", "shape"),
    [((4, 2, 16), (4, 1, 16), (4, 32)), ((4, 2, 16), (4, 2, 16), (4, 32)), ((2, 4, 16), (2, 4, 1), (4, 32))],
    ids=["by place in the block", "each its own", "other axes are joined"],
)
def test_other_scales_of_three_axes_stay_arithmetic(weight: Any, scale: Any, shape: Any) -> None:
    text = BLOCKS.format("w = Mul(f, s)", TURN)
    found = operators(text, W=integers(*weight), s=steps(*scale), shape=np.array(shape))
    assert found != BLOCK_LAYER and "DequantizeLinear" not in found


def test_numbers_that_somebody_else_reads_stay() -> None:
    text = PLAIN.replace("(float[batch, 4] y)", "(float[batch, 4] y, float[6, 4] f)")
    assert "DequantizeLinear" not in operators(text, W=integers(6, 4), s=steps())


def test_a_scale_or_weight_that_is_computed_stays() -> None:
    text = PLAIN.replace("g (", "g (float[1, 4] s, ")
    assert "DequantizeLinear" not in operators(text, W=integers(6, 4))
    text = PLAIN.replace("g (", "g (int8[6, 4] W, ")
    assert "DequantizeLinear" not in operators(text, s=steps())


TABLE = "g (int64[batch, seq] x) => (float[batch, seq, 4] y) { f = Cast<to = 1>(W) w = Mul(f, s) y = Gather(w, x) }"


@pytest.mark.parametrize("scale", [steps(), steps(1), steps(7, 1)], ids=["one", "list", "rows"])
def test_a_table_is_an_embedding(scale: Array) -> None:
    assert operators(TABLE, W=integers(7, 4), s=scale) == ["onnxlift.QuantizedEmbedding"]


def test_scales_along_the_columns_of_a_table_are_no_embedding() -> None:
    assert operators(TABLE, W=integers(7, 4), s=steps(4)) == ["DequantizeLinear", "Gather"]
