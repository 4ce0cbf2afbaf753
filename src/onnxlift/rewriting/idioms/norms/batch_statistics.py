"""Batch normalisation by the statistics of the batch (`track_running_stats=False` in PyTorch) is one layer.

    BatchNormalization(x, weight, bias, mean of x, variance of x)             ->   BatchStatisticsNorm(x, weight, bias)
    BatchNormalization(x, weight, bias, .., ..), which computes statistics    ->   the same

PyTorch's newer exporter writes a layer that keeps no statistics in the first form, the older one in the second form.

The mean and the variance are taken over all axes but that of the channels. In the second form nobody may read the new
statistics, and the old statistics may not be constants: constants are the statistics of a layer that keeps them. The
result has no weight and bias if an exporter made these of ones and zeros (see `norms_without_weights.py`).

It applies to models from PyTorch only, because PyTorch's layer refuses a batch with a single number for each channel.
It runs after the idiom of variances. Sound because this is what the layer computes.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_filler, made_by
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.origin.exporter import exporter_of
from onnxlift.stages import step


@step("batch-statistics", after={"variance": "it looks for the variance of a batch as one node"})
def run(model: ir.Model) -> int:
    """Recognise normalisations by the statistics of a batch; return how many."""
    return sweep(model, {"BatchNormalization": _visit}) if exporter_of(model).is_pytorch else 0


def _visit(edit: Edit, node: ir.Node) -> None:
    x, weight, bias, mean, variance = node.inputs
    shape = shape_of(x)
    if x is None or shape is None or not 2 <= len(shape) <= 5 or not isinstance(shape[1], int):
        return
    if any(output.uses() or edit.is_output(output) for output in node.outputs[1:]):
        return
    if not all(_is_channels(value, x) for value in (weight, bias)):
        return
    makers = [made_by(edit, mean, "ReduceMean"), made_by(edit, variance, "Variance", domain=DOMAIN)]
    if attribute(node, "training_mode", 0):
        if constant(mean) is not None or constant(variance) is not None:
            return
    elif not all(maker is not None and _is_of_all(maker, x, len(shape)) for maker in makers):
        return
    is_affine = not is_filler(weight, 1) or not is_filler(bias, 0)
    options = [ir.AttrInt64("channels", shape[1]), ir.AttrFloat32("epsilon", attribute(node, "epsilon", 1e-5))]
    inputs = [x, *((weight, bias) if is_affine else (None, None))]
    edit.join([node], "BatchStatisticsNorm", inputs, options, before=node, domain=DOMAIN)
    drop_unused(edit, [maker for maker in makers if maker is not None])


def _is_channels(value: ir.Value | None, x: ir.Value) -> bool:
    return constant(value) is not None and value is not None and value.dtype == x.dtype


def _is_of_all(node: ir.Node, x: ir.Value, rank: int) -> bool:
    """Tell whether a mean or a variance is that of each channel of `x`, over all other axes."""
    axes = axes_of(node)
    over = None if axes is None else sorted(axis % rank for axis in axes)
    options = [attribute(node, name, default) for name, default in (("keepdims", 1), ("unbiased", 0), ("root", 0))]
    return node.inputs[0] is x and options == [0, 0, 0] and over == [axis for axis in range(rank) if axis != 1]
