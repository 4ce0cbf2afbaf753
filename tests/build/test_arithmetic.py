"""Python's operators mean in a model what they mean in numpy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from onnxlift import build

INTS = np.array([-7, -3, -1, 1, 2, 3, 9], np.int32)
OTHERS = np.array([2, -2, 3, -4, 5, -1, 4], np.int32)
BOTH: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OF_INTS = {"%": operator.mod, "&": operator.and_, "|": operator.or_, "^": operator.xor}
OF_FLOATS = {"/": operator.truediv, "**": operator.pow, "@": operator.matmul}
ONE = (operator.neg, abs, operator.pos)


def computed(function: Callable[..., Any], *arrays: Any) -> Any:
    inputs = [build.input(f"x{i}", array.dtype, array.shape) for i, array in enumerate(arrays)]
    return build.model(inputs, {"y": function(*inputs)})(*arrays)["y"]


def same(actual: Any, expected: Any) -> None:
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("symbol", [*BOTH, *OF_INTS])
def test_operators_of_ints(symbol: str) -> None:
    function = {**BOTH, **OF_INTS}[symbol]
    same(computed(function, INTS, OTHERS), function(INTS, OTHERS))
    same(computed(lambda x: function(x, 3), INTS), function(INTS, np.int32(3)))
    same(computed(lambda x: function(-5, x), INTS), function(np.int32(-5), INTS))


@pytest.mark.parametrize("symbol", [*BOTH, *OF_FLOATS])
def test_operators_of_floats(symbol: str) -> None:
    function = {**BOTH, **OF_FLOATS}[symbol]
    a, b = np.abs(INTS.astype(np.float32)), OTHERS.astype(np.float32)
    same(computed(function, a, b), np.asarray(function(a, b)))
    if symbol != "@":
        same(computed(lambda x: function(x, 2.5), a), function(a, np.float32(2.5)))
        same(computed(lambda x: function(np.float32(2), x), a), function(np.float32(2), a))
        same(computed(lambda x: function(b, x), a), function(b, a))


@pytest.mark.parametrize("function", [operator.and_, operator.or_, operator.xor])
def test_operators_of_bools(function: Callable[[Any, Any], Any]) -> None:
    a, b = INTS > 0, OTHERS > 0
    same(computed(function, a, b), function(a, b))
    same(computed(lambda x: ~function(x, True), a), ~function(a, True))


@pytest.mark.parametrize("array", [INTS, INTS.astype(np.float32)], ids=["ints", "floats"])
def test_operators_of_one(array: Any) -> None:
    for function in ONE:
        same(computed(function, array), function(array))
    same(computed(operator.invert, INTS), ~INTS)


def test_not_a_number_compares_with_nothing() -> None:
    array = np.array([1, np.nan], np.float32)
    for opset in (11, 21):
        with build.opset(opset):
            same(computed(operator.le, array, array), np.array([True, False]))
            same(computed(lambda x: x >= 1.0, array), np.array([True, False]))


@pytest.mark.parametrize("opset", [1, 6])
def test_the_oldest_opsets_broadcast_the_second_operand(opset: int) -> None:
    with build.opset(opset):
        x, y = build.input("x", "float32", [2, 3]), build.input("y", "float32", [3])
        model = build.model([x, y], {"z": (x + y) * 2.0})
        newer = build.model([x, y], {"z": (x + y) * 2.0}, opset=13)
    assert [node.attributes["broadcast"].as_int() for node in model.model.graph] == [1, 1]
    a, b = INTS[:6].reshape(2, 3).astype(np.float32), OTHERS[:3].astype(np.float32)
    np.testing.assert_array_equal(newer(a, b)["z"], (a + b) * 2)


def test_constants_are_computed_at_once() -> None:
    y = (build.constant([1.0, 2.0]) * 3 + 1)[1:]
    x = build.input("x", "float32", [1])
    model = build.model([x], {"y": x + y}).model
    assert [node.op_type for node in model.graph] == ["Add"]
    assert [value.const_value.numpy().tolist() for value in model.graph.initializers.values()] == [[7.0]]
    named = build.constant([1.0, 2.0], name="kept") * 3
    assert "kept" in build.model([x], {"y": x + named}).model.graph.initializers
