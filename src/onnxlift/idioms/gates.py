"""Activations of the form `x * gate(x)`, and ReLU6.

    x * Sigmoid(x)                                     ->   SiLU(x)
    x * Tanh(Softplus(x))                              ->   Mish(x)
    x * Clip(x + 3, 0, 6) / 6                          ->   HardSwish(x)
    x * HardSigmoid(x, alpha=1/6, beta=1/2)            ->   HardSwish(x)
    Clip(x, 0, 6)                                      ->   ReLU6(x)

in any order and grouping of the factors. Not if another node reads the gate, nor with other numbers: `x * Sigmoid(c *
x)` stays as it is. The last one applies to what is not part of the third.
"""

from __future__ import annotations

import onnx_ir as ir

from ..passes.edit import Edit, attribute, is_standard, sweep
from .match import DOMAIN, Polynomial, drop_unused, is_close, is_float, is_private, made_by, number, polynomial


def run(model: ir.Model) -> int:
    """Recognise gated activations; gives how many."""
    return sweep(model, _gated) + sweep(model, _relu6)


def _gated(edit: Edit, node: ir.Node) -> None:
    if not is_standard(node, "Mul", "Div") or not is_float(node.outputs[0]):
        return
    outer = polynomial(edit, node.outputs[0])
    if outer is None or len(outer.terms) != 1:
        return
    ((factors, coefficient),) = outer.terms.items()
    if len(factors) != 2:
        return
    for x, gate in (factors, factors[::-1]):
        found = _gate(edit, x, gate, coefficient) if is_private(edit, gate) else None
        if found is not None:
            op_type, nodes = found
            edit.replace(node, op_type, [x], domain=DOMAIN)
            drop_unused(edit, [*outer.nodes, *nodes])
            return


def _gate(edit: Edit, x: ir.Value, gate: ir.Value, coefficient: float) -> tuple[str, list[ir.Node]] | None:
    """The activation that `coefficient * x * gate` is, and the nodes that make the gate."""
    node = made_by(edit, gate, "Sigmoid", "Tanh", "Clip", "HardSigmoid")
    if node is None:
        return None
    inner = node.inputs[0]
    match node.op_type:
        case "Sigmoid" if inner is x and coefficient == 1:
            return "SiLU", [node]
        case "Tanh" if coefficient == 1 and is_private(edit, inner):
            softplus = made_by(edit, inner, "Softplus")
            return ("Mish", [node, softplus]) if softplus is not None and softplus.inputs[0] is x else None
        case "HardSigmoid" if inner is x and coefficient == 1:
            slope, offset = attribute(node, "alpha", 0.2), attribute(node, "beta", 0.5)
            exact = slope is not None and is_close(slope, 1 / 6, ir.DataType.FLOAT) and offset == 0.5
            return ("HardSwish", [node]) if exact else None
        case "Clip" if is_close(coefficient, 1 / 6, x.dtype) and _bounds(node) == (0, 6) and is_private(edit, inner):
            shifted: Polynomial | None = polynomial(edit, inner)
            if shifted is not None and shifted.equals({(x,): 1.0, (): 3.0}, x.dtype):
                return "HardSwish", [node, *shifted.nodes]
    return None


def _relu6(edit: Edit, node: ir.Node) -> None:
    if is_standard(node, "Clip") and is_float(node.inputs[0]) and _bounds(node) == (0, 6):
        edit.replace(node, "ReLU6", [node.inputs[0]], domain=DOMAIN)


def _bounds(node: ir.Node) -> tuple[float | None, float | None]:
    """The bounds of a Clip where they are numbers: attributes before opset 11, inputs since."""
    if len(node.inputs) > 1:
        low, high = (*node.inputs[1:3], None)[:2]
        return number(low), number(high)
    return attribute(node, "min", None), attribute(node, "max", None)
