"""What quantises or dequantises values of a model, with steps that the model fixes, is a layer that holds these steps.

    QuantizeLinear(x, scale, zero)     ->   Quantize(x, scale, zero)
    DequantizeLinear(x, scale, zero)   ->   Dequantize(x, scale, zero)

scale is a constant of one float32, zero a constant of one integer of 8 or 16 bits, or missing. x is computed: a
constant that is dequantised is a weight. Not for the operators' further ways: other types to compute in, and
no saturation.

Equal blocks differ in nothing else but these steps. In a layer, they are in the state dict, and the blocks are of one
class. Sound because the layers compute what the operators do.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN
from onnxlift.ir.graph.constants import constant
from onnxlift.stages import step

_INTEGERS = (ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.UINT16, ir.DataType.INT16)


@step(
    "quantisers",
    after={
        "fake-quantize": "what is quantised and dequantised at once is one layer",
        "quantized-layers": "it looks for weights that are dequantised",
        "dynamic-conv": "it looks for operators of ONNX, too",
    },
)
def run(model: ir.Model) -> int:
    """Make layers of what quantises and dequantises; return how many."""
    return sweep(model, {"QuantizeLinear": _visit, "DequantizeLinear": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    x, scale, zero = (*node.inputs, None)[:3]
    if x is None or constant(x) is not None or node.attributes.keys() - {"axis"}:
        return
    is_quantising = node.op_type == "QuantizeLinear"
    numbers, integers = (x, node.outputs[0]) if is_quantising else (node.outputs[0], x)
    if not has_one_step(scale, zero) or numbers.dtype != ir.DataType.FLOAT or integers.dtype not in _INTEGERS:
        return
    layer = edit.replace(node, "Quantize" if is_quantising else "Dequantize", [x, scale, zero], domain=DOMAIN)
    layer.name = None  # a quantiser calls it after the value


def has_one_step(scale: ir.Value | None, zero: ir.Value | None) -> bool:
    """Tell whether scale and zero point are constants of one element. The zero point may be missing."""
    step, point = constant(scale), constant(zero)
    fits = zero is None or (point is not None and point.size == 1)
    return fits and step is not None and step.size == 1 and step.dtype == ir.DataType.FLOAT
