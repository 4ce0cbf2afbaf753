"""Fold a batch norm behind a convolution into the convolution's weight and bias.

    BatchNormalization(Conv(x, w, b), scale, bias, mean, var)   ->   Conv(x, w', b')

with w' = w * k and b' = (b - mean) * k + bias, where k = scale / sqrt(var + epsilon), for each output channel. The same
for ConvTranspose, whose output channels are on the second axis of the weight, in groups.

It applies if all numbers are constants, nobody else reads the convolution, and the norm uses its stored statistics: not
in training mode, and with one output. Sound because both are linear in each channel. The new numbers are computed in
float64 and rounded once.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import is_private, made_by
from onnxlift.ir.graph.nodes import attribute
from onnxlift.stages import step

from .parts.convolutions import CONVOLUTIONS, numbers, scale_channels


@step("batch-norms", repeats=True)
def run(model: ir.Model) -> int:
    """Fold batch norms into convolutions; return how many."""
    return sweep(model, {"BatchNormalization": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    convolution = made_by(edit, node.inputs[0], *CONVOLUTIONS)
    is_training = attribute(node, "training_mode", 0) or (edit.opset(node) < 7 and not attribute(node, "is_test", 0))
    if convolution is None or is_training or not is_private(edit, node.inputs[0]) or len(node.outputs) != 1:
        return
    arrays = [numbers(value) for value in node.inputs[1:]]
    known = [array for array in arrays if array is not None]
    if len(known) < len(arrays):
        return
    scale, bias, mean, variance = known
    factor = scale / np.sqrt(variance + attribute(node, "epsilon", 1e-5))
    scale_channels(edit, convolution, node, factor, bias - mean * factor)
