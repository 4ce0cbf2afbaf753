"""Let a gate that is added to what it gates count from one: a node less over the whole feature map.

    Add(x, Mul(x, HardSigmoid(Conv(y, w, b))))   ->   Mul(x, Clip(Conv(y, alpha * w, alpha * b + beta + 1), 1, 2))

`x + x * g` is `x * (1 + g)`, and a HardSigmoid is `alpha * z + beta` between 0 and 1. It applies if nobody else reads
the values in between, and the weight and the bias of the convolution are constants. PaddleOCR's detectors have such
gates in every block and in their necks. Sound up to the rounding of `1 + g`, as for other factors of a convolution
(`channel_arithmetic.py`).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import both_orders, is_private, made_by
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.stages import step

from .parts.convolutions import CONVOLUTIONS, channels_of, scale_channels

_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
"""In half precision, the sum with one would cost the gate digits."""


@step("gated-residuals", repeats=True)
def run(model: ir.Model) -> int:
    """Write sums with gated values as products; return how many."""
    return sweep(model, {"Add": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    for x, gated in both_orders(node):
        product = made_by(edit, gated, "Mul")
        if product is None or not is_private(edit, gated) or x.dtype not in _FLOATS:
            continue
        for own, gate in both_orders(product):
            if own is x and _count_from_one(edit, node, product, x, gate):
                return


def _count_from_one(edit: Edit, node: ir.Node, product: ir.Node, x: ir.Value, gate: ir.Value) -> bool:
    """Put `x * (1 + gate)` in the place of a sum; tell whether the gate is one of those above."""
    sigmoid = made_by(edit, gate, "HardSigmoid")
    convolution = None if sigmoid is None else made_by(edit, sigmoid.inputs[0], *CONVOLUTIONS)
    count = None if convolution is None else channels_of(convolution)
    if sigmoid is None or convolution is None or count is None:
        return False
    if not is_private(edit, gate) or not is_private(edit, sigmoid.inputs[0]):
        return False
    alpha, beta = (float(attribute(sigmoid, name, default)) for name, default in (("alpha", 0.2), ("beta", 0.5)))
    place = list(product.inputs).index(gate)
    if not scale_channels(edit, convolution, sigmoid, np.full(count, alpha), np.full(count, beta + 1)):
        return False
    line = product.inputs[place]
    assert line is not None and x.dtype is not None
    limits, attributes = _limits(edit, node, x.dtype)
    shape = shape_of(line)
    clipped = edit.insert(
        node, "Clip", [line, *limits], attributes, like=line, shape=shape or (), name=f"{node.outputs[0].name}.gate"
    )
    if shape is None:
        clipped.shape = None
    edit.replace(node, "Mul", [x, clipped])
    edit.drop(product)
    return True


def _limits(edit: Edit, node: ir.Node, dtype: ir.DataType) -> tuple[list[ir.Value], list[ir.Attr]]:
    """Return the limits 1 and 2 of a Clip: inputs since opset 11, attributes before."""
    if edit.opset(node) < 11:
        return [], [ir.AttrFloat32("min", 1.0), ir.AttrFloat32("max", 2.0)]
    name = node.outputs[0].name
    numbers = {f"{name}_least": 1, f"{name}_most": 2}
    return [edit.constant(name, np.array(number, dtype.numpy())) for name, number in numbers.items()], []
