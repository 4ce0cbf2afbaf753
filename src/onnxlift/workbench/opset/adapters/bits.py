"""The bits of numbers.

- BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot: 18
- BitCast: 26
- BitShift: 28 (signed integers)
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ..spelling import INT64, reduce, unsqueeze
from ..step import Result, Step, Value, adapter

D = ir.DataType
_BITS = {D.INT8: 8, D.UINT8: 8, D.INT16: 16, D.UINT16: 16, D.INT32: 32, D.UINT32: 32, D.INT64: 64, D.UINT64: 64}
_SIGNED = (D.INT8, D.INT16, D.INT32, D.INT64)
_FLOATS = {D.FLOAT16: (5, 10), D.BFLOAT16: (8, 7), D.FLOAT: (8, 23), D.DOUBLE: (11, 52)}
"""How many bits the exponent has, and how many the fraction."""
_UNSIGNED = {8: D.UINT8, 16: D.UINT16, 32: D.UINT32, 64: D.UINT64}


@adapter("BitwiseNot", 18, 0)
def complement(s: Step, X: Value) -> Result:
    """All bits of x changed are `-1 - x`, or for numbers without a sign the largest number less x."""
    dtype = s.dtype(X)
    most = -1 if dtype in _SIGNED else np.iinfo(dtype.numpy()).max
    return s.Sub(s.array(most, dtype), X)


@adapter(["BitwiseAnd", "BitwiseOr", "BitwiseXor"], 18, 0)
def bit_by_bit(s: Step, A: Value, B: Value) -> Result:
    """The bits of both numbers as a new last axis: each is 0 or 1, so And is the product, and so on."""
    dtype = s.dtype(A)
    count = _BITS[dtype]
    if count < 64:
        return s.cast(_signed(s, _combined(s, A, B, count), dtype), dtype)
    half = s.array(32, D.UINT64)
    numbers = s.cast(A, D.UINT64), s.cast(B, D.UINT64)
    high = [s.BitShift(number, half, direction="RIGHT") for number in numbers]
    low = [
        s.Sub(number, s.BitShift(upper, half, direction="LEFT")) for number, upper in zip(numbers, high, strict=True)
    ]
    upper, lower = (s.cast(_combined(s, first, second, 32), D.UINT64) for first, second in (high, low))
    return s.cast(s.Add(s.BitShift(upper, half, direction="LEFT"), lower), dtype)


def _combined(s: Step, A: Value, B: Value, count: int) -> Value:
    """Return what the operator makes of the last bits of two integers, as an integer of 64 bits."""
    powers = s.array([2**place for place in range(count)])
    first, second = (_bits(s, value, count, powers) for value in (A, B))
    match s.node.op_type:
        case "BitwiseAnd":
            bits = s.Mul(first, second)
        case "BitwiseOr":
            bits = s.Sub(s.Add(first, second), s.Mul(first, second))
        case _:
            bits = s.Mod(s.Add(first, second), s.array(2))
    return reduce(s, "ReduceSum", s.Mul(bits, powers), [-1], keepdims=0)


def _bits(s: Step, value: Value, count: int, powers: Value) -> Value:
    positive = s.Mod(s.cast(value, INT64), s.array(2**count))
    return s.Mod(s.Div(unsqueeze(s, positive, [-1]), powers), s.array(2))


def _signed(s: Step, number: Value, dtype: ir.DataType) -> Value:
    if dtype not in _SIGNED:
        return number
    half, whole = 2 ** (_BITS[dtype] - 1), 2 ** _BITS[dtype]
    return s.Sub(number, s.Mul(s.cast(s.Not(s.Less(number, s.array(half))), INT64), s.array(whole)))


@adapter("BitShift", 28, 11)
def shifted_signed_integers(s: Step, X: Value, Y: Value, *, direction: str) -> Result:
    """A shift multiplies by a power of two, or divides by it, rounded down. What leaves the type is cut off.

    Since opset 28 a shift by more bits than there are leaves nothing but the sign; before, nobody said."""
    dtype = s.dtype(X)
    bits = _BITS[dtype]
    known = s.constant(Y)
    if dtype not in _SIGNED:
        if known is not None and (known < bits).all():
            return s.again()
        return s.Where(s.Less(Y, s.array(bits, dtype)), s.same(X, Y)[0], s.array(0, dtype))
    shift, x = s.cast(Y, INT64), s.cast(X, INT64)
    is_off = s.Or(s.Less(shift, s.array(0)), s.Greater(shift, s.array(bits - 1)))
    shift = s.Where(is_off, s.array(bits - 1), shift)
    half = s.Div(shift, s.array(2))  # in two parts, since 2 ** 63 is no integer of 64 bits
    for part in (half, s.Sub(shift, half)):
        power = s.cast(s.BitShift(s.array(1, D.UINT64), s.cast(part, D.UINT64), direction="LEFT"), INT64)
        x = s.Mul(x, power) if direction == "LEFT" else s.Div(s.Sub(x, s.Mod(x, power)), power)
    if direction == "LEFT":
        if bits < 64:
            x = _signed(s, s.Mod(x, s.array(2**bits)), dtype)
        x = s.Where(is_off, s.array(0), x)
    return s.cast(x, dtype)


@adapter("BitCast", 26, 0)
def the_same_bits(s: Step, input: Value, *, to: int) -> Result:
    """A Cast keeps the bits of integers. Those of a float are put together: the sign, and the fraction times a power of
    two. Every NaN becomes one: which one it is, no operator but BitCast can see."""
    given, wanted = s.dtype(input), D(to)
    if given == wanted:
        return input
    if given in _FLOATS:
        s.refuse("the bits of a NaN cannot be told before opset 26")
    if wanted == D.BOOL:
        s.refuse("other numbers than 0 and 1 are no bool")
    if wanted in _FLOATS:
        return s.cast(_float_of(s, input, _BITS[given], *_FLOATS[wanted]), wanted)
    if given != D.BOOL and given not in _BITS:
        s.refuse(f"the bits of {given.name.lower()} cannot be told before opset 26")
    return s.cast(input, wanted)


def _float_of(s: Step, number: Value, bits: int, exponents: int, fractions: int) -> Value:
    """Return the number that has these bits as a double, which holds all numbers of the other types."""
    unsigned = s.cast(number, _UNSIGNED[bits])
    whole = unsigned if bits == 64 else s.cast(unsigned, D.UINT64)
    most = 2**exponents - 1
    places = s.array(fractions, D.UINT64)
    above = s.BitShift(whole, places, direction="RIGHT")
    fraction = s.Cast(s.Sub(whole, s.BitShift(above, places, direction="LEFT")), to=int(D.DOUBLE))
    above = s.Cast(above, to=int(INT64))
    is_negative = s.Greater(above, s.array(most))
    exponent = s.Where(is_negative, s.Sub(above, s.array(most + 1)), above)
    lowest = 2 - 2 ** (exponents - 1) - fractions
    powers = np.ldexp(1.0, [lowest + max(place, 1) - 1 for place in range(most)] + [0])
    zero = s.array(0, D.DOUBLE)
    is_normal = s.Greater(exponent, s.array(0))
    digits = s.Add(fraction, s.Where(is_normal, s.array(2.0**fractions, D.DOUBLE), zero))
    size = s.Mul(digits, s.Gather(s.array(powers, D.DOUBLE), exponent, axis=0))
    infinity, no_number = (s.array(each, D.DOUBLE) for each in (np.inf, np.nan))
    size = s.Where(s.Equal(exponent, s.array(most)), s.Where(s.Greater(fraction, zero), no_number, infinity), size)
    # By a product, since ONNX Runtime's Where gives 0 for a zero with a sign.
    return s.Mul(size, s.Where(is_negative, s.array(-1, D.DOUBLE), s.array(1, D.DOUBLE)))
