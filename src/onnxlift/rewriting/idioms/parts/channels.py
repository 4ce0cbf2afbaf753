"""Follow the axis of channels that layers make through the nodes behind them.

    h = Conv(x, W)        channels are axis 1 of h
    t = Transpose(h)      and the last axis of t, if that is where it goes
    y = Linear(t, M)      the last axis of y, whatever those of t were

A value that is not computed from the result of a layer has no such axis. The axis may also be lost: taken by a
reduction, or divided by a reshape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from onnxlift.ir.graph.axes import axes_of, permutation
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.ir.origin.tensors import may_be_trained

Axes = Mapping[ir.Value | None, int | None]
"""A value that is computed from the result of a layer -> the axis of its channels; None if it was lost."""

_FIRST = frozenset(
    "BatchNormalization Conv ConvTranspose DeformConv DynamicQuantizedConv GroupNorm GroupNormalization "
    "InstanceNormalization PaddedConv QLinearConv".split()
)
_LAST = frozenset(
    "BareLinear Bilinear DynamicQuantizedLinear Embedding GRU Gemm LSTM LayerNormalization Linear MultiheadAttention "
    "QLinearMatMul RMSNormalization RNN".split()
)
_CUTTING = frozenset({"Concat", "Pad", "Slice", "Split"})
_ELEMENTWISE = frozenset("Add And Div Equal Greater Less Max Mean Min Mod Mul Or PRelu Pow Sub Sum Where Xor".split())


def channel_axes(graph: ir.Graph) -> Axes:
    """Return the axis of channels of each value of a graph that is computed from the result of a layer."""
    found: dict[ir.Value | None, int | None] = {}
    for node in graph:
        is_behind = any(value in found for value in node.inputs if value is not None)
        for output in node.outputs:
            axis = _axis(node, output, found)
            if is_behind or axis is not None:
                found[output] = axis
    return found


def _axis(node: ir.Node, output: ir.Value, known: Axes) -> int | None:
    """Return the axis of channels of an output of a node; None if it has none."""
    axis_count, first = rank(output), next(iter(node.inputs), None)
    if not axis_count:
        return None
    if node.op_type in _FIRST:
        return 1 if axis_count > 1 else None
    if node.op_type in _LAST or (node.op_type == "MatMul" and _multiplies_channels(node, known)):
        return axis_count - 1
    if node.op_type == "MatMul":
        return None
    axis = known.get(first)
    if node.op_type in ("Reshape", "Flatten"):
        return None if axis is None else _reshaped(shape_of(first), shape_of(output), axis)
    moved = None if axis is None else _moved(node, rank(first) or 0, axis)
    return next(_kept(node, output, axis_count, known) if moved is None else moved, None)


def _multiplies_channels(node: ir.Node, known: Axes) -> bool:
    """Tell whether a product has channels in its last axis: those of a constant matrix, or of its second factor."""
    if any(may_be_trained(value) for value in node.inputs):
        return True
    second = node.inputs[1]
    return known.get(second) == (rank(second) or 0) - 1


def _moved(node: ir.Node, axis_count: int, axis: int) -> Iterator[int] | None:
    """Yield where an axis goes, if the node moves or takes axes of its first input; None if it does not."""
    if node.op_type == "Transpose":
        order = permutation(node)
        return iter(() if order is None else [list(order).index(axis)])
    if node.op_type == "Unsqueeze":
        axes = axes_of(node)
        if axes is None:
            return iter(())
        new = {place % (axis_count + len(axes)) for place in axes}
        kept = [place for place in range(axis_count + len(new)) if place not in new]
        return iter(kept[axis : axis + 1])
    if node.op_type in ("SpatialMean", "Squeeze") or node.op_type.startswith("Reduce"):
        if rank(node.outputs[0]) == axis_count:
            return None
        axes = axes_of(node)
        if axes is None:
            return iter(())
        taken = {place % axis_count for place in axes}
        return iter(() if axis in taken else [axis - sum(place < axis for place in taken)])
    return None


def _reshaped(
    before: Sequence[int | str | None] | None, after: Sequence[int | str | None] | None, axis: int
) -> int | None:
    """Return the axis that has the same size after a Reshape, with the same axes behind it or before it.

    Axes of size 1 do not count."""
    if before is None or after is None:
        return None
    for place, size in enumerate(after):
        if size == before[axis] and (
            _longer(before[axis + 1 :]) == _longer(after[place + 1 :])
            or _longer(before[:axis]) == _longer(after[:place])
        ):
            return place
    return None


def _longer(sizes: Sequence[int | str | None]) -> list[object]:
    return [object() if size is None else size for size in sizes if size != 1]  # what is not known equals nothing


def _kept(node: ir.Node, output: ir.Value, axis_count: int, known: Axes) -> Iterator[int]:
    """Yield the axes of the inputs that are axes of the output as well, since their places and sizes agree."""
    sizes = shape_of(output)
    if sizes is None:
        return  # a sequence has no axes, though it has a shape: that of its elements
    for value in node.inputs:
        axis, shape = known.get(value), shape_of(value) or ()
        if axis is None:
            continue
        is_aligned = len(shape) == axis_count or node.op_type in _ELEMENTWISE
        place = axis + axis_count - len(shape)  # axes are counted from the last
        if is_aligned and (sizes[place] == shape[axis] is not None or node.op_type in _CUTTING):
            yield place
