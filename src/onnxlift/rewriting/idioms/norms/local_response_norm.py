"""Local response normalisation by an average over neighbouring channels is one function.

    s = AveragePool(Pad(x * x with an axis before the channels)), without that axis
    x / (s * alpha + k) ** beta   ->   LRN(x, size, alpha, beta, k)

The window of the pool spans channels only, and moves by one channel at a time. The Pad adds zeros, half a window on
each side, and the average counts them. The divisor must have the shape of x. It follows that `size` is odd (for even
sizes PyTorch and ONNX differ), and that the pool has no pads of its own. x has at least three axes, as PyTorch demands.
Nobody else reads a value in between.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import drop_unused, is_private, made_by, with_number
from onnxlift.ir.graph.constants import number
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of, static_elements
from onnxlift.stages import step

_NEW_AXIS = ("Unsqueeze", "Reshape")
_NO_AXIS = ("Squeeze", "Reshape")


@step("local-response-norm")
def run(model: ir.Model) -> int:
    """Recognise local response normalisation; return how many."""
    return sweep(model, {"Div": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    x, divisor = node.inputs
    power = made_by(edit, divisor, "Pow")
    beta = number(power.inputs[1]) if power is not None else None
    total = made_by(edit, power.inputs[0], "Add") if power is not None else None
    sums = with_number(total) if total is not None else None
    scaled = made_by(edit, sums[0], "Mul") if sums is not None else None
    factors = with_number(scaled) if scaled is not None else None
    if x is None or beta is None or sums is None or factors is None or power is None or total is None or scaled is None:
        return
    found = _average(edit, factors[0], x)
    private = (divisor, power.inputs[0], sums[0], factors[0])
    if found is None or shape_of(divisor) != shape_of(x) or not all(is_private(edit, value) for value in private):
        return
    size, nodes = found
    options = {"alpha": factors[1], "beta": beta, "bias": sums[1]}
    attributes = [ir.AttrFloat32(name, option) for name, option in options.items()]
    edit.replace(node, "LRN", [x], [*attributes, ir.AttrInt64("size", size)])
    drop_unused(edit, [power, total, scaled, *nodes])


def _average(edit: Edit, value: ir.Value, x: ir.Value) -> tuple[int, list[ir.Node]] | None:
    """Return how many channels the squares of `x` are averaged over, and the nodes that do it, the last one first."""
    last = made_by(edit, value, *_NO_AXIS)
    pool = made_by(edit, last.inputs[0], "AveragePool") if last is not None else None
    pad = made_by(edit, pool.inputs[0], "Pad") if pool is not None else None
    first = made_by(edit, pad.inputs[0], *_NEW_AXIS) if pad is not None else None
    square = made_by(edit, first.inputs[0], "Mul") if first is not None else None
    shape = shape_of(x)
    if shape is None or last is None or pool is None or pad is None or first is None or square is None:
        return None
    if not square.inputs[0] is square.inputs[1] is x or len(shape) < 3:
        return None
    kernel, others = attribute(pool, "kernel_shape", None), len(shape) - 2
    if kernel is None or shape_of(first.outputs[0]) != (shape[0], 1, *shape[1:]):
        return None
    size = math.prod(kernel)
    sides = (0, 0, size // 2, *(0,) * others)
    if kernel != (size, *(1,) * others) or not _is_at_each_place(pool, others + 1) or not _is_zero(pad):
        return None
    if static_elements(pad.inputs[1]) != sides * 2:
        return None
    nodes = [last, pool, pad, first, square]
    return (size, nodes) if all(is_private(edit, node.outputs[0]) for node in nodes[1:]) else None


def _is_at_each_place(pool: ir.Node, axes: int) -> bool:
    """Tell whether all strides and dilations of a pool are 1."""
    ones = (1,) * axes
    return all(attribute(pool, name, ones) == ones for name in ("strides", "dilations"))


def _is_zero(pad: ir.Node) -> bool:
    filler = pad.inputs[2] if len(pad.inputs) > 2 else None
    is_constant = attribute(pad, "mode", "constant") == "constant" and len(pad.inputs) in (2, 3)
    return is_constant and (filler is None or number(filler) == 0)
