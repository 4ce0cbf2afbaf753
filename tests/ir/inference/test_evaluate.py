"""What the official suite does not say about evaluating a node (see `test_official_cases` for what it does)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnxlift.ir.inference.evaluate import evaluate

NUMBERS = np.array([[3, -1, 4], [1, -5, 9]], np.int32)


def value_of(op: str, *inputs: Any, opset: int = 18, **attributes: Any) -> Any:
    node = ir.node(op, [ir.Value() for _ in inputs], attributes)
    return evaluate(node, opset, list(inputs))


@pytest.mark.parametrize(
    "target", [np.float16, np.float32, np.float64, np.int8, np.int64, np.bool_, ml_dtypes.bfloat16]
)
@pytest.mark.parametrize("source", [np.float32, np.int32, np.bool_])
def test_casts(source: type, target: type) -> None:
    x = np.array([0.0, 1.75, -3.5, 100.25]).astype(source)
    result = value_of("Cast", x, to=int(ir.DataType.from_numpy(np.dtype(target))))
    assert result.dtype == target
    np.testing.assert_array_equal(result, x.astype(target))
    np.testing.assert_array_equal(value_of("CastLike", x, np.zeros(1, target)), result)


@pytest.mark.parametrize("x", [300.0, -129.0, np.nan, np.inf])
def test_a_cast_out_of_range_is_left_to_the_run(x: float) -> None:
    assert value_of("Cast", np.array([x], np.float32), to=int(ir.DataType.INT8)) is None


@pytest.mark.parametrize(("op", "function"), [("ReduceSum", np.sum), ("ReduceProd", np.prod), ("ReduceMax", np.max)])
def test_integers_are_reduced_in_their_own_type(op: str, function: Any) -> None:
    axes = np.array([-1])
    result = value_of(op, NUMBERS, axes)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, function(NUMBERS, axis=-1, keepdims=True))
    np.testing.assert_array_equal(value_of(op, NUMBERS, keepdims=0), function(NUMBERS))
    np.testing.assert_array_equal(value_of(op, NUMBERS, np.array([], np.int64), noop_with_empty_axes=1), NUMBERS)


def test_of_floats_only_extremes_are_found() -> None:
    floats = NUMBERS.astype(np.float16) / 3
    assert value_of("ReduceSum", floats) is None
    assert value_of("ReduceProd", floats) is None
    for op, function in (("ReduceMax", np.max), ("ReduceMin", np.min)):
        np.testing.assert_array_equal(value_of(op, floats, keepdims=0), function(floats))
        assert value_of(op, np.array([1, np.nan, 2], np.float32)) is None


def test_axes_are_attributes_in_old_operator_sets() -> None:
    np.testing.assert_array_equal(value_of("ReduceSum", NUMBERS, opset=11, axes=[0], keepdims=0), NUMBERS.sum(0))
    assert value_of("Unsqueeze", NUMBERS, opset=11, axes=[1]).shape == (2, 1, 3)
    np.testing.assert_array_equal(value_of("Slice", NUMBERS, opset=9, starts=[1], ends=[9], axes=[1]), NUMBERS[:, 1:])


def test_aligned_broadcasting_of_old_operator_sets_is_left_to_the_run() -> None:
    assert value_of("Add", NUMBERS, NUMBERS[:, 0], opset=6, broadcast=1, axis=0) is None


def test_operators_of_other_domains_are_not_those_of_onnx() -> None:
    assert evaluate(ir.node("Add", [ir.Value(), ir.Value()], domain="com.acme"), 18, [NUMBERS, NUMBERS]) is None


def test_scattered_elements() -> None:
    indices, updates = np.array([[1, 0], [-2, 2]]), np.array([7, 8], np.int32)
    np.testing.assert_array_equal(value_of("ScatterND", NUMBERS, indices, updates), [[3, -1, 8], [7, -5, 9]])
    rows = value_of("ScatterND", NUMBERS, np.array([[1]]), NUMBERS[:1])
    np.testing.assert_array_equal(rows, [[3, -1, 4], [3, -1, 4]])
    np.testing.assert_array_equal(NUMBERS, [[3, -1, 4], [1, -5, 9]])  # it is somebody's constant


@pytest.mark.parametrize(
    ("indices", "reduction"),
    [([[1, 0], [1, 0]], "none"), ([[1, 0], [-1, 0]], "none"), ([[1, 0], [9, 0]], "none"), ([[1, 0], [0, 0]], "add")],
    ids=["twice", "twice in other words", "out of range", "reduced"],
)
def test_scattered_elements_that_are_left_to_the_run(indices: list[list[int]], reduction: str) -> None:
    assert value_of("ScatterND", NUMBERS, np.array(indices), np.array([7, 8], np.int32), reduction=reduction) is None


def test_clip_takes_limits_as_inputs_or_attributes() -> None:
    x = np.array([-3, 0.5, 7, np.nan], np.float32)
    low, high = np.array(0, np.float32), np.array(2, np.float32)
    expected = np.array([0, 0.5, 2, np.nan], np.float32)
    np.testing.assert_array_equal(value_of("Clip", x, low, high), expected)
    np.testing.assert_array_equal(value_of("Clip", x, None, high), np.minimum(x, 2))
    np.testing.assert_array_equal(value_of("Clip", x, opset=6, min=0.0, max=2.0), expected)
    np.testing.assert_array_equal(value_of("Clip", x, high, low), np.array([0, 0, 0, np.nan], np.float32))


def test_elements_are_scattered_along_an_axis() -> None:
    data, indices = np.zeros((3, 4), np.float32), np.array([[0, -1], [2, 1]])
    updates = np.array([[1, 2], [3, 4]], np.float32)
    result = value_of("ScatterElements", data, indices, updates, axis=1)
    np.testing.assert_array_equal(result, [[1, 0, 0, 2], [0, 4, 3, 0], [0, 0, 0, 0]])
    assert not data.any()
