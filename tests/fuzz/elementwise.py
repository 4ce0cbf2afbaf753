"""Templates of operators that work element by element, with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import helper

from fuzz.builder import Builder, UnsuitableError, Value

UNARY: dict[str, int] = {  # operator -> the opset that brought it
    **dict.fromkeys("Abs Neg Exp Floor Ceil Sign Sin Cos Tan Atan Sinh Cosh Asinh Tanh Sigmoid Relu".split(), 9),
    **dict.fromkeys("Softplus Softsign Erf Identity Dropout Reciprocal Sqrt Log Asin Acos Acosh Atanh".split(), 9),
    "Round": 11,
    "HardSwish": 14,
    "Mish": 18,
    "Swish": 24,
}
UNARY_WITH_ALPHA = {"LeakyRelu": 9, "Elu": 9, "Selu": 9, "Celu": 12, "ThresholdedRelu": 10, "HardSigmoid": 9}
POSITIVE = {"Sqrt", "Log", "Reciprocal"}
WITHIN_ONE = {"Asin", "Acos", "Atanh"}
ABOVE_ONE = {"Acosh"}
ARITHMETIC = "Add Sub Mul Div Add Mul Pow Min Max Mod PRelu".split()
COMPARISONS = {"Equal": 9, "Greater": 9, "Less": 9, "GreaterOrEqual": 12, "LessOrEqual": 12}
CASTS = [np.float32, np.float64, np.float16, np.int64, np.int32, np.bool_, np.int8, np.uint8, np.float32]
CASTS += [np.int16, np.uint16, np.uint32, np.uint64]


def unary(b: Builder) -> None:
    op_type = b.choose.choice([op for op, since in UNARY.items() if since <= b.opset])
    x = b.pick("f", empty=True)
    if op_type in POSITIVE:
        x = b.one("Add", b.one("Abs", x), b.constant(np.asarray(0.5, x.dtype)))
    elif op_type in WITHIN_ONE:
        x = b.one("Mul", b.one("Tanh", x), b.constant(np.asarray(0.9, x.dtype)))  # not where they are steep
    elif op_type in ABOVE_ONE:
        x = b.one("Exp", b.one("Abs", x))
    b.one(op_type, x)


def unary_with_alpha(b: Builder) -> None:
    op_type = b.choose.choice([op for op, since in UNARY_WITH_ALPHA.items() if since <= b.opset])
    alpha = b.choose.choice([None, 0.1, 0.7, 1.3])
    extra = {"beta": b.choose.choice([None, 0.3])} if op_type == "HardSigmoid" else {}
    b.one(op_type, b.pick("f"), alpha=alpha, **extra)


def integer_unary(b: Builder) -> None:
    b.one(b.choose.choice(["Abs", "Neg", "Sign", "Relu"]), b.pick("i"))


def gelu(b: Builder) -> None:
    b.one("Gelu", b.pick("f"), approximate=b.choose.choice([None, "none", "tanh"]))


def shrink(b: Builder) -> None:
    x = b.pick("f", where=lambda v: v.dtype != np.float64)  # which ONNX Runtime rounds to float32
    b.one("Shrink", x, lambd=b.choose.choice([None, 0.3]), bias=b.choose.choice([None, 0.2]))


def softmax(b: Builder) -> None:
    x = b.pick("f", ranks=range(1, 6))
    axis = b.choose.choice([None, *range(-x.rank if b.opset >= 11 else 0, x.rank)])
    b.one(b.choose.choice(["Softmax", "Softmax", "LogSoftmax", "Hardmax"]), x, axis=axis)


def clip(b: Builder) -> None:
    x = b.pick("f" if b.opset < 12 else "fi")
    low, high = b.choose.choice([(-1.0, 1.0), (0.0, 6.0), (None, 0.5), (-0.5, None), (None, None), (1.0, -1.0)])
    if b.opset < 11:
        if low is not None and high is not None and low > high:
            raise UnsuitableError
        b.one("Clip", x, min=low, max=high)
        return
    bounds = [None if v is None else b.operand(np.asarray(v).astype(x.dtype)) for v in (low, high)]
    while bounds and bounds[-1] is None:
        bounds.pop()
    b.node("Clip", [x, *bounds])


def broadcastable(b: Builder, x: Value) -> tuple[int, ...]:
    """A shape that broadcasts with that of `x`, mostly without making it larger."""
    shape = [1 if b.choose.random() < 0.35 else size for size in x.shape]
    shape = shape[b.choose.randrange(len(shape) + 1) if b.choose.random() < 0.6 else 0 :]
    if b.choose.random() < 0.1:
        shape = [b.choose.choice([1, 2]), *shape]
    if b.choose.random() < 0.1 and len(shape) == x.rank and 1 in x.shape:
        shape[x.shape.index(1)] = 3
    return tuple(shape)


def fits(x: Value, y: Value) -> bool:
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return x.dtype == y.dtype and all(m == n or 1 in (m, n) for m, n in pairs)


def partner(b: Builder, x: Value, *, pooled: float = 0.5) -> Value:
    """A second operand for `x`: another value, or a weight."""
    if b.choose.random() < pooled:
        return b.pick(x.kind, where=lambda y: fits(x, y))
    return b.operand(b.like(x, broadcastable(b, x)), b.choose.choice(["weight", "bias", "scale", "const"]))


def arithmetic(b: Builder) -> None:
    op_type = b.choose.choice(ARITHMETIC)
    x = b.pick("f" if op_type in ("PRelu", "Pow") else "fi", empty=True)
    # Dividing integers by zero ends the whole process.
    y = partner(b, x, pooled=0 if op_type in ("Div", "Mod", "Pow", "PRelu") else 0.5)
    if op_type == "PRelu" and (not fits(x, y) or np.broadcast_shapes(x.shape, y.shape) != x.shape):
        raise UnsuitableError  # ONNX Runtime lets a slope enlarge x, which ONNX does not
    if op_type in ("Min", "Max") and x.kind == "i" and b.opset < 12:
        raise UnsuitableError
    if op_type == "Mod":
        if b.opset < 10:
            raise UnsuitableError
        b.one("Mod", x, y, fmod=1 if x.kind == "f" else b.choose.choice([None, 0, 1]))
        return
    if op_type == "Pow":
        x = b.one("Abs", x)
    elif op_type == "Div" and x.kind == "f":
        y = b.constant(np.where(np.abs(y.array) < 0.3, y.array.dtype.type(0.5), y.array))
    swap = op_type in ("Add", "Sub", "Mul", "Min", "Max") and b.choose.random() < 0.4
    b.one(op_type, *((y, x) if swap else (x, y)))


def power_of_constant(b: Builder) -> None:
    exponent = b.choose.choice([2.0, 3.0, 1.0, 0.0, 0.5, -1.0, 2.5])
    x = b.pick("f")
    if exponent not in (2.0, 3.0, 1.0, 0.0):
        x = b.one("Add", b.one("Abs", x), b.constant(np.asarray(1, x.dtype)))
    b.one("Pow", x, b.constant(np.asarray(exponent, x.dtype)))


def with_neutral_constant(b: Builder) -> None:
    """x + 0, x * 1 and the like, which passes may only remove where they do not broadcast."""
    x = b.pick("f")
    op_type = b.choose.choice(["Add", "Sub", "Mul", "Div"])
    value = 0.0 if op_type in ("Add", "Sub") else 1.0
    constant = b.constant(np.full(broadcastable(b, x), value, x.dtype))
    b.one(op_type, *((constant, x) if b.choose.random() < 0.3 and op_type != "Div" else (x, constant)))


def variadic(b: Builder) -> None:
    x = b.pick("f")
    others = [partner(b, x, pooled=0.8) for _ in range(b.choose.randrange(4))]
    b.one(b.choose.choice(["Sum", "Mean", "Max", "Min"]), x, *others)


def comparison(b: Builder) -> None:
    x = b.pick("fi")
    b.one(b.choose.choice([op for op, since in COMPARISONS.items() if since <= b.opset]), x, partner(b, x))


def logic(b: Builder) -> None:
    x = b.pick("b")
    op_type = b.choose.choice(["And", "Or", "Xor", "Not"])
    b.one(op_type, x) if op_type == "Not" else b.one(op_type, x, partner(b, x))


def bitwise(b: Builder) -> None:
    x = b.pick("iu")
    op_type = b.choose.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
    b.one(op_type, x) if op_type == "BitwiseNot" else b.one(op_type, x, partner(b, x))


def where(b: Builder) -> None:
    x = b.pick("fi")
    try:
        condition = b.pick("b", where=lambda c: _may_broadcast(c.shape, x.shape))
    except UnsuitableError:
        condition = b.operand(b.data.random(broadcastable(b, x)) < 0.5, "mask")
    y = partner(b, x)
    b.one("Where", condition, *((x, y) if b.choose.random() < 0.5 else (y, x)))


def _may_broadcast(first: Sequence[int], second: Sequence[int]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(first), reversed(second), strict=False))


def cast(b: Builder) -> None:
    x = b.pick("fibu", empty=True)
    cast_before = {node.output[0] for node in b.nodes if node.op_type in ("Cast", "CastLike")}
    for _ in range(b.choose.choice([1, 1, 2, 3])):
        dtype = np.dtype(b.choose.choice(CASTS))
        if x.dtype == np.float16 and dtype.kind != "f" and x.name in cast_before:
            raise UnsuitableError  # ONNX Runtime leaves out the first cast, even if it rounds
        if x.kind == "f" and dtype.kind == "u":
            x = b.one("Abs", x)  # what a negative number gives is left to the machine
        x = b.one("Cast", x, to=int(helper.np_dtype_to_tensor_dtype(dtype)))
        cast_before.add(x.name)


def cast_like(b: Builder) -> None:
    b.one("CastLike", b.pick("fib"), b.pick("fi"))


def is_special(b: Builder) -> None:
    op_type = b.choose.choice(["IsNaN", "IsInf"])
    x = b.pick("f", where=lambda v: op_type == "IsNaN" or (b.opset >= 10 and v.dtype != np.float16))
    b.one(op_type, x)


TEMPLATES = {
    unary: (9, 8),
    unary_with_alpha: (9, 2),
    integer_unary: (9, 1),
    gelu: (20, 1),
    shrink: (9, 1),
    softmax: (9, 2),
    clip: (9, 2),
    arithmetic: (9, 8),
    power_of_constant: (9, 1),
    with_neutral_constant: (9, 2),
    variadic: (9, 2),
    comparison: (9, 2),
    logic: (9, 3),
    bitwise: (18, 2),
    where: (9, 3),
    cast: (9, 3),
    cast_like: (15, 1),
    is_special: (9, 1),
}
"""Template -> (first opset, how often it is chosen)."""
