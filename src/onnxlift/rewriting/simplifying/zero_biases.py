"""A bias of zeros that no model was trained with is left out.

    Conv(x, w, zeros)   ->   Conv(x, w)

for Conv, ConvTranspose and Gemm (where it is C), if the zeros are a constant of the graph: exporters write them for
layers without a bias. A bias that is an initialiser with a name of its own is a parameter, also if it is zero now.
Adding zero changes no sum but for the sign of a zero that nothing was added to, which a sum of products leaves open.
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
    """Leave out biases of zeros; gives how many."""
    return sweep(model, {("Conv", "ConvTranspose", "Gemm"): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if len(node.inputs) != 3:
        return
    tensor = constant(node.inputs[2])
    if tensor is None or may_be_trained(node.inputs[2]) or tensor.size > LARGEST or tensor.numpy().any():
        return
    node.resize_inputs(2)
    edit.changes += 1
