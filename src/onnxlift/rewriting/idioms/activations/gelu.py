"""The Gaussian error linear unit, spelled out, is one function.

    x * 0.5 * (1 + Erf(x / sqrt(2)))                                   ->   Gelu(x)
    x * 0.5 * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))       ->   Gelu(x, approximate="tanh")

The operations may have any order and grouping: both sides are compared as polynomials. `x * Sigmoid(1.702 * x)` is
another function and stays as it is. Not if another node reads a part of it.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, Monomial, arithmetic_after, drop_unused, polynomial
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.types import is_float
from onnxlift.stages import step

_TANH_SCALE = math.sqrt(2 / math.pi)


@step("gelu")
def run(model: ir.Model) -> int:
    """Recognise GELU in both forms; return how often."""
    return sweep(model, {("Erf", "Tanh"): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if not is_float(node.outputs[0]):
        return
    inner = polynomial(edit, node.inputs[0])
    leaves = {factor for factors in inner.terms for factor in factors} if inner is not None else set()
    if inner is None or len(leaves) != 1:
        return
    (x,) = leaves
    expected: dict[Monomial, float] = {(x,): math.sqrt(0.5)}
    attributes = []
    if node.op_type == "Tanh":
        expected = {(x,): _TANH_SCALE, (x, x, x): _TANH_SCALE * 0.044715}
        attributes = [ir.AttrString("approximate", "tanh")]
    if not inner.equals(expected, x.dtype):
        if len(inner.terms) == len(expected):
            near_miss(node, "the argument of {} has other coefficients than a GELU's", node.op_type)
        return
    for last in arithmetic_after(edit, node):
        outer = polynomial(edit, last.outputs[0])
        if outer is not None and outer.equals({(x,): 0.5, (x, node.outputs[0]): 0.5}, x.dtype):
            edit.replace(last, "Gelu", [x], attributes, domain=DOMAIN)
            drop_unused(edit, [*outer.nodes, node, *inner.nodes])
            return
    near_miss(node, "what follows is not x * 0.5 * (1 + {}(...)), or others read a part of it", node.op_type)
