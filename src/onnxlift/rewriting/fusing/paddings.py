"""Fold a padding with zeros into the convolution behind it.

    Conv(Pad(x, pads), w, pads=q)   ->   Conv(x, w, pads=pads + q)

It applies if the padding is of zeros, by constant widths that are not negative, on axes that the convolution slides
over, nobody else reads the padded tensor, and the convolution has explicit pads (`auto_pad` of SAME depends on the
size). Sound because a convolution pads with zeros itself.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import drop_unused, is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank
from onnxlift.stages import step


@step("paddings", repeats=True)
def run(model: ir.Model) -> int:
    """Fold paddings into convolutions; return how many."""
    return sweep(model, {"Conv": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    pad = made_by(edit, node.inputs[0], "Pad")
    weight = node.inputs[1]
    if pad is None or weight is None or weight.shape is None or not is_private(edit, node.inputs[0]):
        return
    spatial = len(weight.shape) - 2
    padding = attribute(node, "auto_pad", "NOTSET")
    widths = _widths(edit, pad, spatial + 2)
    if widths is None or padding not in ("NOTSET", "VALID"):
        return
    own = list(attribute(node, "pads", None) or [0] * (2 * spatial)) if padding == "NOTSET" else [0] * (2 * spatial)
    begins, ends = widths[2 : spatial + 2], widths[spatial + 4 :]
    pads = [int(a) + int(b) for a, b in zip((*begins, *ends), own, strict=True)]
    attributes = [each for name, each in node.attributes.items() if name not in ("pads", "auto_pad")]
    edit.replace(node, "Conv", [pad.inputs[0], *node.inputs[1:]], [*attributes, ir.AttrInt64s("pads", pads)])
    drop_unused(edit, [pad])


def _widths(edit: Edit, pad: ir.Node, axes: int) -> list[int] | None:
    """Return how much a Pad adds to the begin of all axes, then to their ends; None if it is not of this kind."""
    is_zero = attribute(pad, "mode", "constant") == "constant" and attribute(pad, "value", 0.0) == 0
    if not is_zero or rank(pad.inputs[0]) != axes:
        return None
    if edit.opset(pad) < 11:
        widths = list(attribute(pad, "pads", None) or ())
    else:
        amount = constant(pad.inputs[2]) if len(pad.inputs) > 2 and pad.inputs[2] is not None else None
        fills = len(pad.inputs) < 3 or pad.inputs[2] is None or (amount is not None and not amount.numpy().any())
        given = constant(pad.inputs[1])
        if not fills or given is None:
            return None
        widths = _for_all_axes(pad, [int(width) for width in given.numpy().reshape(-1)], axes)
    is_usual = len(widths) == 2 * axes and min(widths, default=0) >= 0
    inside = [*widths[:2], *widths[axes : axes + 2]]
    return widths if is_usual and not any(inside) else None


def _for_all_axes(pad: ir.Node, widths: list[int], axes: int) -> list[int]:
    """Return the widths for all axes, where a Pad (since opset 18) lists only some of them; [] if they are computed."""
    listed = pad.inputs[3] if len(pad.inputs) > 3 else None
    if listed is None:
        return widths
    known = constant(listed)
    if known is None:
        return []
    full = np.zeros(2 * axes, np.int64)
    named = [int(axis) % axes for axis in known.numpy()]
    for place, axis in enumerate(named):
        full[axis], full[axes + axis] = widths[place], widths[len(named) + place]
    return [int(width) for width in full]
