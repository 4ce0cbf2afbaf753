"""A weight of integers that is turned into numbers by hand is dequantised.

    Mul(Cast(W), s)           ->   DequantizeLinear(W, s)
    Mul(Sub(Cast(W), z), s)   ->   DequantizeLinear(W, s, z)

in either order of the factors. Tools that shrink a model write weights so, without an operator for it. The layer that
reads the weight can then hold the integers (idioms/quantised).

Applies to constants: W of 8-bit integers, s of float32 and z of whole numbers in the range of W, each with one number
for all of W, or with one for each place along one axis. Nobody else reads a value in between. Not before opset 13, when
DequantizeLinear had no axis, and not if s or z has more axes than W. Sound because DequantizeLinear is defined so, and
the difference of two such integers has no rounding in float32.

In this stage, because simplifying computes small casts of constants.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, initialiser, sweep
from onnxlift.ir.editing.match import both_orders, drop_unused, is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.stages import step

_INTEGERS = (ir.DataType.INT8, ir.DataType.UINT8)
_OPSET = 13


@step("dequantised-weights")
def run(model: ir.Model) -> int:
    """Write as DequantizeLinear what turns stored integers into weights; return how many there were."""
    return sweep(model, {"Mul": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if edit.opset(node) < _OPSET:
        return
    for value, scale in both_orders(node):
        difference = made_by(edit, value, "Sub")
        cast = made_by(edit, value if difference is None else difference.inputs[0], "Cast")
        if cast is None or scale.dtype != ir.DataType.FLOAT:
            continue
        passing = [value] if difference is None else [value, cast.outputs[0]]
        given = [scale] if difference is None else [scale, difference.inputs[1]]
        parameters = _parameters(edit, cast.inputs[0], given)
        if parameters is not None and all(is_private(edit, each) for each in passing):
            edit.replace(node, "DequantizeLinear", *parameters)
            drop_unused(edit, [cast] if difference is None else [difference, cast])
            return


def _parameters(
    edit: Edit, integers: ir.Value | None, given: Sequence[ir.Value | None]
) -> tuple[list[ir.Value], list[ir.Attr]] | None:
    """Return the inputs and attributes of a DequantizeLinear with a scale, and perhaps a zero point; None if these are
    not along one axis of the integers."""
    tensor, numbers = constant(integers), [constant(value) for value in given]
    if integers is None or tensor is None or tensor.dtype not in _INTEGERS:
        return None
    sizes, types = tensor.shape.numpy(), (np.dtype(np.float32), tensor.dtype.numpy())
    arrays = [None if each is None or each.size > max(sizes, default=1) else each.numpy() for each in numbers]
    axes = {axis for array in arrays for axis in _axes(array, sizes)}
    if None in axes or len(axes) > 1:
        return None
    length = [sizes[axis] for axis in axes if axis is not None]
    inputs = [integers]
    for value, array, dtype in zip(given, arrays, types, strict=False):
        assert value is not None and array is not None
        stored = np.resize(array, length).astype(dtype)
        if not np.array_equal(stored, np.resize(array, length)):
            return None
        name = edit.names.fresh(value.name or "")
        inputs.append(initialiser(edit.graph, name, stored, "a quantiser has chosen it for the weight"))
    return inputs, [ir.AttrInt64("axis", axis) for axis in axes if axis is not None]


def _axes(array: Array | None, sizes: Sequence[int]) -> list[int | None]:
    """Return the axes along which an array that is broadcast to `sizes` has several numbers; None if it is not."""
    offset = len(sizes) - (array.ndim if array is not None else len(sizes) + 1)
    if array is None or offset < 0:
        return [None]
    places = [place for place, size in enumerate(array.shape) if size != 1]
    return [offset + place if array.shape[place] == sizes[offset + place] else None for place in places]
