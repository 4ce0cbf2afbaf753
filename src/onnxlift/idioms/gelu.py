"""The Gaussian error linear unit, spelled out.

    x * 0.5 * (1 + Erf(x / sqrt(2)))                                   ->   Gelu(x)
    x * 0.5 * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))       ->   Gelu(x, approximate="tanh")

in any order and grouping: both sides are compared as polynomials. `x * Sigmoid(1.702 * x)` is another function and
stays as it is. Not if another node reads a part of it.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from ..passes.edit import Edit, is_standard, sweep
from .match import DOMAIN, drop_unused, is_float, is_private, made_by, polynomial

_TANH_SCALE = math.sqrt(2 / math.pi)


def run(model: ir.Model) -> int:
    """Recognise GELU in both forms; gives how often."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    if not is_standard(node, "Mul", "Div", "Add") or not is_float(node.outputs[0]):
        return
    outer = polynomial(edit, node.outputs[0])
    if outer is None or len(outer.terms) != 2:
        return
    (x, *more), (first, *second) = sorted(outer.terms, key=len)[0] or (None,), sorted(outer.terms, key=len)[1]
    if x is None or more or len(second) != 1:
        return
    curve = second[0] if first is x else first
    if not outer.equals({(x,): 0.5, (x, curve): 0.5}, x.dtype) or not is_private(edit, curve):
        return
    function = made_by(edit, curve, "Erf", "Tanh")
    if function is None or function.inputs[0] is None:
        return
    inner = polynomial(edit, function.inputs[0])
    if inner is None:
        return
    if function.op_type == "Erf":
        matches, attributes = inner.equals({(x,): math.sqrt(0.5)}, x.dtype), []
    else:
        matches = inner.equals({(x,): _TANH_SCALE, (x, x, x): _TANH_SCALE * 0.044715}, x.dtype)
        attributes = [ir.AttrString("approximate", "tanh")]
    if matches:
        edit.replace(node, "Gelu", [x], attributes, domain=DOMAIN)
        drop_unused(edit, [*outer.nodes, function, *inner.nodes])
