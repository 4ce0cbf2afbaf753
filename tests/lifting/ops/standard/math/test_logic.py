"""Comparisons, logic and choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, parser

from lifting.ops.checking import check, check_official, official_cases

NODE = helper.make_node
NAMES = "And Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not Or Where Xor"


@pytest.mark.parametrize("case", official_cases(*NAMES.split(), alone=True))
def test_official(case: Any) -> None:
    check_official(case)


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """From so small a range that equal ones meet."""
    return np.random.default_rng(seed).integers(0, 4, shape).astype(dtype)


def flags(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).random(shape) < 0.5


def last_line(source: str) -> str:
    return next(line.strip() for line in source.splitlines() if line.startswith("        return "))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("op_type", ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"])
def test_comparisons(op_type: str, dtype: Any) -> None:
    a, b = numbers(3, 1, 5, dtype=dtype), numbers(4, 1, dtype=dtype, seed=1)
    if np.dtype(dtype).kind == "u":
        a[0], b[:2] = np.iinfo(dtype).max, np.iinfo(dtype).max - 1  # negative, if taken for signed numbers
    check(NODE(op_type, ["a", "b"], ["y"]), {"a": a, "b": b}, reference=True)


@pytest.mark.parametrize("op_type", ["Equal", "Less", "Greater", "And", "Or", "Xor"])
def test_alignment_before_opset_7(op_type: str) -> None:
    logic = op_type in ("And", "Or", "Xor")
    dtype = np.int32 if op_type == "Equal" else np.float32
    a, b = (flags(2, 3, 4), flags(3)) if logic else (numbers(2, 3, 4, dtype=dtype), numbers(3, dtype=dtype))
    function = {
        "Equal": np.equal, "Less": np.less, "Greater": np.greater,
        "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
    }[op_type]  # fmt: skip
    node = NODE(op_type, ["a", "b"], ["y"], broadcast=1, axis=1)
    check(node, {"a": a, "b": b}, opset=6, expected=[function(a, b[:, None])])


@pytest.mark.parametrize(("value", "code"), [(True, "x"), (False, "~x")])
def test_comparison_with_a_flag(value: bool, code: str) -> None:
    source = check(NODE("Equal", ["x", "c"], ["y"]), {"x": flags(3, 4), "c": np.array(value)}, constants=["c"])
    assert last_line(source) == f"return {code}"


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int64, np.int32, np.uint64, np.bool_])
@pytest.mark.parametrize("constants", [(), ("a",), ("b",), ("a", "b")])
@pytest.mark.parametrize("rank", [0, 1])
def test_where_keeps_the_type(dtype: Any, constants: tuple[str, ...], rank: int) -> None:
    one = (1,) * rank
    inputs = {
        "c": flags(2, 3, 1),
        "a": np.full(one, 1, dtype) if "a" in constants else numbers(4, dtype=dtype),
        "b": np.full(one, 0, dtype) if "b" in constants else numbers(3, 4, dtype=dtype, seed=1),
    }
    check(NODE("Where", ["c", "a", "b"], ["y"]), inputs, constants=constants, reference=True)


def test_where_writes_numbers() -> None:
    inputs = {"c": flags(3, 4), "x": numbers(3, 4), "low": np.array(-1e9, np.float32)}
    source = check(NODE("Where", ["c", "low", "x"], ["y"]), inputs, constants=["low"])
    assert last_line(source) == "return torch.where(c, -1e9, x)"


def test_strings() -> None:
    a, b = np.array(["x", "", "yes", "é"], object), np.array(["x", "y", "no", "é"], object)
    check(NODE("Equal", ["a", "b"], ["y"]), {"a": a, "b": b}, expected=[a == b])
    c = np.array([True, False, False, True])
    check(NODE("Where", ["c", "a", "b"], ["y"]), {"c": c, "a": a, "b": b}, expected=[np.where(c, a, b)])


@pytest.mark.parametrize(("negative", "positive"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_is_infinite(negative: int, positive: int) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1.5], np.float32)
    check(NODE("IsInf", ["x"], ["y"], detect_negative=negative, detect_positive=positive), {"x": x})


def test_conditions_on_sizes() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[N, M] x) => (y, z, w) {
        s = Shape (x)  minus = Constant <value_int = -1> ()  never = Equal (s, minus)
        two = Constant <value_ints = [2, 9]> ()
        y = Where (never, two, s)
        more = Greater (s, two)  less = Less (s, two)  z = Or (more, less)
        same = Not (z)  other = Xor (same, more)  w = And (other, less) }"""
    )
    x = np.zeros((5, 9), np.float32)
    source = check(model, {"x": x})
    assert "-1" not in source  # no size is negative, so that nothing is left of `never`
