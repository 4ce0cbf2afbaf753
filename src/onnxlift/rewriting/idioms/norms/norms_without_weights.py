"""Normalisations that only scale by 1 and shift by 0, because ONNX's operators must do both, have no weights.

    InstanceNormalization(x, ones, zeros)                 ->   InstanceNorm(x)
    BatchNormalization(x, ones, zeros, mean, variance)    ->   BatchNorm(x, mean, variance)

The results are PyTorch's layers with `affine=False`. It applies if the names of the ones and zeros say that an exporter
made them: a layer's own weight may be all ones too, before training. (`layer_norm.py` has the same rule for layer
normalisation. A group normalisation's weights lose their names in the export, so its ones may be a layer's weight.)

Not for the instance normalisation of single elements, which PyTorch refuses, nor for a batch normalisation that
computes statistics. Runs after group normalisation, which contains an instance normalisation of this form. Sound
because a product with one and a sum with zero change nothing but the sign of a zero.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, is_filler
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.stages import step


@step(
    "norms-without-weights",
    after={
        "group-norm": "it is spelled with an instance norm without weights",
        "tracked-instance-norm": "it is spelled with a batch norm, perhaps without weights",
    },
)
def run(model: ir.Model) -> int:
    """Recognise normalisations without weights; return how many."""
    return sweep(model, {("InstanceNormalization", "BatchNormalization"): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    x, weight, bias, *statistics = node.inputs
    if len(node.outputs) != 1 or not is_filler(weight, 1) or not is_filler(bias, 0):
        return
    epsilon, shape = attribute(node, "epsilon", 1e-5), shape_of(x)
    if epsilon is None or shape is None or x is None:
        return
    options = [ir.AttrFloat32("epsilon", epsilon)]
    if node.op_type == "InstanceNormalization":
        if len(shape) <= 5 and any(size != 1 for size in shape[2:]) and isinstance(shape[1], int):
            edit.replace(node, "InstanceNorm", [x], options, domain=DOMAIN)
    elif _is_settled(node) and 2 <= len(shape) <= 5 and all(_is_like(value, x) for value in statistics):
        options.append(ir.AttrFloat32("momentum", attribute(node, "momentum", 0.9)))
        edit.replace(node, "BatchNorm", [x, *statistics], options, domain=DOMAIN)


def _is_settled(node: ir.Node) -> bool:
    """Tell whether a batch normalisation takes the statistics that it is given, one number for each channel."""
    return (attribute(node, "training_mode", 0), attribute(node, "spatial", 1)) == (0, 1)


def _is_like(value: ir.Value | None, x: ir.Value) -> bool:
    return constant(value) is not None and value is not None and value.dtype == x.dtype
