"""Elementwise arithmetic: of one number, of two that broadcast, or of any number of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np

from onnxlift.ir.graph.types import FLOATS, INTEGERS, DataType
from onnxlift.lifting.code.expr import Expr, Local, torch
from onnxlift.lifting.code.statements import Assign
from onnxlift.lifting.ops import sizes
from onnxlift.lifting.ops.elementwise import STORED_ONLY, aligned, elementwise, through_int64
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.kinds import LayerKind, signature
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Constant, Dims, Operand, Scalar, Tensor
from onnxlift.lifting.ops.registry import op

from .cast import converted

LONGEST_ROW = 24
FLOAT32_MAX = float(np.finfo(np.float32).max)

UNARY: dict[str, Callable[[Expr], Expr]] = {
    "Acos": lambda x: x.acos(),
    "Acosh": lambda x: x.acosh(),
    "Asin": lambda x: x.asin(),
    "Asinh": lambda x: x.asinh(),
    "Atan": lambda x: x.atan(),
    "Atanh": lambda x: x.atanh(),
    "Cos": lambda x: x.cos(),
    "Cosh": lambda x: x.cosh(),
    "Exp": lambda x: x.exp(),
    "Log": lambda x: x.log(),
    "Reciprocal": lambda x: 1 / x,
    "Round": lambda x: x.round(),  # rounds halves to even, as ONNX does
    "Sin": lambda x: x.sin(),
    "Sinh": lambda x: x.sinh(),
    "Sqrt": lambda x: x.sqrt(),
    "Tan": lambda x: x.tan(),
}

ON_SIZES: dict[str, tuple[Callable[[Expr], Expr], Callable[[Scalar], Scalar]]] = {
    "Abs": (lambda x: x.abs(), sizes.absolute),
    "Ceil": (lambda x: x.ceil(), sizes.ceil),
    "Floor": (lambda x: x.floor(), sizes.floor),
    "Neg": (lambda x: -x, sizes.negative),
}

BINARY: dict[str, tuple[Callable[[Expr, Expr], Expr], Callable[[Scalar, Scalar], Scalar | None]]] = {
    "Add": (lambda a, b: a + b, sizes.add),
    "Sub": (lambda a, b: a - b, sizes.subtract),
    "Mul": (lambda a, b: a * b, sizes.multiply),
}


def _register_unary(name: str, function: Callable[[Expr], Expr]) -> None:
    @op(name, ignores=("consumed_inputs",))
    def lower(n: Node, X: Tensor) -> Result:
        return function(X)


def _register_on_sizes(name: str, function: Callable[[Expr], Expr], of_size: Callable[[Scalar], Scalar]) -> None:
    @op(name, ignores=("consumed_inputs",))
    def lower(n: Node, X: Operand) -> Result:
        if X.type.dtype in STORED_ONLY:
            return X  # only Abs takes unsigned numbers, and it does not change them
        return n.elementwise(function, X, sizes=of_size)


def _register_binary(
    name: str, function: Callable[[Expr, Expr], Expr], of_sizes: Callable[[Scalar, Scalar], Scalar | None]
) -> None:
    @op(name, ignores=("consumed_inputs",))
    def lower(n: Node, A: Operand, B: Operand, *, broadcast: int | None, axis: int | None) -> Result:
        return elementwise(n, function, A, aligned(n, A, B, broadcast, axis), sizes=of_sizes)


for _name, _function in UNARY.items():
    _register_unary(_name, _function)
for _name, (_function, _of_size) in ON_SIZES.items():
    _register_on_sizes(_name, _function, _of_size)
for _name, (_of_two, _of_sizes) in BINARY.items():
    _register_binary(_name, _of_two, _of_sizes)


@op("Sign")
def Sign(n: Node, input: Tensor) -> Result:
    return converted(input.bool(), input.type.dtype) if input.type.dtype in STORED_ONLY else input.sign()


@op("Erf")
def Erf(n: Node, input: Tensor) -> Result:
    """Integers are allowed too; the result is then of the same type."""
    if input.type.dtype in INTEGERS:
        return converted(input.float().erf(), input.type.dtype)
    return input.erf()


@op("Div", ignores=("consumed_inputs",))
def Div(n: Node, A: Operand, B: Operand, *, broadcast: int | None, axis: int | None) -> Result:
    """Integers round towards zero."""
    B = aligned(n, A, B, broadcast, axis)
    if A.type.dtype is None:
        return kernel("divide")(A, B)
    if A.type.dtype in FLOATS:
        return n.elementwise(lambda a, b: a / b, A, B, sizes=sizes.divide)
    if A.type.dtype == DataType.UINT64:
        return through_int64(kernel("uint64_quotient"), n.tensor(A), n.tensor(B))
    return elementwise(n, _quotient, _not_a_literal(A, B), B, sizes=sizes.divide)


def _quotient(a: Expr, b: Expr) -> Expr:
    return torch.div(a, b, rounding_mode="trunc")


@op("Mod")
def Mod(n: Node, A: Operand, B: Operand, *, fmod: int) -> Result:
    """`fmod=0`: the sign of the divisor, as Python's `%`; `fmod=1`: the sign of the dividend, as C's `fmod`."""
    if A.type.dtype == DataType.UINT64:
        return through_int64(kernel("uint64_remainder"), n.tensor(A), n.tensor(B))
    if not fmod:
        return elementwise(n, lambda a, b: a % b, A, B, sizes=sizes.remainder)

    def remainder(a: Expr, b: Expr) -> Expr:
        return torch.fmod(_tensor_of(n, a), b)

    return elementwise(n, remainder, _not_a_literal(A, B), B, sizes=_remainder_of_sizes)


def _remainder_of_sizes(a: Scalar, b: Scalar) -> Scalar | None:
    return sizes.remainder(a, b) if a.nonnegative and b.nonnegative else None


def _not_a_literal(operand: Operand, *others: Operand) -> Operand:
    """Return `operand` as a tensor even if it is a constant number, for functions of torch that need a tensor there.
    Among sizes it stays as it is, since they stay numbers."""
    among_sizes = any(isinstance(o, Scalar | Dims) for o in others)
    return Tensor(operand, operand.type) if isinstance(operand, Constant) and not among_sizes else operand


def _tensor_of(n: Node, operand: Expr) -> Expr:
    """Return the first operand of a torch function that needs a tensor there: a size is put into a tensor."""
    return n.tensor(operand) if isinstance(operand, Scalar) else operand


@op("Pow")
def Pow(n: Node, X: Operand, Y: Operand, *, broadcast: int | None, axis: int | None) -> Result:
    """The result has the type of the base, whatever the type of the exponent."""
    Y = aligned(n, X, Y, broadcast, axis)
    base, exponent = X.type.dtype, Y.type.dtype
    number = Y.number if isinstance(Y, Constant) else None
    if number is not None and (Y.type.rank or 0) <= (X.type.rank or 0):
        whole = float(number).is_integer()
        power = int(number) if whole else number
        if base in FLOATS or (whole and power >= 0):
            return n.elementwise(lambda x: x**power, X, sizes=lambda x: sizes.power(x, Scalar(power)))
    if exponent in STORED_ONLY:
        Y = Tensor(n.tensor(Y).long(), Y.type)
    if base == exponent:
        return n.elementwise(lambda a, b: a**b, X, _not_a_literal(Y), sizes=sizes.power)
    x, y = n.tensor(X), n.tensor(Y)
    if exponent in FLOATS:
        return converted(x**y if base in FLOATS else x.double() ** y, base)
    return x**y if base in FLOATS else converted(x**y, base)


@op("Sum", ignores=("consumed_inputs",))
def Sum(n: Node, *inputs: Tensor) -> Result:
    return _row(n, lambda a, b: a + b, n.numbers(*inputs))


@op("Mean", ignores=("consumed_inputs",))
def Mean(n: Node, *inputs: Tensor) -> Result:
    total = _row(n, lambda a, b: a + b, n.numbers(*inputs))
    return total / len(inputs) if len(inputs) > 1 else total


@op("Max", ignores=("consumed_inputs",))
def Max(n: Node, *inputs: Operand) -> Result:
    return elementwise(n, partial(_maximum, n), *inputs, sizes=sizes.maximum, ordered=True)


@op("Min", ignores=("consumed_inputs",))
def Min(n: Node, *inputs: Operand) -> Result:
    return elementwise(n, partial(_minimum, n), *inputs, sizes=sizes.minimum, ordered=True)


def _maximum(n: Node, *items: Expr) -> Expr:
    """Return the largest item, or NaN if one of them is NaN."""
    tensors, numbers = _split_numbers(items)
    return _row(n, lambda x, low: x.clamp(min=low), [_row(n, torch.maximum, tensors), *numbers])


def _minimum(n: Node, *items: Expr) -> Expr:
    tensors, numbers = _split_numbers(items)
    return _row(n, lambda x, high: x.clamp(max=high), [_row(n, torch.minimum, tensors), *numbers])


def _row(n: Node, function: Callable[[Expr, Expr], Expr], items: Sequence[Expr]) -> Expr:
    """Return `function` of the first two items, then of that and the third, and so on. After every `LONGEST_ROW` items
    a new line begins, because Python limits how deep parentheses may be nested."""
    result = items[0]
    for position, item in enumerate(items[1:], 1):
        if position % LONGEST_ROW == 0:
            line = Local("result")
            n.emit(Assign([line], result))
            result = line
        result = function(result, item)
    return result


def _split_numbers(items: tuple[Expr, ...]) -> tuple[list[Expr], list[Expr]]:
    return [i for i in items if isinstance(i, Tensor)], [i for i in items if not isinstance(i, Tensor)]


@op(
    "Clip",
    ignores=("consumed_inputs",),
    layer=LayerKind(
        "Hardtanh",
        signature("min_val", "max_val"),
        family="activation",
        function=("clamp", "min_val", "max_val"),
    ),
)
def Clip(n: Node, input: Operand, min: Operand | None, max: Operand | None) -> Result:
    """Until opset 10 the limits are attributes, with the largest numbers of float32 as defaults; then they are inputs.
    If they cross, the upper one wins, as in torch."""
    given = {"min": min, "max": max}
    limits = {name: limit for name, limit in given.items() if limit is not None and not _is_no_limit(n, name, limit)}

    def clamp(x: Expr, *bounds: Expr) -> Expr:
        x = _tensor_of(n, x)
        if len(bounds) == 2 and len({isinstance(b, Tensor) for b in bounds}) == 1:
            return x.clamp(*bounds)
        # There is one limit, or one is a number and the other a tensor, which torch does not take together.
        return reduce(lambda y, item: y.clamp(**{item[0]: item[1]}), zip(limits, bounds, strict=True), x)

    def clamp_size(x: Scalar, *bounds: Scalar) -> Scalar:
        for name, bound in zip(limits, bounds, strict=True):
            x = sizes.maximum(x, bound) if name == "min" else sizes.minimum(x, bound)
        return x

    if not limits:
        return input
    return elementwise(
        n, clamp, _not_a_literal(input, *limits.values()), *limits.values(), sizes=clamp_size, ordered=True
    )


def _is_no_limit(n: Node, name: str, limit: Operand) -> bool:
    """Tell whether a limit has no effect: it is infinite or, until opset 10, the default."""
    if not isinstance(limit, Constant) or limit.type.dtype not in FLOATS:
        return False
    numbers = limit.const.astype(np.float64)
    if n.opset < 11:
        return bool(np.all(np.abs(numbers) >= FLOAT32_MAX))
    return bool(np.all(numbers == (-np.inf if name == "min" else np.inf)))
