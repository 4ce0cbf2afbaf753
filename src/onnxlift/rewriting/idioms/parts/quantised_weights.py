"""Read what quantised layers take over: integers with scale and zero point, and the windows of a convolution."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of

STORED = (ir.DataType.INT8, ir.DataType.UINT8)


def checked(
    edit: Edit, integers: ir.Value | None, scale: ir.Value | None, zero: ir.Value | None, axis: int | None, *axes: int
) -> list[ir.Value] | None:
    """Return integers, scale and zero point if they are constants of the right types and shapes.

    A zero point that is missing is 0. `axis` is the axis of the integers along which there may be several scales. They
    have one of these numbers of `axes`.
    """
    tensor = constant(integers)
    if tensor is None or constant(scale) is None or (zero is not None and constant(zero) is None):
        return None
    assert integers is not None and scale is not None
    shape = tensor.shape.numpy()
    if integers.dtype not in STORED or scale.dtype != ir.DataType.FLOAT or len(shape) not in axes or 0 in shape:
        return None
    allowed = [(), (1,)] if axis is None else [(), (1,), (shape[axis],)]
    if shape_of(scale) not in allowed or (zero is not None and shape_of(zero) not in allowed):
        return None
    if zero is None:
        zero = edit.constant(f"{integers.name}_zero_point", np.zeros((), integers.dtype.numpy()))
    return [integers, scale, zero]


def windows(convolution: ir.Node) -> list[ir.Attr] | None:
    """Return the attributes that a layer takes over from a convolution over two axes, if PyTorch allows them."""
    pads, shape = attribute(convolution, "pads", [0]), shape_of(convolution.inputs[0])
    if pads is None or (shape is not None and 0 in shape):
        return None
    if min(pads) < 0 or attribute(convolution, "auto_pad", "NOTSET") != "NOTSET":
        return None
    return [a for a in convolution.attributes.values() if a.name in ("dilations", "group", "pads", "strides")]
