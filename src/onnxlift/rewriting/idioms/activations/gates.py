"""Activations of the form `x * gate(x)`, and ReLU6, are one function each.

    x * Sigmoid(x)                                     ->   SiLU(x)
    x * Tanh(Softplus(x))                              ->   Mish(x)
    x * Clip(x + 3, 0, 6) / 6                          ->   HardSwish(x)
    x * HardSigmoid(x, alpha=1/6, beta=1/2)            ->   HardSwish(x)
    Clip(x, 0, 6)                                      ->   ReLU6(x)

The factors may have any order and grouping. Not if another node reads the gate, nor with other numbers: `x * Sigmoid(c
* x)` stays as it is. The last rule applies to a Clip that is not part of a HardSwish.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import (
    DOMAIN,
    arithmetic_after,
    drop_unused,
    is_private,
    made_by,
    polynomial,
    with_number,
)
from onnxlift.ir.graph.constants import number
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.types import is_close, is_float
from onnxlift.stages import step


@step("gates")
def run(model: ir.Model) -> int:
    """Recognise gated activations; return how many."""
    return sweep(model, {("Sigmoid", "Tanh", "HardSigmoid", "Clip"): _gated}) + sweep(model, {"Clip": _relu6})


def _gated(edit: Edit, node: ir.Node) -> None:
    found = _gate(edit, node)
    if found is None:
        return
    op_type, x, coefficient, nodes = found
    for last in arithmetic_after(edit, node):
        outer = polynomial(edit, last.outputs[0])
        if outer is not None and outer.equals({(x, node.outputs[0]): coefficient}, x.dtype):
            edit.replace(last, op_type, [x], domain=DOMAIN)
            drop_unused(edit, [*outer.nodes, node, *nodes])
            return


def _gate(edit: Edit, node: ir.Node) -> tuple[str, ir.Value, float, list[ir.Node]] | None:
    """Return the activation that `node` is the gate of, with x, the coefficient of `x * gate`, and the nodes before the
    gate.

    For example `Clip(x + 3, 0, 6)` gives HardSwish, x, 1 / 6 and the Add.
    """
    x = node.inputs[0]
    if x is None or not is_float(node.outputs[0]):
        return None
    if node.op_type == "Sigmoid":
        return "SiLU", x, 1.0, []
    if node.op_type == "Tanh":
        softplus = made_by(edit, x, "Softplus")
        if softplus is not None and softplus.inputs[0] is not None and is_private(edit, x):
            return "Mish", softplus.inputs[0], 1.0, [softplus]
    elif node.op_type == "HardSigmoid":
        slope, offset = attribute(node, "alpha", 0.2), attribute(node, "beta", 0.5)
        if slope is not None and is_close(slope, 1 / 6, ir.DataType.FLOAT) and offset == 0.5:
            return "HardSwish", x, 1.0, []
    elif _bounds(node) == (0, 6) and is_private(edit, x):
        add = made_by(edit, x, "Add")
        shifted = with_number(add) if add is not None else None
        if add is not None and shifted is not None and shifted[1] == 3:
            return "HardSwish", shifted[0], 1 / 6, [add]
    return None


def _relu6(edit: Edit, node: ir.Node) -> None:
    if is_float(node.inputs[0]) and _bounds(node) == (0, 6):
        edit.replace(node, "ReLU6", [node.inputs[0]], domain=DOMAIN)


def _bounds(node: ir.Node) -> tuple[float | None, float | None]:
    """Return the bounds of a Clip if they are numbers: attributes before opset 11, inputs since."""
    if len(node.inputs) > 1:
        low, high = (*node.inputs[1:3], None)[:2]
        return number(low), number(high)
    return attribute(node, "min", None), attribute(node, "max", None)
