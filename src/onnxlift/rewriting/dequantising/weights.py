"""Weights of integers as the floats that they stand for, and how far these may be from the original's.

W_f = (W - zero_point) * scale        noise: a step, evenly spread, has a mean square of scale^2 / 12
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, weight_initialiser
from onnxlift.ir.graph.constants import constant

KEY = "dequantised"
"""Key in the `meta` of a model of the `Noise` that it was quantised with."""
_ADDED = re.compile(r"(?<=.)(_quantized|(_DQ)?_Q[248])$")
_REASON = "the file has it in integers"


@dataclass
class Noise:
    """What was dequantised: the weights, by name, with the ratio of their squares to those of half steps in decibels;
    how many roundings of values were dropped, and how many stayed."""

    signal: float = 0.0
    noise: float = 0.0
    by_weight: dict[str, float] = field(default_factory=dict)
    dropped: int = 0
    kept: int = 0

    def add(self, name: str, numbers: Array, steps: Array) -> None:
        """Add a weight, with the step of each of its numbers (or in a shape that broadcasts to it)."""
        signal = float(np.square(numbers, dtype=np.float64).sum())
        noise = float(np.square(steps, dtype=np.float64).mean()) / 12 * numbers.size
        self.signal, self.noise = self.signal + signal, self.noise + noise
        self.by_weight[name] = _decibels(signal, noise)

    def to_dict(self) -> Mapping[str, Any]:
        """Return plain numbers: the signal to noise of all weights, and of the noisiest one."""
        noisiest = min(self.by_weight, key=lambda name: self.by_weight[name], default=None)
        return {
            "weights": len(self.by_weight),
            "sqnr": _decibels(self.signal, self.noise) if self.by_weight else None,
            "noisiest": noisiest,
            "noisiest_sqnr": None if noisiest is None else self.by_weight[noisiest],
            "roundings_dropped": self.dropped,
            "roundings_kept": self.kept,
        }


def _decibels(signal: float, noise: float) -> float:
    return round(10 * math.log10(signal / noise), 2) if signal > 0 and noise > 0 else 0.0


class Weights:
    """Makes floats of the integers of a model. `noise` adds up what that may have cost."""

    def __init__(self) -> None:
        self.noise = Noise()

    def dequantised(
        self,
        edit: Edit,
        integers: ir.Value | None,
        scale: ir.Value | None,
        zero: ir.Value | None,
        *,
        axis: int = 1,
        block_size: int = 0,
        turned: bool = False,
    ) -> ir.Value | None:
        """Return a new weight of floats; None if these are no constants. `turned` swaps the last
        two axes."""
        tensor, factor, point = constant(integers), constant(scale), constant(zero)
        if integers is None or tensor is None or factor is None or (zero is not None and point is None):
            return None
        steps = _spread(factor.numpy(), tensor.shape.numpy(), axis, block_size)
        points = None if point is None else _spread(point.numpy(), tensor.shape.numpy(), axis, block_size)
        if steps is None or (point is not None and points is None):
            return None
        compute = partial(_floats, tensor, factor, point, axis, block_size, turned)
        shape = tensor.shape.numpy()
        shape = (*shape[:-2], shape[-1], shape[-2]) if turned else shape
        name = _ADDED.sub("", integers.name or "weight")
        if name == integers.name:
            integers.name = edit.names.fresh(f"{name}_quantized")
        else:
            name = edit.names.fresh(name)
        if tensor.dtype != ir.DataType.INT32:  # a bias, in steps that are finer than it needs
            self.noise.add(name, compute().numpy(), steps)
        return weight_initialiser(
            edit.graph, name, ir.LazyTensor(compute, factor.dtype, ir.Shape(shape), name=name), _REASON
        )


def _floats(
    tensor: ir.TensorProtocol,
    factor: ir.TensorProtocol,
    point: ir.TensorProtocol | None,
    axis: int,
    block_size: int,
    turned: bool,
) -> ir.Tensor[Any]:
    shape = tensor.shape.numpy()
    centred = tensor.numpy().astype(np.float32)
    if tensor.dtype == ir.DataType.INT32:
        centred = tensor.numpy()
    steps = _spread(factor.numpy(), shape, axis, block_size)
    points = None if point is None else _spread(point.numpy(), shape, axis, block_size)
    assert steps is not None
    if points is not None:
        centred = centred - points.astype(centred.dtype)
    numbers = (centred.astype(np.float32) * steps.astype(np.float32)).astype(factor.dtype.numpy())
    return ir.Tensor(np.ascontiguousarray(np.swapaxes(numbers, -1, -2) if turned else numbers))


def _spread(steps: Array, shape: Sequence[int], axis: int, block_size: int) -> Array | None:
    """Return steps in a shape that broadcasts to that of the integers; None if they do not fit."""
    if steps.size == 1:
        return steps.reshape(())
    if steps.ndim == len(shape) - 1 > 1 and steps.shape == (*shape[:-2], shape[-1]):
        return steps[..., None, :]  # one for each output of each of several matrices
    if not shape or not -len(shape) <= axis < len(shape):
        return None
    axis %= len(shape)
    if block_size:
        expected = tuple(-(-size // block_size) if place == axis else size for place, size in enumerate(shape))
        return np.repeat(steps, block_size, axis).take(range(shape[axis]), axis) if steps.shape == expected else None
    return (
        steps.reshape([-1 if place == axis else 1 for place in range(len(shape))])
        if steps.size == shape[axis]
        else None
    )
