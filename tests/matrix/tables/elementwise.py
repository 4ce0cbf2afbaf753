"""Arithmetic, comparison, logic, activations and conversions: one number after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from lifting.ops.standard.math.test_activation import UNARY as ACTIVATIONS
from matrix.case import ELEMENTS, Array, Row, Schema, each, floats, row, some

# Where the numbers of an operator with one input lie.
UNARY: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("Abs", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Neg", "Round"), (-4, 4)),
    **dict.fromkeys(("Sign", "Sin", "Sinh", "Tan", "Asinh", "Not", "BitwiseNot", "Softplus", "Softsign"), (-4, 4)),
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh", "HardSwish", "Mish", "Gelu", "Elu", "Selu", "Celu"), (-4, 4)),
    **dict.fromkeys(("LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Shrink", "Swish"), (-4, 4)),
    **dict.fromkeys(("Acos", "Asin"), (-1, 1)),
    **dict.fromkeys(("Log", "Sqrt", "Reciprocal"), (0.2, 4)),
    "Acosh": (1, 5),
    "Atanh": (-0.9, 0.9),
}
SPECIAL = np.array([[np.nan, np.inf, -np.inf], [0.0, -1.5, 3e38]], np.float32)


def unary(low: float, high: float) -> list[Row]:
    shapes = [each(3, 1, 5, low=low, high=high), some(0, 4, low=low, high=high), some(low=low, high=high)]
    return [row(shape) for shape in shapes]


def aligned(function: Callable[..., Array], axis: int | None = None) -> Callable[..., Array]:
    """As operators did before opset 7: the second input lines up with the first from `axis` on."""

    def apply(a: Array, b: Array) -> Array:
        start = a.ndim - b.ndim if axis is None else axis
        return function(a, b.reshape(b.shape + (1,) * (a.ndim - start - b.ndim))).astype(function(a, b.flat[0]).dtype)

    return apply


def binary(function: Callable[..., Array] | None = None, **numbers: Any) -> list[Row]:
    """Equal shapes at all revisions; broadcasting both ways from opset 7, and as an attribute asks before."""
    rows = [
        row(each(3, 2, **numbers), each(3, 2, **numbers)),
        row(each(3, 1, 5, **numbers), each(4, 1, **numbers), since=7),
        row(some(**numbers), some(2, 3, **numbers), since=7),
        row(some(0, 3, **numbers), some(3, **numbers), since=7),
    ]
    if function is not None:
        a, b = some(2, 3, 4, **numbers), some(3, **numbers)
        rows += [
            row(a, b, broadcast=1, axis=1, expected=aligned(function, 1)),
            row(a, some(3, 4, **numbers), broadcast=1, expected=aligned(function)),
            row(some(2, 3, **numbers), some(2, 3, **numbers), until=6, expected=function),
        ]
    return rows


def variadic(function: Callable[..., Array] | None = None) -> list[Row]:
    def fold(*arrays: Array) -> Array:
        assert function is not None
        result = arrays[0]
        for array in arrays[1:]:
            result = function(result, array)
        return result

    first = [row(some(2, 3), some(2, 3), some(2, 3), until=7, expected=fold)] if function is not None else []
    return [
        *first,
        row(each(2, 3)),
        row(each(2, 3), each(2, 3), each(2, 3)),
        row(each(3, 1, 5), each(4, 1), each(1), since=8),
        row(some(0, 3), some(1), since=8),
    ]


def mean(*arrays: Array) -> Array:
    return (sum(array.astype(np.float64) for array in arrays) / len(arrays)).astype(arrays[0].dtype)


def slopes(x: Array, slope: Array) -> Array:
    """PRelu before opset 7: one slope for each channel, or one for all."""
    return np.where(x < 0, x * slope.reshape(-1, *[1] * (x.ndim - 2)), x).astype(x.dtype)


def casts_to(name: str) -> Callable[[Schema], bool]:
    return lambda schema: name in schema.outputs[0].types


NUMBERS = [name for name in ELEMENTS if "complex" not in name and "e8m0" not in name]
NUMBER = {name: int(onnx.helper.np_dtype_to_tensor_dtype(dtype)) for name, dtype in ELEMENTS.items()}
DIGITS = np.array(["1", "-2.5", "3e2", "inf", "0"], object)


def small(name: str) -> dict[str, float]:
    """Where the numbers lie that fit into the type: negative ones are undefined for unsigned integers."""
    return {"low": 0 if "uint" in name or "bool" in name else -1.9, "high": 1.9}


CASTS = [
    *(row(some(3, 5, **small(to)), to=NUMBER[to], when=casts_to(to)) for to in NUMBERS),
    *(
        row(each(3, 5, low=0, high=1.9, without=("string",)), to=NUMBER[f"tensor({to})"])
        for to in ("float", "int64", "bool")
    ),
    *(
        row(each(3, 5, low=0, high=3, without=("string",)), to=NUMBER[f"tensor({to})"], since=6)
        for to in ("double", "uint8", "float16")
    ),
    *(row(some(0, 3), to=NUMBER[f"tensor({to})"]) for to in ("int32", "bool")),
    *(row(DIGITS, to=NUMBER[f"tensor({to})"], since=9) for to in ("float", "double")),
    row(floats(2, 3), to="INT32", expected=lambda x: x.astype(np.int32)),
    row(floats(2, 3), to="DOUBLE", expected=lambda x: x.astype(np.float64)),
    *(
        row(
            floats(4, 5, low=-1e5, high=1e5),
            to=NUMBER[f"tensor({to})"],
            saturate=saturate,
            when=casts_to(f"tensor({to})"),
        )
        for to in ("float8e4m3fn", "float8e5m2", "float8e4m3fnuz", "float8e5m2fnuz")
        for saturate in (0, 1)
    ),
    *(
        row(floats(4, 5, low=0, high=60), to=NUMBER["tensor(float8e8m0)"], round_mode=mode)
        for mode in ("up", "down", "nearest")
    ),
]
CASTS_LIKE = [
    row(each(3, 5, low=0, high=1.9, without=("string",)), some(1)),
    row(some(3, 5, low=0, high=1.9), each(1)),
    row(some(0, 3), np.zeros(1, np.int32)),
    row(floats(4, 5, low=-1e5, high=1e5), np.zeros(1, ELEMENTS["tensor(float8e4m3fn)"]), saturate=0),
]
SAME_BITS = [("float", "int32"), ("int32", "float"), ("double", "uint64"), ("int64", "double"), ("uint8", "int8")]
SAME_BITS += [("float16", "bfloat16"), ("bfloat16", "uint16"), ("int8", "float8e4m3fn"), ("float8e5m2", "uint8")]


def numbers_of(name: str) -> Array:
    return np.arange(-6, 6).reshape(3, 4).astype(ELEMENTS[f"tensor({name})"])


ROWS: dict[str, list[Row]] = {
    **{op: unary(low, high) for op, (low, high) in UNARY.items()},
    **{op: binary(getattr(np, name)) for op, name in (("Add", "add"), ("Sub", "subtract"), ("Mul", "multiply"))},
    "Div": binary(np.divide, nonzero=True),
    "Pow": [*binary(np.power, low=0.3, high=3), row(each(2, 3, low=1, high=4), each(2, 3, low=1, high=3), since=12)],
    **{op: binary(getattr(np, f"logical_{op.lower()}")) for op in ("And", "Or", "Xor")},
    **{op: binary(getattr(np, op.lower())) for op in ("Equal", "Greater", "Less")},
    "GreaterOrEqual": binary(),
    "LessOrEqual": binary(),
    **{op: binary() for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
    "BitShift": [
        row(each(3, 1, 5, low=0, high=100), each(4, 1, low=0, high=7), direction=direction)
        for direction in ("LEFT", "RIGHT")
    ],
    "Mod": [
        row(each(3, 1, 5, low=-9, high=9), each(4, 1, low=1, high=5), fmod=1),
        row(each(3, 1, 5, low=-9, high=9), each(4, 1, low=1, high=5), since=28),
        *(row(np.arange(-9, 9, dtype=t), np.full(1, d, t)) for t in (np.int8, np.int32, np.int64) for d in (4, -4)),
        row(np.arange(9, dtype=np.uint8), np.full(1, 4, np.uint8)),
        row(np.zeros((0, 3), np.int32), np.full(1, 4, np.int32)),
    ],
    "Sum": variadic(np.add),
    "Max": variadic(np.maximum),
    "Min": variadic(np.minimum),
    "Mean": [
        *variadic()[:2],
        row(each(3, 1, 5), each(4, 1), each(1), since=8, expected=mean),
        row(floats(2, 3), floats(2, 3, seed=1), until=7, expected=mean),
    ],
    "Clip": [
        *(row(some(3, 5), **limits, asked=6) for limits in ({"min": -1.5, "max": 2.0}, {"min": -1.5}, {"max": 0.5})),
        row(some(3, 5), since=6),
        row(each(3, 5, low=0, high=9), each(low=2, high=3), each(low=5, high=6)),
        row(each(3, 5, low=0, high=9), None, each(low=5, high=6)),
        row(each(3, 5, low=0, high=9), each(low=2, high=3)),
        row(some(0, 5), some(low=2, high=3)),
        row(floats(3, 5), np.float32(2).reshape(()), np.float32(-2).reshape(())),
    ],
    "PRelu": [
        row(some(2, 3, 4), some(3), until=6, expected=slopes),
        row(some(2, 3, 4), some(1), until=6, expected=slopes),
        row(each(2, 3, 4), each(3, 1), since=7),
        row(each(2, 3, 4), each(1), since=7),
        row(some(0, 3), some(3), since=7),
    ],
    "IsNaN": [row(SPECIAL), row(each(3, 5)), row(some(0, 4))],
    "IsInf": [
        *(row(SPECIAL, detect_positive=p, detect_negative=n) for p in (0, 1) for n in (0, 1)),
        row(SPECIAL.astype(np.float64)),
        row(each(3, 5)),
        row(some(0, 4)),
    ],
    "Where": [
        row(some(3, 1, 5), each(4, 1), each(5)),
        row(some(), each(2, 3), each(2, 3)),
        row(some(0, 3), some(3), some(1)),
    ],
    "SwiGLU": [row(each(3, 5), each(3, 5)), row(some(2, 3), some(2, 3), alpha=1.7), row(some(0, 3), some(0, 3))],
    "Cast": CASTS,
    "CastLike": CASTS_LIKE,
    "BitCast": [
        row(numbers_of(source), to=NUMBER[f"tensor({to})"], expected=lambda x, to=to: x.view(ELEMENTS[f"tensor({to})"]))
        for source, to in SAME_BITS
    ],
}
for op_type, _, attributes, _ in ACTIVATIONS:
    if attributes:
        ROWS[op_type].append(row(each(3, 4), **attributes))
ROWS["Swish"].append(row(each(3, 4), alpha=1.7))
ROWS["Selu"][:3] = [replace(item, since=6) for item in ROWS["Selu"][:3]]  # the defaults got more digits then
