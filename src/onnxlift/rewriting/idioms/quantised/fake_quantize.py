"""A value that is quantised and dequantised at once is rounded to steps.

    DequantizeLinear(QuantizeLinear(x, scale, zero), scale, zero)   ->   FakeQuantize(x, scale, zero)
    FakeQuantize(Move(FakeQuantize(x, s, z)), s, z)                 ->   Move(FakeQuantize(x, s, z))

Both nodes have the same scale and zero point, as one value or as equal constants, and the same axis and types. x and
the scale are float32, the integers have 8 or 16 bits. Nobody else reads the integers.

The second rule is for operators that pick and move elements (or put in a 0, which is always a whole number of steps),
with one scale for all elements. Sound because a whole number of steps, divided by the step, is that number up to two
roundings, far from the next half.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.stages import step

_INTEGERS = (ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.UINT16, ir.DataType.INT16)
_MOVES = ("Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "MaxPool", "Relu")
_LARGEST = 1 << 16


@step("fake-quantize")
def run(model: ir.Model) -> int:
    """Merge each pair of a quantisation and a dequantisation; return how many rewrites that took."""
    return sweep(model, {"DequantizeLinear": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    quantize = made_by(edit, node.inputs[0], "QuantizeLinear")
    if quantize is None or not is_private(edit, node.inputs[0]) or not _is_plain(quantize) or not _is_plain(node):
        return
    x, scale, zero = (*quantize.inputs, None)[:3]
    _, other_scale, other_zero = (*node.inputs, None)[:3]
    if not (_is_same(scale, other_scale) and _is_same(zero, other_zero)) or x is None or scale is None:
        return
    axis = attribute(quantize, "axis", 1)
    if axis is None or axis != attribute(node, "axis", 1) or quantize.outputs[0].dtype not in _INTEGERS:
        return
    if x.dtype != ir.DataType.FLOAT or scale.dtype != ir.DataType.FLOAT:
        return
    if _has_steps(edit, x, scale, zero) and edit.can_redirect(node.outputs[0], x):
        edit.bypass(node, x)
        drop_unused(edit, [quantize])
        return
    fake = edit.replace(node, "FakeQuantize", [x, scale, zero], [ir.AttrInt64("axis", axis)], domain=DOMAIN)
    fake.name = None  # the quantiser named it after the node that made x, not after the one that rounds
    drop_unused(edit, [quantize])


def _is_plain(node: ir.Node) -> bool:
    return not node.attributes.keys() - {"axis", "saturate"}


def _is_same(first: ir.Value | None, second: ir.Value | None) -> bool:
    """Tell whether both are one value, or constants with equal elements."""
    if first is second:
        return True
    one, other = constant(first), constant(second)
    if one is None or other is None or one.dtype != other.dtype or one.size > _LARGEST:
        return False
    return np.array_equal(one.numpy(), other.numpy())


def _has_steps(edit: Edit, x: ir.Value, scale: ir.Value, zero: ir.Value | None) -> bool:
    """Tell whether `x` is a whole number of these steps already."""
    move = made_by(edit, x, *_MOVES)
    before = made_by(edit, x if move is None else move.inputs[0], "FakeQuantize", domain=DOMAIN)
    if before is None:
        return False
    tensor = constant(scale)
    one_scale = tensor is not None and tensor.size == 1 and bool(np.isfinite(tensor.numpy()).all())
    return one_scale and _is_same(before.inputs[1], scale) and _is_same(before.inputs[2], zero)
