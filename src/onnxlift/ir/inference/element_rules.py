"""Infer the elements of small integer tensors, which may be symbolic, as in `Shape → Gather → Mul → Concat`.

A rule gets a `NodeView` and returns the flat elements of the first output. Each is an int, a symbolic size, or None if
it is unknown. The caller knows the output's rank and keeps only ranks 0 and 1. Sizes are never negative, which decides
comparisons such as `Equal(shape, -1)`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import onnx_ir as ir

from onnxlift.ir.graph.shapes import MAX_ELEMENTS, Dim, Element, Elements, shape_of
from onnxlift.ir.graph.types import INTEGERS

from . import symbolic
from .node_view import NodeView, Unknown

Binary = Callable[[Dim, Dim], Dim | None]


def _shape(n: NodeView) -> Elements:
    return n.shape()[shape_slice(n)]


def shape_slice(n: NodeView) -> slice:
    """Return the part of the shape that a Shape node gives: from `start` to `end`, attributes since opset 15."""
    return slice(n.attribute("start", 0), n.attribute("end", None))


def _size(n: NodeView) -> Elements:
    return (symbolic.product(n.shape()),)


def _gather(n: NodeView) -> Elements:
    data, indices = n.elements(0), n.elements(1)
    if len(n.shape()) != 1:
        raise Unknown
    return tuple(data[i] if isinstance(i, int) and -len(data) <= i < len(data) else None for i in indices)


def _slice(n: NodeView) -> Elements:
    data = n.elements(0)
    starts, ends = n.ints("starts", 1), n.ints("ends", 2)
    axes, steps = n.ints("axes", 3, (0,)), n.ints("steps", 4, (1,))
    if len(n.shape()) != 1 or not len(starts) == len(ends) == len(axes) == len(steps) == 1 or steps[0] == 0:
        raise Unknown
    start, end, step = starts[0], ends[0], steps[0]
    if step < 0 and start < -len(data):
        raise Unknown  # here ONNX starts at the first element, and Python gives nothing
    return data[start:end:step]


def _concat(n: NodeView) -> Elements:
    parts = [n.elements(i) for i in range(len(n.inputs))]
    return tuple(element for part in parts for element in part)


def _same(n: NodeView) -> Elements:
    return n.elements(0)


def _cast(n: NodeView) -> Elements:
    # Only casts from integers to int32 (6) or int64 (7): a cast to bool or from a float may change the number. A cast
    # to int32 could wrap, but symbolic sizes are taken to fit.
    if n.attribute("to", 0) not in (6, 7) or n.dtype() not in INTEGERS:
        raise Unknown
    return n.elements(0)


def _neg(n: NodeView) -> Elements:
    return tuple(None if e is None else symbolic.multiply(e, -1) for e in n.elements(0))


def _absolute(n: NodeView) -> Elements:
    return tuple(e if e is not None and symbolic.is_nonnegative(e) else None for e in n.elements(0))


def _quotient(n: NodeView) -> Elements:
    """Return the elements of a Div.

    ONNX rounds towards zero, which is the same as rounding down if the result is not negative."""

    def divide(a: Dim, b: Dim) -> Dim | None:
        if isinstance(a, int) and isinstance(b, int):
            return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        exact = symbolic.divide_exactly(a, b)
        if exact is not None:
            return exact
        rounded = symbolic.floor_divide(a, b)
        return rounded if rounded is not None and n.bounds.is_nonnegative(rounded) else None

    return _elementwise(divide, n)


def _remainder(n: NodeView) -> Elements:
    if n.attribute("fmod", 0):
        raise Unknown  # with `fmod` the remainder has the sign of the dividend; `symbolic.modulo` is never negative
    return _elementwise(symbolic.modulo, n)


def _zip(function: Binary, left: Elements, right: Elements) -> Elements:
    """Apply `function` to the pairs of two lists. A list of one element is broadcast to the length of the other."""
    length = max(len(left), len(right)) if left and right else 0
    if len(left) not in (1, length) or len(right) not in (1, length):
        raise Unknown
    left, right = (part * length if len(part) == 1 else part for part in (left, right))
    return tuple(None if a is None or b is None else function(a, b) for a, b in zip(left, right, strict=True))


def _elementwise(function: Binary, n: NodeView) -> Elements:
    if n.attribute("broadcast", 0):
        raise Unknown  # opset 6 and earlier, where `axis` says how the inputs are aligned
    return reduce(lambda a, b: _zip(function, a, b), (n.elements(i) for i in range(len(n.inputs))))


def _variadic(function: Binary) -> Callable[[NodeView], Elements]:
    def rule(n: NodeView) -> Elements:
        return _elementwise(function, n)

    return rule


def _comparison(holds: Callable[[int], bool]) -> Callable[[NodeView], Elements]:
    def compare(a: Dim, b: Dim) -> Dim | None:
        order = symbolic.compare(a, b)
        return None if order is None else int(holds(order))

    return _variadic(compare)


def _where(n: NodeView) -> Elements:
    condition, chosen, other = n.elements(0), n.elements(1), n.elements(2)
    length = max(len(condition), len(chosen), len(other)) if condition and chosen and other else 0
    parts = []
    for part in (condition, chosen, other):
        if len(part) not in (1, length):
            raise Unknown
        parts.append(part * length if len(part) == 1 else part)

    def pick(test: Element, a: Element, b: Element) -> Element:
        if a == b:
            return a
        return None if not isinstance(test, int) else a if test else b

    return tuple(pick(*elements) for elements in zip(*parts, strict=True))


def _constant(n: NodeView) -> Elements:
    """Return the elements of a Constant node: normal form makes initialisers of these, but not every model is in it."""
    tensor = n.attribute("value", None)
    if tensor is None:
        numbers = n.attribute("value_ints", None)
        return (n.attribute("value_int"),) if numbers is None else numbers
    if tensor.dtype not in INTEGERS | {ir.DataType.BOOL} or len(tensor.shape) > 1 or tensor.size > MAX_ELEMENTS:
        raise Unknown
    return tuple(int(element) for element in tensor.numpy().reshape(-1))


def _constant_of_shape(n: NodeView) -> Elements:
    sizes = n.elements(0)
    value = n.attribute("value", None)
    if len(sizes) > 1 or value is None or value.dtype not in INTEGERS:
        raise Unknown
    length = sizes[0] if sizes else 1
    if not isinstance(length, int) or not 0 <= length <= MAX_ELEMENTS:
        raise Unknown
    return (int(value.numpy().reshape(-1)[0]),) * length


def _expand(n: NodeView) -> Elements:
    data, sizes = n.elements(0), n.elements(1)
    if len(sizes) > 1 or any(not isinstance(size, int) for size in sizes):
        raise Unknown
    length = sizes[0] if sizes else 1
    if not isinstance(length, int) or not 0 <= length <= MAX_ELEMENTS:
        raise Unknown
    return data if length == 1 or len(data) != 1 else data * length


def _reduction(function: Binary, initial: int | None) -> Callable[[NodeView], Elements]:
    def rule(n: NodeView) -> Elements:
        if n.ints("axes", 1, ()) not in ((), (0,), (-1,)) or n.attribute("noop_with_empty_axes", 0):
            raise Unknown
        elements = n.elements(0)
        result: Element = initial if initial is not None else elements[0] if elements else None
        for element in elements if initial is not None else elements[1:]:
            result = None if result is None or element is None else function(result, element)
        return (result,)

    return rule


def _range(n: NodeView) -> Elements:
    (start,), (limit,), (step,) = n.elements(0), n.elements(1), n.elements(2)
    if not (isinstance(start, int) and isinstance(limit, int) and isinstance(step, int)) or step == 0:
        raise Unknown
    numbers = range(start, limit, step)
    if len(numbers) > MAX_ELEMENTS:
        raise Unknown
    return tuple(numbers)


def _logical(function: Callable[[int, int], int]) -> Callable[[NodeView], Elements]:
    def apply(a: Dim, b: Dim) -> Dim | None:
        return function(a, b) if isinstance(a, int) and isinstance(b, int) else None

    return _variadic(apply)


def _not(n: NodeView) -> Elements:
    return tuple(1 - e if isinstance(e, int) else None for e in n.elements(0))


def split(n: NodeView) -> list[Elements]:
    """Return the elements of each output of a Split of a vector. The lengths are those of the inferred shapes."""
    elements, rest = n.elements(0), []
    for output in n.node.outputs:
        shape = shape_of(output)
        if shape is None or len(shape) != 1 or not isinstance(shape[0], int):
            raise Unknown
        rest.append(elements[: shape[0]])
        elements = elements[shape[0] :]
    return rest


RULES: dict[str, Callable[[NodeView], Elements]] = {
    "Shape": _shape,
    "Size": _size,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Identity": _same,
    "Unsqueeze": _same,
    "Squeeze": _same,
    "Reshape": _same,
    "Flatten": _same,
    "Cast": _cast,
    "Neg": _neg,
    "Abs": _absolute,
    "Add": _variadic(symbolic.add),
    "Sub": _variadic(symbolic.subtract),
    "Mul": _variadic(symbolic.multiply),
    "Div": _quotient,
    "Mod": _remainder,
    "Max": _variadic(symbolic.maximum),
    "Min": _variadic(symbolic.minimum),
    "Equal": _comparison(lambda order: order == 0),
    "Less": _comparison(lambda order: order < 0),
    "LessOrEqual": _comparison(lambda order: order <= 0),
    "Greater": _comparison(lambda order: order > 0),
    "GreaterOrEqual": _comparison(lambda order: order >= 0),
    "And": _logical(lambda a, b: a & b),
    "Or": _logical(lambda a, b: a | b),
    "Not": _not,
    "Where": _where,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "ReduceProd": _reduction(symbolic.multiply, 1),
    "ReduceSum": _reduction(symbolic.add, 0),
    "ReduceMax": _reduction(symbolic.maximum, None),
    "ReduceMin": _reduction(symbolic.minimum, None),
    "Range": _range,
}
