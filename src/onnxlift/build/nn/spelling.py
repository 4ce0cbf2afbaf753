"""Operators whose spelling depends on the opset: axes that were attributes once are inputs since."""

from __future__ import annotations

from collections.abc import Sequence

from onnxlift.build import op, opsets
from onnxlift.build.value import Value


def mean(input: Value, axes: Sequence[int], *, keepdims: int = 1) -> Value:
    """Return the mean over these axes."""
    if opsets()[""] >= 18:
        return op.ReduceMean(input, axes, keepdims=keepdims)
    return op.ReduceMean(input, axes=axes, keepdims=keepdims)


def largest(input: Value, axes: Sequence[int]) -> Value:
    """Return the largest number over these axes, which are kept with size 1."""
    return op.ReduceMax(input, axes) if opsets()[""] >= 18 else op.ReduceMax(input, axes=axes)


def unsqueezed(input: Value, axes: Sequence[int]) -> Value:
    """Return the value with axes of size 1 in these places."""
    return op.Unsqueeze(input, axes) if opsets()[""] >= 13 else op.Unsqueeze(input, axes=axes)


def squeezed(input: Value, axes: Sequence[int]) -> Value:
    """Return the value without these axes, which have size 1."""
    return op.Squeeze(input, axes) if opsets()[""] >= 13 else op.Squeeze(input, axes=axes)


def clipped(input: Value, low: float, high: float) -> Value:
    """Return the input, not below `low` nor above `high`."""
    return op.Clip(input, low, high) if opsets()[""] >= 11 else op.Clip(input, min=low, max=high)


def padded(input: Value, pads: Sequence[int], mode: str) -> Value:
    """Return the input with these sizes added before all axes and behind them."""
    return op.Pad(input, pads, mode=mode) if opsets()[""] >= 11 else op.Pad(input, pads=pads, mode=mode)


def softmax(input: Value, axis: int, name: str = "Softmax") -> Value:
    """Return the Softmax or LogSoftmax along one axis. Before opset 13 they take all axes from there on as one."""
    operator = op.LogSoftmax if name == "LogSoftmax" else op.Softmax
    rank = input.rank
    if opsets()[""] >= 13 or (axis == -1 and opsets()[""] >= 11) or rank is None or not -rank <= axis < rank:
        return operator(input, axis=axis)
    axis %= rank
    if axis == rank - 1:
        return operator(input, axis=axis)
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return op.Transpose(operator(op.Transpose(input, perm=order), axis=rank - 1), perm=order)
