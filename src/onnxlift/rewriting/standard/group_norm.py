"""Write a group norm that is spelled out as GroupNormalization, which ONNX has with weights by channel since opset 21.

    InstanceNormalization of groups, reshaped back, * weight + bias   ->   GroupNormalization(x, weight, bias)

The idiom `group-norm` says what counts as one. The operator must have a weight and a bias: without them it gets
ones and zeros. Its weights have one axis.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.rewriting.idioms.norms import group_norm
from onnxlift.stages import step

from .parts.spelling import Recognised, Standard, fuse


@step("standard-group-norm")
def run(model: ir.Model) -> int:
    """Write group norms as GroupNormalization; return how many."""
    return fuse(model, group_norm.run, {"GroupNorm": (21, _group_norm)})


def _group_norm(found: Recognised) -> Standard | None:
    x, shape = found.input(0), shape_of(found.input(0))
    if x is None or shape is None or x.dtype == ir.DataType.DOUBLE:
        return None
    weights = [_by_channel(found, x, shape[1], index) for index in (1, 2)]
    if any(weight is None for weight in weights):
        return None
    attributes = {"num_groups": found.option("num_groups"), "epsilon": found.option("epsilon")}
    return Standard("GroupNormalization", [x, *weights], attributes)


def _by_channel(found: Recognised, x: ir.Value, channels: int | str | None, index: int) -> ir.Value | None:
    """Return the weight (1) or the bias (2) as a list of one number for each channel."""
    weight = found.input(index)
    if weight is None:
        return found.filled(2 - index, [channels], x)
    tensor, shape = constant(weight), shape_of(weight)
    if tensor is None or shape is None or math.prod(tensor.shape.numpy()) != channels or weight.dtype != x.dtype:
        return None
    if len(shape) == 1:
        return weight
    return found.edit.constant(f"{weight.name}.flat", np.ascontiguousarray(tensor.numpy().reshape(-1)))
