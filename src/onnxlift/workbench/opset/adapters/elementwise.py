"""Operators on single numbers.

- Add, Sub, Mul, Div, Pow, And, Or, Xor, Equal, Greater, Less: 7 (they broadcast as numpy does; before, with
  `broadcast` and `axis`)
- PRelu, Gemm: 7 (the slope and C broadcast)
- Max, Min, Sum, Mean: 8 (they broadcast); Max, Min: 12 (integers)
- Clip: 6 (defaults), 11 (limits are inputs), 12 (integers)
- Pow: 12 (base and exponent of different types)
- Div: 14 (short integers)
- Erf: 13 (no integers)
- Mod: 28 (`fmod` and the type are independent)
- Equal: 19 (strings)
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ..spelling import counted_from_zero, unsqueeze
from ..step import Result, Step, Value, adapter

_BINARY = "Add Sub Mul Div Pow And Or Xor Equal Greater Less".split()
_SIX = [name for name in _BINARY if name in ("Add", "Sub", "Mul", "Div")]
_ONE = [name for name in _BINARY if name not in _SIX]
D = ir.DataType
_FLOATS = (D.FLOAT, D.DOUBLE, D.FLOAT16, D.BFLOAT16)
_BITS = {D.INT8: 8, D.UINT8: 8, D.INT16: 16, D.UINT16: 16, D.INT32: 32, D.UINT32: 32, D.INT64: 64, D.UINT64: 64}


@adapter(_SIX, 6, 7)
@adapter(_ONE, 1, 7)
def broadcast_like_numpy(s: Step, A: Value, B: Value, *, broadcast: int, axis: int | None) -> Result:
    """The axes of B stand at `axis` of A. So that they do when counted from the end, B gets axes of size 1 there."""
    if not broadcast or axis is None or s.rank(B) == 0:
        return s.again(broadcast=None, axis=None)
    behind = s.rank(A) - counted_from_zero(s, axis, A) - s.rank(B)
    if behind <= 0:
        return s.again(broadcast=None, axis=None)
    return s.again(A, unsqueeze(s, B, list(range(s.rank(B), s.rank(B) + behind))), broadcast=None, axis=None)


@adapter(_SIX, 7, 6)
@adapter(_ONE, 7, 1)
def broadcast_is_told(s: Step, A: Value, B: Value) -> Result:
    """Only B broadcasts, and the sizes of its last axes are those of A."""
    if A.shape is None or B.shape is None:
        s.refuse("its sizes are not known, and only the second input broadcasts before opset 7")
    first, second = list(A.shape), list(B.shape)
    if first == second:
        return s.again()
    if len(second) > len(first) or (second and second != first[len(first) - len(second) :]):
        s.refuse("sizes of 1 do not broadcast before opset 7")
    return s.again(broadcast=1)


@adapter("PRelu", 6, 7)
def slope_along_the_channels(s: Step, X: Value, slope: Value) -> Result:
    """A slope of several numbers is along axis 1."""
    if slope.shape is not None and (len(slope.shape) != 1 or slope.shape[0] == 1):
        return s.again()
    if s.rank(slope) != 1 or s.rank(X) < 3:
        return s.again()
    return s.again(X, unsqueeze(s, slope, list(range(1, s.rank(X) - 1))))


@adapter("Gemm", 6, 7)
def c_broadcasts(s: Step) -> Result:
    return s.again(broadcast=None)


@adapter("Gemm", 7, 6)
def c_broadcasts_if_told(s: Step) -> Result:
    return s.again(broadcast=1)


@adapter("Gemm", 11, 9)
def c_is_needed(s: Step, A: Value, B: Value, C: Value | None) -> Result:
    return s.again() if C is not None else s.again(A, B, s.number(0, A))


@adapter(["Max", "Min", "Sum", "Mean"], 8, 6)
def all_of_one_shape(s: Step, *data: Value) -> Result:
    shapes = [None if each.shape is None else list(each.shape) for each in data]
    if None in shapes or any(shape != shapes[0] for shape in shapes):
        s.refuse("its inputs must be of one shape before opset 8")
    return s.again()


@adapter("Clip", 1, 6)
def no_limit_is_infinite(s: Step, *, min: float | None, max: float | None) -> Result:
    return s.again(min=-np.inf if min is None else min, max=np.inf if max is None else max)


@adapter("Clip", 6, 11)
def limits_become_inputs(s: Step, input: Value, *, min: float, max: float) -> Result:
    """The default is the largest float, which also takes infinity back. Infinite limits are none."""
    limits = [None if np.isinf(s.dtype(input).numpy().type(limit)) else s.number(limit, input) for limit in (min, max)]
    return s.again(input, *limits, min=None, max=None)


@adapter("Clip", 11, 6)
def limits_become_attributes(s: Step, input: Value, min: Value | None, max: Value | None) -> Result:
    """Limits that are computed are those of Max and Min."""
    low, high = s.constant(min), s.constant(max)
    if (min is not None and low is None) or (max is not None and high is None):
        x = input if min is None else s.Max(input, min)
        return x if max is None else s.Min(x, max)
    numbers = [None if limit is None else float(limit.reshape(-1)[0]) for limit in (low, high)]
    return s.again(
        input, min=-np.inf if numbers[0] is None else numbers[0], max=np.inf if numbers[1] is None else numbers[1]
    )


@adapter("Clip", 12, 11)
def integers_between_limits(s: Step, input: Value, min: Value | None, max: Value | None) -> Result:
    """No other type holds all integers of 64 bits, so these are compared and chosen."""
    if s.dtype(input) not in (D.INT64, D.UINT64):
        return s.again()
    x = input
    for limit, compare in ((min, s.Less), (max, s.Greater)):
        if limit is not None:
            x = s.Where(compare(x, limit), limit, x)
    return x


@adapter(["Max", "Min"], 12, 8)
def larger_or_smaller_integers(s: Step, *data: Value) -> Result:
    if s.dtype(data[0]) not in (D.INT64, D.UINT64):
        return s.again()
    x, *others = data
    for other in others:
        compare = s.Less(x, other) if s.node.op_type == "Max" else s.Greater(x, other)
        x = s.Where(compare, other, x)
    return x


@adapter("Pow", 12, 7)
def exponent_of_the_same_type(s: Step, X: Value, Y: Value) -> Result:
    if s.dtype(X) not in _FLOATS:
        s.refuse("integers have no power before opset 12")
    return s.again(X, Y if s.dtype(Y) == s.dtype(X) else s.cast(Y, s.dtype(X)))


@adapter("Erf", 9, 13)
def error_function_of_integers(s: Step, input: Value) -> Result:
    """It is computed in floating point, and what is behind the point is cut off."""
    if s.dtype(input) in _FLOATS:
        return s.again()
    return s.cast(s.Erf(s.cast(input, D.FLOAT)), s.dtype(input))


@adapter("Div", 14, 13)
def quotient_of_short_integers(s: Step, A: Value, B: Value) -> Result:
    """Every integer of up to 16 bits is one of 32 bits, and so is the quotient."""
    dtype = s.dtype(A)
    if _BITS.get(dtype, 32) > 16:
        return s.again()
    return s.cast(s.Div(s.cast(A, D.INT32), s.cast(B, D.INT32)), dtype)


@adapter("Mod", 28, 13)
def remainder_by_type(s: Step, A: Value, B: Value, *, fmod: int) -> Result:
    """Before opset 28, `fmod` is for floating point and its absence for integers; the other two follow from these."""
    is_float = s.dtype(A) in _FLOATS
    if bool(fmod) == is_float:
        return s.again()
    if not is_float:
        return s.Sub(A, s.Mul(s.Div(A, B), B))
    rest = s.Mod(A, B, fmod=1)
    zero = s.number(0, A)
    other_side = s.Xor(s.Less(rest, zero), s.Less(B, zero))
    moved = s.And(other_side, s.Not(s.Equal(rest, zero)))
    return s.Where(moved, s.Add(rest, B), rest)


@adapter("Equal", 19, 13)
def equal_strings(s: Step, A: Value, B: Value) -> Result:
    """Among all strings of both, equal ones have the same number. These broadcast as the strings would."""
    if s.dtype(A) != D.STRING:
        return s.again()
    flat = s.array([-1])
    every = s.Concat(s.Reshape(A, flat), s.Reshape(B, flat), axis=0)
    number = s.several(3, "Unique", every, sorted=0)[2]
    count = s.Reshape(s.Size(A), s.array([1]))
    first = s.Reshape(s.Slice(number, s.array([0]), count), s.Shape(A))
    second = s.Reshape(s.Slice(number, count, s.array([2**62])), s.Shape(B))
    return s.Equal(first, second)
