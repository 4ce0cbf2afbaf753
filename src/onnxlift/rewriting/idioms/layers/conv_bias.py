"""A number for each channel that is added to a convolution is its bias.

    Add(Conv(x, W), b)            ->   Conv(x, W, b)
    Add(ConvTranspose(x, W), b)   ->   ConvTranspose(x, W, b)

as Paddle and TensorFlow write it. b is a constant with one number for each output channel and no other axis longer
than 1, and no axis more than the result, or a constant that a Reshape or Unsqueeze gives that form; the convolution has
no bias yet, and nobody else reads it. W is a constant, as in a layer.

Not in a model from PyTorch, whose exporters write a layer's bias into the convolution: what is added there is something
else, with a name of its own. The sum is the same but for the order in which it may be rounded.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import both_orders, drop_unused, is_private, made_by
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.origin.exporter import exporter_of
from onnxlift.rewriting.idioms.parts.biases import is_per_channel, row_of
from onnxlift.stages import step


@step("conv-bias")
def run(model: ir.Model) -> int:
    """Give convolutions their biases; gives how many."""
    return 0 if exporter_of(model).is_pytorch else sweep(model, {"Add": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    for value, bias in both_orders(node):
        conv = made_by(edit, value, "Conv", "ConvTranspose")
        if conv is None or any(each is not None for each in conv.inputs[2:]) or not is_private(edit, value):
            continue
        channels = _channels(conv)
        row = row_of(edit, bias, channels) if channels is not None and is_per_channel(bias, channels, value) else None
        if row is None:
            near_miss(node, "what is added is not a constant with one number for each channel, or the kernel is none")
            continue
        options = list(conv.attributes.values())
        edit.replace(node, conv.op_type, [*conv.inputs[:2], row], options, named_by=conv)
        drop_unused(edit, [conv])
        return


def _channels(conv: ir.Node) -> int | None:
    """How many channels come out, if the weight is a constant."""
    shape = shape_of(conv.inputs[1]) if constant(conv.inputs[1]) is not None else None
    if shape is None:
        return None
    channels = shape[0] if conv.op_type == "Conv" else shape[1]
    group = 1 if conv.op_type == "Conv" else attribute(conv, "group", 1)
    return channels * group if isinstance(channels, int) and isinstance(group, int) else None
