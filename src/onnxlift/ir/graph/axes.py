"""Questions about the axes that a node works on."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from .nodes import attribute, is_standard
from .shapes import shape_of, static_elements


def axes_of(node: ir.Node) -> tuple[int, ...] | None:
    """Return the axes that a reduction, Squeeze or Unsqueeze works on, from its input or attribute.

    They are returned as written, perhaps negative. None if they are not given, or not known; or if they cannot be:
    the number of axes may have become known only after the rules were checked."""
    axes = static_elements(node.inputs[1]) if len(node.inputs) > 1 else attribute(node, "axes", None)
    shape = shape_of(node.inputs[0])
    if axes is not None and shape is not None:
        count = len(shape) + (len(axes) if node.op_type == "Unsqueeze" else 0)
        if not all(-count <= axis < count for axis in axes):
            return None
    return None if axes is None else tuple(axes)


def axis_of(node: ir.Node, axes: int, default: int = 0) -> int | None:
    """Return the attribute `axis` of a node, counted from the front, for a value that has this number of axes.

    None if it is not known, or cannot be: the number of axes may have become known only after the rules were checked.
    """
    axis = attribute(node, "axis", default)
    return axis % axes if isinstance(axis, int) and -axes <= axis < axes else None


def permutation(node: ir.Node) -> Sequence[int] | None:
    """Return the order of axes that a Transpose gives; None if `node` is no Transpose, or the order is unknown."""
    if not is_standard(node, "Transpose") or not node.inputs:
        return None
    order = attribute(node, "perm", ())
    if order is None:
        return None
    if not order:
        shape = shape_of(node.inputs[0])
        return None if shape is None else list(reversed(range(len(shape))))
    return order if sorted(order) == list(range(len(order))) else None


def static_slice(node: ir.Node) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """Return the starts, axes and steps of a Slice, if all of them are known.

    None also before opset 10, where they are attributes and not inputs."""
    if len(node.inputs) < 3:
        return None
    _, start, _, axis, step = (*node.inputs, None, None)[:5]
    starts = static_elements(start) or ()
    axes = tuple(range(len(starts))) if axis is None else static_elements(axis)
    steps = (1,) * len(starts) if step is None else static_elements(step)
    return None if not starts or axes is None or steps is None else (starts, axes, steps)


def swaps_two_axes(node: ir.Node) -> bool:
    """Tell whether `node` is the Transpose of a matrix."""
    order = permutation(node)
    return order is not None and tuple(order) == (1, 0)
