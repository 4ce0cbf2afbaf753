"""Constants that are added to the result of a layer, one number for each channel or feature."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.inference.symbolic import product


def is_per_channel(bias: ir.Value, channels: int, result: ir.Value) -> bool:
    """Tell whether `bias` has one number for each channel of the result that it is added to."""
    sizes, shape = shape_of(bias), shape_of(result)
    if sizes is None or shape is None or len(sizes) > len(shape):
        return False
    padded = (1,) * (len(shape) - len(sizes)) + sizes
    return padded[1] == channels == product(padded)


def row_of(edit: Edit, bias: ir.Value, channels: int) -> ir.Value | None:
    """Return the numbers of `bias` as a constant of one axis."""
    reshape = made_by(edit, bias, "Reshape", "Unsqueeze")
    held = bias if reshape is None else reshape.inputs[0]
    tensor = constant(held)
    if held is None or tensor is None:
        return None
    return held if shape_of(held) == (channels,) else edit.constant(held.name or "bias", tensor.numpy().reshape(-1))


def is_bias(value: ir.Value, outputs: int | str | None, axes: int | None) -> bool:
    """Tell whether `value` is a constant with one number for each output, and no more axes than the result.

    `axes` is the number of axes of the result.
    """
    shape = shape_of(value)
    if constant(value) is None or not shape:
        return False
    fits = len(shape) == 1 or (axes is not None and len(shape) <= axes)
    return fits and shape[-1] == outputs and all(size == 1 for size in shape[:-1])
