"""A product with a matrix that is no linear layer's, but a parameter of the module itself.

    Linear(x, W, b), W as (out, in)                       ->   BareLinear(x, W, b)
    Linear(x, W, in_proj_bias), W as (in, out), nameless  ->   BareLinear(x, in_proj_weight, in_proj_bias)

The weight of an `nn.Linear` is called `weight`. From PyTorch, a matrix with a name that ends otherwise is read by
`F.linear(x, self.query_matrix)`; in a layer it would have another key in the state dict. (What is multiplied with as
(in, out) is no layer's either, see linear.py.) The second is the packed projection of an `nn.MultiheadAttention` that
is not recognised as a whole: the exporter has transposed its weight, which tells the class by the bias.

This comes after all idioms that make larger layers of linear ones. Not if an exporter generated the name.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ..passes.edit import Edit, attribute, has_generated_name, initialiser, is_parameter, sweep
from .match import DOMAIN
from .projection_weights import IN_BIAS, IN_WEIGHT


def run(model: ir.Model) -> int:
    """Take matrices that are no layers'; gives how many."""
    return sweep(model, _visit) if model.producer_name == "pytorch" else 0


def _visit(edit: Edit, node: ir.Node) -> None:
    if node.op_type != "Linear" or node.domain != DOMAIN:
        return
    x, weight, bias = (*node.inputs, None)[:3]
    if weight is None or not is_parameter(weight):
        return
    bare: ir.Value | None = None
    if attribute(node, "transposed", 0):
        is_layers = has_generated_name(weight) or (weight.name or "").rpartition(".")[2] == "weight"
        bare = None if is_layers else weight
    elif bias is not None and has_generated_name(weight) and (bias.name or "").endswith(IN_BIAS):
        bare = _turned(edit, weight, (bias.name or "").removesuffix(IN_BIAS) + IN_WEIGHT)
    if bare is not None:
        edit.replace(node, "BareLinear", [x, bare, bias], domain=DOMAIN)


def _turned(edit: Edit, weight: ir.Value, name: str) -> ir.Value:
    assert weight.const_value is not None
    array = np.ascontiguousarray(weight.const_value.numpy().T)
    return initialiser(edit.graph, edit.names.fresh(name), array, generated=False)
