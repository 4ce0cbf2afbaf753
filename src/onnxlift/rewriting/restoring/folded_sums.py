"""Restore the weight of a norm that an exporter has added one to.

    Mul(x, add_127), computed from norm.weight and a number   ->   Mul(x, Add(norm.weight, 1))

Some norms scale by `1 + weight` (Gemma's, Nemotron's), so that their weights start with zeros. PyTorch's newer exporter
computes the sum ahead of time. It notes what the sum is of, but not the number. If the sum were taken for the weight,
it would have the key of another tensor: a checkpoint of the original would load without an error, and the model would
compute something else.

It applies to a vector that is the result of one `add` of a number and one parameter called a weight, if that parameter
is not in the file. The number is one in all such norms. Sound because 1 + (sum - 1) must be the sum again, bit by bit.
The weight equals the original's except for what the exporter's addition has rounded away.
"""

from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep, weight_initialiser
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import DataType
from onnxlift.ir.origin.exported import Program, read_program
from onnxlift.ir.origin.tensors import folded_from
from onnxlift.stages import step

_REASON = "the exporter notes that it has added a number to it, which is taken off again"
_SUM = re.compile(r"add(_\d+)?")
_NUMBER = re.compile(r"val_\d+|scalar_tensor\w*")
_AS_WEIGHT = re.compile(r"scalar_tensor\w* val_\d+")  # the number, and the same cast to the type of the weight


@step(
    "folded-sums",
    after={"merged-parameters": "a sum that was stored once for several norms is each norm's own by then"},
)
def run(model: ir.Model) -> int:
    """Take these sums of the main graph apart; return how many."""
    program = read_program(model.graph)
    weights: dict[ir.Value, ir.Value] = {}
    for value in list(model.graph.initializers.values()) if program is not None else ():
        name = _weight(value, program) if program is not None else None
        tensor = constant(value)
        if name is None or name in model.graph.initializers or tensor is None:
            continue
        total = tensor.numpy()
        weight = total - np.float32(1)
        if (weight + np.float32(1)).tobytes() == total.tobytes():
            weights[value] = weight_initialiser(model.graph, name, weight, _REASON, is_named=True)

    def visit(edit: Edit, node: ir.Node) -> None:
        for place, value in enumerate(node.inputs):
            if value in weights:
                inputs = [weights[value], edit.constant("one", np.array(1, np.float32))]
                shape = shape_of(value) or ()
                total = edit.insert(node, "Add", inputs, like=value, shape=shape, name=value.name or "")
                node.replace_input_with(place, total)

    if weights:
        sweep(model, visit)
    return len(weights)


def _weight(value: ir.Value, program: Program) -> str | None:
    """Return the name of the parameter whose sum with a number is this vector; None if it is no such sum."""
    if value.dtype != DataType.FLOAT or value.shape is None or len(value.shape) != 1:
        return None
    sources = folded_from(value)
    parameters = [name for name in sources if name in program.names]
    others = [name for name in sources if name not in program.names]
    number = " ".join(sorted(others))
    is_sum = _SUM.fullmatch(value.name or "") and (_NUMBER.fullmatch(number) or _AS_WEIGHT.fullmatch(number))
    return parameters[0] if is_sum and len(parameters) == 1 and parameters[0].endswith(".weight") else None
