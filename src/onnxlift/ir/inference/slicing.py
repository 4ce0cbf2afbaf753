"""Infer the shape that a Slice gives, where sizes and bounds may be symbolic."""

from __future__ import annotations

from onnxlift.ir.graph.shapes import Dim, Element, Shape

from . import symbolic
from .node_view import NodeView, Unknown


def slice_shape(n: NodeView) -> Shape:
    """Return the output shape of a Slice of any opset, as a rule of `shape_rules`."""
    shape = n.shape()
    if n.has(1):
        starts, ends = n.elements(1), n.elements(2)
    else:
        starts, ends = n.attribute("starts"), n.attribute("ends")
    axes = n.ints("axes", 3, tuple(range(len(starts))))
    steps = n.elements(4) if n.has(4) else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Unknown
    result: list[Dim] = list(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if not -len(shape) <= axis < len(shape):
            raise Unknown
        result[axis] = n.known(_slice_length(n, shape[axis], start, end, step))
    return tuple(result)


def _slice_length(n: NodeView, dim: Dim, start: Element, end: Element, step: Element) -> Dim | None:
    """Return how many elements `[start:end:step]` leaves of `dim`; None if that cannot be expressed."""
    if start is None or end is None or not isinstance(step, int) or step == 0:
        return None
    if isinstance(dim, int) and isinstance(start, int) and isinstance(end, int):
        if step < 0 and start < -dim:
            start = 0 if dim else start  # here ONNX starts at the first element, and Python gives nothing
        return len(range(dim)[start:end:step])
    if step < 0:
        return dim if step == -1 and start == -1 and isinstance(end, int) and end <= -(2**31) else None
    last = _clamped(n, dim, end)
    if isinstance(start, int) and start < 0 and step == 1 and last == dim:
        return symbolic.minimum(dim, -start)
    # A positive start need not be clamped to the size: if it lies beyond the end, the length is 0 in any case.
    first = _clamped(n, dim, start) if isinstance(start, int) and start < 0 else start
    if first is None or last is None or not symbolic.is_nonnegative(first):
        return None
    span = symbolic.subtract(last, first)
    length = None if span is None else n.at_least_zero(span)
    if length is None or step == 1:
        return length
    rounded = symbolic.add(length, step - 1)
    return None if rounded is None else symbolic.floor_divide(rounded, step)


def _clamped(n: NodeView, dim: Dim, position: Dim) -> Dim | None:
    """Return a bound of a slice, counted from the front and clamped to the size `dim`; None if not expressible."""
    if isinstance(position, int):
        if position >= 2**31 - 1:
            return dim
        if position < 0:
            shifted = symbolic.add(dim, position)
            return None if shifted is None else n.at_least_zero(shifted)
    if not symbolic.is_nonnegative(position):
        return None
    return symbolic.minimum(position, dim)
