"""Arithmetic, and arithmetic on sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import onnxlift
from lifting.ops.checking import check, check_official, official_cases

NODE = helper.make_node
UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Round Sign Sin Sinh Sqrt Tan"
)
OTHERS = "Add Sub Mul Div Mod Pow Sum Mean Max Min Clip BitShift BitwiseAnd BitwiseOr BitwiseXor BitwiseNot"
WIDE = (np.uint16, np.uint32, np.uint64)


@pytest.mark.parametrize("case", official_cases(*UNARY.split(), *OTHERS.split(), alone=True))
def test_official(case: Any) -> None:
    check_official(case)


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(shape).normal(scale=3, size=shape).astype(dtype)


def ints(*shape: int, dtype: Any = np.int64, low: int = -99, high: int = 99) -> np.ndarray:
    """Integers that are not 0, so that one can divide by them."""
    numbers = np.random.default_rng(shape).integers(low, high, shape)
    return np.where(numbers == 0, 7, numbers).astype(dtype)


def bits(*shape: int, dtype: Any, seed: int = 0) -> np.ndarray:
    """Unsigned integers from the whole range."""
    return np.random.default_rng(seed).integers(1, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


def last_line(source: str) -> str:
    return next(line.strip() for line in source.splitlines() if line.startswith("        return "))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8])
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
def test_binary_broadcasts_both_ways(op_type: str, dtype: Any) -> None:
    low = 1 if dtype == np.uint8 else -99
    make = rand if np.dtype(dtype).kind == "f" else lambda *s, dtype: ints(*s, dtype=dtype, low=low)
    inputs = {"a": make(3, 1, 5, dtype=dtype), "b": make(4, 1, dtype=dtype)}
    check(NODE(op_type, ["a", "b"], ["y"]), inputs, reference=True)


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Pow"])
@pytest.mark.parametrize(("shape", "axis"), [((3,), 1), ((2, 3), 0), ((3, 1), 1), ((4,), -1), ((), 1)])
def test_alignment_before_opset_7(op_type: str, shape: tuple[int, ...], axis: int) -> None:
    a, b = np.abs(rand(2, 3, 4)), np.abs(rand(*shape))
    aligned = b.reshape(shape + (1,) * (3 - axis % 3 - len(shape)))
    function = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power}[op_type]
    node = NODE(op_type, ["a", "b"], ["y"], broadcast=1, axis=axis)
    check(node, {"a": a, "b": b}, opset=6, expected=[function(a, aligned)])


def test_division_of_integers_rounds_towards_zero() -> None:
    inputs = {"a": np.array([7, -7, 7, -7]), "b": np.array([2, 2, -2, -2])}
    check(NODE("Div", ["a", "b"], ["y"]), inputs, expected=[np.array([3, -3, -3, 3])])
    check(NODE("Div", ["a", "b"], ["y"]), inputs, constants=["b"])
    check(NODE("Div", ["a", "b"], ["y"]), {"a": np.array(-7), "b": inputs["b"]}, constants=["a"])


def test_integers_wrap() -> None:
    inputs = {"a": np.array([100, -100, 127], np.int8), "b": np.array([100, -100, 1], np.int8)}
    check(NODE("Add", ["a", "b"], ["y"]), inputs, expected=[np.array([-56, 56, -128], np.int8)])


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"])
def test_unsigned(op_type: str, dtype: Any) -> None:
    a, b = bits(3, 40, dtype=dtype), bits(40, dtype=dtype, seed=1) >> (np.arange(40) % 15).astype(dtype)
    b = np.maximum(b, dtype(3))
    check(NODE(op_type, ["a", "b"], ["y"]), {"a": a, "b": b}, reference=True, rtol=0, atol=0)
    check(NODE(op_type, ["a", "b"], ["y"]), {"a": a, "b": b}, constants=["b"], reference=True, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", WIDE)
def test_unsigned_clip_and_sign(dtype: Any) -> None:
    x = bits(50, dtype=dtype)
    low, high = np.sort(x)[[10, 40]]
    nodes = NODE("Clip", ["x", "low", "high"], ["y"])
    check(nodes, {"x": x, "low": low, "high": high}, expected=[np.clip(x, low, high)], rtol=0)
    check(NODE("Sign", ["x"], ["y"]), {"x": x}, expected=[np.sign(x)])
    check(NODE("Abs", ["x"], ["y"]), {"x": x}, expected=[x], rtol=0)


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("constant", [(), ("a",), ("b",)])
def test_mod(fmod: int, constant: tuple[str, ...]) -> None:
    inputs = {"a": ints(4, 5), "b": ints(5)}
    check(NODE("Mod", ["a", "b"], ["y"], fmod=fmod), inputs, constants=constant)
    scalars = {**inputs, **{name: np.array({"a": -17, "b": 5}[name]) for name in constant}}
    check(NODE("Mod", ["a", "b"], ["y"], fmod=fmod), scalars, constants=constant)


@pytest.mark.parametrize("base", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("exponent", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("constants", [(), ("e",)])
def test_pow_keeps_the_type_of_its_base(base: Any, exponent: Any, constants: tuple[str, ...]) -> None:
    inputs = {"x": ints(3, 4, low=1, high=6).astype(base), "e": np.array([0, 1, 2, 3], exponent)}
    check(NODE("Pow", ["x", "e"], ["y"]), inputs, constants=constants)
    check(NODE("Pow", ["x", "e"], ["y"]), {**inputs, "e": np.array(2, exponent)}, constants=constants)


def test_pow_of_integers_to_negative_and_fractional_powers() -> None:
    x = np.array([1, 2, -1, 9], np.int32)
    check(NODE("Pow", ["x", "e"], ["y"]), {"x": x, "e": np.array(-1, np.int32)}, constants=["e"])
    check(NODE("Pow", ["x", "e"], ["y"]), {"x": np.abs(x), "e": np.array(0.5, np.float32)}, constants=["e"])
    check(NODE("Pow", ["b", "x"], ["y"]), {"b": np.array(2.5, np.float32), "x": x}, constants=["b"])


def test_extremes_of_several_and_of_nan() -> None:
    a = rand(3, 4)
    a[1, 2] = np.nan
    inputs = {"a": a, "b": rand(4), "c": np.array(0.5, np.float32)}
    for op_type in ("Max", "Min"):
        assert "clamp(" in check(NODE(op_type, ["a", "b", "c"], ["y"]), inputs, constants=["c"])
        check(NODE(op_type, ["a", "b", "c"], ["y"]), inputs)
        check(NODE(op_type, ["a"], ["y"]), inputs, reference=True)


LIMITS = [("low", "high"), ("low", ""), ("", "high"), ("high", "low"), ("", "")]


@pytest.mark.parametrize("names", LIMITS)
@pytest.mark.parametrize("constants", [(), ("low",), ("high",), ("low", "high")])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_clip(names: tuple[str, str], constants: tuple[str, ...], dtype: Any) -> None:
    inputs = {"x": rand(5, 6).astype(dtype), "low": np.array(-2, dtype), "high": np.array(3, dtype)}
    used = {name: array for name, array in inputs.items() if name == "x" or name in names}
    check(NODE("Clip", ["x", *names], ["y"]), used, constants=[c for c in constants if c in used])


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"min": -1.0, "max": 6.0}, "x.clamp(-1, 6)"),
        ({"min": -1.5}, "x.clamp(min=-1.5)"),
        ({"max": 1.5}, "x.clamp(max=1.5)"),
        ({}, "x"),
    ],
)
def test_clip_by_attributes(attributes: dict[str, float], code: str) -> None:
    source = check(NODE("Clip", ["x"], ["y"], **attributes), {"x": rand(5, 6)}, opset=6)
    assert last_line(source) == f"return {code}"


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, *WIDE])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shift(dtype: Any, direction: str) -> None:
    x = bits(40, dtype=dtype)
    by = (np.arange(40) % 70).astype(dtype)
    check(
        NODE("BitShift", ["x", "by"], ["y"], direction=direction), {"x": x, "by": by}, opset=28, reference=True, rtol=0
    )


@pytest.mark.parametrize(
    ("op_type", "value", "code"),
    [
        ("Add", 1.0, "x + 1"),
        ("Mul", 0.5, "x * 0.5"),
        ("Div", 8.0, "x / 8"),
        ("Sub", -0.1, "x - -0.1"),
        ("Pow", 2.0, "x**2"),
        ("Pow", 0.5, "x**0.5"),
        ("Max", 0.0, "x.clamp(min=0)"),
        ("Mod", 3.0, "torch.fmod(x, 3)"),
    ],
)
def test_numbers_are_written_as_numbers(op_type: str, value: float, code: str) -> None:
    attributes = {"fmod": 1} if op_type == "Mod" else {}
    inputs = {"x": np.abs(rand(3, 4)), "c": np.array(value, np.float32)}
    source = check(NODE(op_type, ["x", "c"], ["y"], **attributes), inputs, constants=["c"])
    assert last_line(source) == f"return {code}"


def test_a_number_of_higher_rank_is_no_number() -> None:
    source = check(NODE("Add", ["x", "c"], ["y"]), {"x": rand(4), "c": rand(1, 1, 1)}, constants=["c"])
    assert "self." in last_line(source)


def test_half_precision_constants_are_exact() -> None:
    inputs = {"x": rand(50, dtype=np.float16), "c": np.array(0.1, np.float16)}
    check(NODE("Mul", ["x", "c"], ["y"]), inputs, constants=["c"], rtol=0, atol=0)


def test_empty_tensors() -> None:
    check(NODE("Add", ["a", "b"], ["y"]), {"a": rand(0, 3), "b": rand(3)})
    check(NODE("Max", ["a", "b"], ["y"]), {"a": rand(0, 3), "b": rand(1)})


# Arithmetic on sizes: x is (N, 3, L) and l the last of its sizes.

SIZES = {
    "y = Mul (l, two)": "x.shape[2] * 2",
    "y = Add (l, l)": "n + n",
    "d = Sub (l, nine)  z = Sub (nine, nine)  m = Mul (d, z)  y = Add (m, l)": "torch.tensor(x.shape[2]",
    "y = Div (l, two)": "x.shape[2] // 2",
    "d = Sub (l, nine)  y = Div (d, two)": "truncated_quotient(x.shape[2] - 9, 2)",
    "y = Mod (l, two)": "x.shape[2] % 2",
    "d = Sub (l, nine)  y = Abs (d)": "abs(x.shape[2] - 9)",
    "y = Max (l, two)": "max(x.shape[2], 2)",
    "y = Neg (l)": "-x.shape[2]",
    "y = Mul (l, less)": "-x.shape[2]",
    "m = Mul (less, l)  y = Add (nine, m)": "9 - x.shape[2]",
    "y = Pow (l, two)": "x.shape[2] ** 2",
    "f = Cast <to = 1> (l)  m = Mul (f, double)  g = Floor (m)  y = Cast <to = 7> (g)": "x.shape[2] * 2",
    "f = Cast <to = 1> (l)  m = Mul (f, half)  g = Floor (m)  y = Cast <to = 7> (g)": "math.floor(x.shape[2] * 0.5)",
    "f = Cast <to = 1> (l)  m = Div (f, double)  g = Ceil (m)  y = Cast <to = 7> (g)": "math.ceil(x.shape[2] / 2)",
    "f = Cast <to = 1> (l)  m = Mul (f, half)  y = Cast <to = 7> (m)": "int(x.shape[2] * 0.5)",
    "y = ReduceProd <keepdims = 0> (s)": "x.shape[0] * 3 * x.shape[2]",
    "g = Greater (l, two)  y = Where (g, l, two)": "n if n > 2 else 2",
}
PRELUDE = """<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,L] x) => (y) <int64 two = {2}, int64 nine = {9},
    int64 less = {-1}, float double = {2.0}, float half = {0.5}, float third = {0.020408163}> {
    s = Shape (x)  i = Constant <value_int = 2> ()  l = Gather (s, i) """


def size_model(nodes: str) -> onnx.ModelProto:
    return parser.parse_model(f"{PRELUDE} {nodes} }}")


@pytest.mark.parametrize("nodes", SIZES)
@pytest.mark.parametrize("length", [1, 7, 10])
def test_sizes_stay_python_numbers(nodes: str, length: int) -> None:
    source = check(size_model(nodes), {"x": rand(5, 3, length)})
    body = source[source.index("def forward") : source.index("def load")].replace(" ", "")
    assert SIZES[nodes].replace(" ", "") in body, source


@pytest.mark.parametrize("length", [48, 49, 50, 98])
def test_a_float32_product_of_a_size_is_rounded_as_float32(length: int) -> None:
    """49 * 0.020408163 is below 1 in float64, and 1 in float32."""
    nodes = "f = Cast <to = 1> (l)  m = Mul (f, third)  g = Floor (m)  y = Cast <to = 7> (g)"
    check(size_model(nodes), {"x": rand(5, 3, length)})


def test_lists_of_sizes_in_float64() -> None:
    nodes = """f = Cast <to = 11> (s)  tenth = Constant <value = double {0.1}> ()
        m = Mul (f, tenth)  g = Floor (m)  y = Cast <to = 7> (g)"""
    source = check(size_model(nodes), {"x": rand(25, 3, 39)})
    assert "(math.floor(x.shape[0] * 0.1), 0, math.floor(x.shape[2] * 0.1))" in source


def test_a_condition_on_sizes_chooses_between_tensors() -> None:
    nodes = """g = Greater (l, two)  m = Neg (x)  a = Where (g, x, m)
        f = Cast <to = 1> (l)  p = Greater (x, f)  b = Where (p, l, two)
        c = Cast <to = 1> (b)  y = Add (a, c)"""
    check(size_model(nodes), {"x": rand(5, 3, 3)})


def test_sizes_meet_tensors() -> None:
    nodes = "f = Cast <to = 1> (l)  q = Sqrt (f)  a = Div (x, q)  b = Mul (a, f)  y = Max (b, f)"
    check(size_model(nodes), {"x": rand(5, 3, 7)})


def test_unknown_attributes_are_not_lost() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Abs <a = 1> (x) }'
    )
    with pytest.raises(onnxlift.OnnxLiftError):
        onnxlift.lift(model)
