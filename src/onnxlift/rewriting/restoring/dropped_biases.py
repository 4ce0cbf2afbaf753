"""Put back a bias that an exporter dropped because it was all zeros.

    Gemm(x, head.weight), which says that it read head.bias   ->   Gemm(x, head.weight, head.bias), of zeros
    Conv(x, conv.weight), which a batch norm was folded into  ->   Conv(x, conv.weight, conv.bias), of zeros

The optimiser of PyTorch's newer exporter leaves out biases of Gemm, Conv and ConvTranspose that are zero, as most are
before training. Lifted without it, the model would lack the parameter, and could never train it.

The first rule applies to a node without a bias whose operation (origin/exported.py) reads exactly one parameter called
a bias. The second rule applies if that bias belongs to a norm which was folded into the layer: the norm's shift becomes
the layer's bias. Neither applies if the file has the parameter. Sound because only zeros are added.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import weight_initialiser
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.origin.exported import Program, read_program
from onnxlift.stages import step


@step(
    "dropped-biases",
    after={
        "merged-parameters": "a bias that was stored under the name of an equal one is not dropped",
        "first-steps": "the product that it puts back has lost its bias, too",
    },
)
def run(model: ir.Model) -> int:
    """Add the dropped biases to layers of the main graph; return how many."""
    program, made = read_program(model.graph), 0
    for node in model.graph if program is not None else ():
        if program is None or not is_standard(node, "Gemm", "Conv", "ConvTranspose"):
            continue
        weight, size = node.inputs[1], _outputs(node)
        if weight is None or weight.dtype not in FLOATS or size is None or any(node.inputs[2:]):
            continue
        name = _dropped(node, program)
        if name is not None and name not in model.graph.initializers:
            node.resize_inputs(3)
            array, reason = np.zeros(size, weight.dtype.numpy()), "the file lists it, and has dropped its zeros"
            zeros = weight_initialiser(model.graph, name, array, reason, is_named=True)
            node.replace_input_with(2, zeros)
            made += 1
    return made


def _dropped(node: ir.Node, program: Program) -> str | None:
    """Return the name of the bias that the node had; None if it had none."""
    biases = [name for name in program.parameters_of(node) if name.endswith("bias")]
    if len(biases) != 1:
        return None
    if not program.is_fused(node):
        return biases[0]
    weight = node.inputs[1]
    owner, _, last = (weight.name or "").rpartition(".") if weight is not None else ("", "", "")
    return f"{owner}.bias" if last == "weight" else None


def _outputs(node: ir.Node) -> int | None:
    """Return the number of output features or channels of a layer. Only a constant weight is asked, since shapes that
    the file declares may be wrong."""
    weight = node.inputs[1]
    tensor = constant(weight) if weight is not None else None
    if tensor is None or len(tensor.shape) < 2:
        return None
    rows, columns = tensor.shape.numpy()[:2]
    if node.op_type == "ConvTranspose":
        groups = attribute(node, "group", 1)
        return columns * groups if 0 < groups <= rows else None
    return columns if node.op_type == "Gemm" and not attribute(node, "transB", 0) else rows
