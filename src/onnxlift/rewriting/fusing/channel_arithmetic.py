"""Fold a product or a sum with one constant number for each channel, behind a convolution, into its weight and bias.

    Mul(Conv(x, w, b), k)   ->   Conv(x, w * k, b * k)        Div(Conv(x, w, b), k)   ->   Conv(x, w / k, b / k)
    Add(Conv(x, w, b), c)   ->   Conv(x, w, b + c)            Sub(Conv(x, w, b), c)   ->   Conv(x, w, b - c)

The same for ConvTranspose, for operands in the other order (`Sub(c, Conv)` too, not `Div(k, Conv)`), and for a constant
that is the same for all channels. It applies if the constant has other sizes than 1 on the channel axis at most, nobody
else reads the convolution, and its weight and bias are constants. Sound because a convolution is linear. The new
numbers are computed in float64 and rounded once.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep
from onnxlift.ir.editing.match import is_private, made_by
from onnxlift.stages import step

from .parts.convolutions import CONVOLUTIONS, channels_of, numbers, scale_channels


@step(
    "channel-arithmetic",
    after={"batch-norms": "a norm has a scale and an offset, and is folded in one go"},
    repeats=True,
)
def run(model: ir.Model) -> int:
    """Fold products and sums into convolutions; return how many."""
    return sweep(model, {("Mul", "Div", "Add", "Sub"): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    for place in (0, 1):
        convolution = made_by(edit, node.inputs[place], *CONVOLUTIONS)
        if convolution is None or not is_private(edit, node.inputs[place]):
            continue
        constant = _per_channel(convolution, node.inputs[1 - place])
        line = None if constant is None else _line(node.op_type, constant, is_first=place == 0)
        if line is not None and scale_channels(edit, convolution, node, *line):
            return


def _per_channel(convolution: ir.Node, value: ir.Value | None) -> Array | None:
    """Return one number for each channel, if a constant has no other axes than that of channels; else None."""
    array, count, weight = numbers(value), channels_of(convolution), convolution.inputs[1]
    if array is None or count is None or weight is None or weight.shape is None:
        return None
    rank = len(weight.shape)
    shape = (1,) * (rank - array.ndim) + array.shape
    is_alone = all(size == 1 for axis, size in enumerate(shape) if axis != 1)
    if len(shape) != rank or not is_alone or shape[1] not in (1, count):
        return None
    return np.broadcast_to(array.reshape(-1), (count,))


def _line(op_type: str, constant: Array, *, is_first: bool) -> tuple[Array, Array] | None:
    """Return what each channel is multiplied with, and what is added then; None if it is no such line."""
    ones, zeros = np.ones_like(constant), np.zeros_like(constant)
    match op_type:
        case "Mul":
            return constant, zeros
        case "Add":
            return ones, constant
        case "Sub":
            return (ones, -constant) if is_first else (-ones, constant)
    return (1 / constant, zeros) if is_first and constant.all() else None
