"""Leave out a bias of zeros that is no parameter.

    Conv(x, w, zeros)   ->   Conv(x, w)

It applies to Conv, ConvTranspose and Gemm (where the bias is C), if the zeros are a constant of the graph: exporters
write them for layers without a bias. A bias that is an initialiser with a name of its own is a parameter, even if it is
zero now. Sound because adding zero can only change the sign of a zero, which a sum of products leaves open.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.origin.tensors import may_be_trained
from onnxlift.stages import step

LARGEST = 1 << 20


@step("zero-biases", repeats=True)
def run(model: ir.Model) -> int:
    """Leave out biases of zeros; return how many."""
    return sweep(model, {("Conv", "ConvTranspose", "Gemm"): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if len(node.inputs) != 3:
        return
    tensor = constant(node.inputs[2])
    if tensor is None or may_be_trained(node.inputs[2]) or tensor.size > LARGEST or tensor.numpy().any():
        return
    node.resize_inputs(2)
    edit.changes += 1
