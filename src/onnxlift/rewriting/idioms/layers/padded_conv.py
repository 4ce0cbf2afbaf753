"""A convolution with a padding other than zeros is one layer.

    Conv(Pad(x, pads, mode), W, B)   ->   PaddedConv(x, W, B, pads, mode)       mode: reflect, edge or wrap

This is `nn.Conv2d(..., padding_mode="reflect")`. The pads must be the same on both sides of an axis, and zero for batch
and channels. The convolution has no pads of its own. W and B are constants, as in a layer. Not if another node reads
the padded x.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of, static_elements
from onnxlift.ir.origin.tensors import may_be_trained
from onnxlift.stages import step

_MODES = ("reflect", "edge", "wrap")


@step(
    "padded-conv",
    after={
        "circular-pad": "one of the ways of padding is circular",
        "conv-bias": "a bias is found beside a plain convolution only",
        "weight-norm": "a weight that is computed from others counts as a constant by then",
        "spectral-norm": "a weight that is computed from others counts as a constant by then",
    },
)
def run(model: ir.Model) -> int:
    """Recognise convolutions with a padding other than zeros; return how many."""
    return sweep(model, {"Conv": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if attribute(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return
    pad, shape = made_by(edit, node.inputs[0], "Pad"), shape_of(node.inputs[1])
    pad = pad or made_by(edit, node.inputs[0], "CircularPad", domain=DOMAIN)
    if pad is None or shape is None or any(attribute(node, "pads", ())) or not is_private(edit, node.inputs[0]):
        return
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if not may_be_trained(node.inputs[1]) or (bias is not None and constant(bias) is None):
        return
    mode = attribute(pad, "mode", "constant")
    pads = static_elements(pad.inputs[1]) if len(pad.inputs) > 1 else attribute(pad, "pads", None)
    if mode not in _MODES or pads is None or len(shape) > 5 or any(axes is not None for axes in pad.inputs[3:]):
        return
    begin, end = tuple(pads[: len(shape)]), tuple(pads[len(shape) :])
    if begin != end or any(begin[:2]) or not all(size > 0 for size in begin[2:]):
        return
    options = [each for each in node.attributes.values() if each.name in ("dilations", "group", "strides")]
    options += [ir.AttrInt64s("pads", begin[2:]), ir.AttrString("mode", mode)]
    edit.replace(node, "PaddedConv", [pad.inputs[0], *node.inputs[1:]], options, domain=DOMAIN)
    drop_unused(edit, [pad])
