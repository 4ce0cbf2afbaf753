"""One number for each channel, added to a convolution, is its bias.

    Add(Conv(x, W), b)            ->   Conv(x, W, b)
    Add(ConvTranspose(x, W), b)   ->   ConvTranspose(x, W, b)
    Add(Squeeze(Conv(x, W)), b)   ->   Squeeze(Conv(x, W, b))

Paddle and TensorFlow write a bias like this. b is a constant with one number for each output channel; all other axes
have size 1, and it has no more axes than the result. A Reshape or Unsqueeze may give a constant this form. The
convolution has no bias yet, and nobody else reads its result. W is a constant, as in a layer. A Squeeze between them
takes axes behind the channels only: so TensorFlow writes a convolution of one axis as one of two.

Not in a model from PyTorch: its exporters write a layer's bias into the convolution, so an Add is something else, with
a name of its own. The sum is the same, but may be rounded in another order.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import both_orders, drop_unused, is_private, made_by
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.ir.origin.exporter import exporter_of
from onnxlift.rewriting.idioms.parts.biases import is_per_channel, row_of
from onnxlift.stages import step


@step("conv-bias")
def run(model: ir.Model) -> int:
    """Give convolutions their biases; return how many."""
    return 0 if exporter_of(model).is_pytorch else sweep(model, {"Add": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    for value, bias in both_orders(node):
        squeeze = made_by(edit, value, "Squeeze")
        result = value if squeeze is None else squeeze.inputs[0]
        conv = made_by(edit, result, "Conv", "ConvTranspose")
        if conv is None or result is None or any(each is not None for each in conv.inputs[2:]):
            continue
        if not is_private(edit, value) or (squeeze is not None and not _keeps_channels(edit, squeeze)):
            continue
        channels = _channels(conv)
        row = row_of(edit, bias, channels) if channels is not None and is_per_channel(bias, channels, value) else None
        if row is None:
            near_miss(node, "what is added is not a constant with one number for each channel, or the kernel is none")
            continue
        inputs, options = [*conv.inputs[:2], row], list(conv.attributes.values())
        if squeeze is None:
            edit.replace(node, conv.op_type, inputs, options, named_by=conv)
            drop_unused(edit, [conv])
        else:
            shape, name = shape_of(result) or (), f"{result.name}.biased"
            biased = edit.insert(conv, conv.op_type, inputs, options, like=result, shape=shape, name=name)
            squeezed = [biased, *squeeze.inputs[1:]]
            edit.replace(node, "Squeeze", squeezed, list(squeeze.attributes.values()), named_by=squeeze)
            drop_unused(edit, [squeeze, conv])
        return


def _keeps_channels(edit: Edit, squeeze: ir.Node) -> bool:
    """Tell whether a Squeeze takes axes behind the channels only, and is the only reader of what it squeezes."""
    axes, axis_count = axes_of(squeeze), rank(squeeze.inputs[0])
    if axes is None or axis_count is None or squeeze.inputs[0] is None or not is_private(edit, squeeze.inputs[0]):
        return False
    return all(axis % axis_count > 1 for axis in axes)


def _channels(conv: ir.Node) -> int | None:
    """Return the number of output channels, if the weight is a constant."""
    shape = shape_of(conv.inputs[1]) if constant(conv.inputs[1]) is not None else None
    if shape is None:
        return None
    channels = shape[0] if conv.op_type == "Conv" else shape[1]
    group = 1 if conv.op_type == "Conv" else attribute(conv, "group", 1)
    return channels * group if isinstance(channels, int) and isinstance(group, int) else None
