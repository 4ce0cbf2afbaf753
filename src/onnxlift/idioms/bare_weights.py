"""Weights that are no layer's, but parameters of the module itself.

    Linear(x, W, b), W as (out, in)                       ->   BareLinear(x, W, b)
    Linear(x, W, in_proj_bias), W as (in, out), nameless  ->   BareLinear(x, in_proj_weight, in_proj_bias)
    Conv(x, kernel, bias)                                 ->   Conv(x, Parameter(kernel), Parameter(bias))
    LayerNorm(x, gamma, beta)                             ->   LayerNorm(x, Parameter(gamma), Parameter(beta))

The weight of an `nn.Linear` is called `weight`. From PyTorch, a matrix with a name that ends otherwise is read by
`F.linear(x, self.query_matrix)`; in a layer it would have another key in the state dict. (What is multiplied with as
(in, out) is no layer's either, see linear.py.) The same for convolutions and norms, whose other parameter is `bias`:
what is no constant is no layer's. (`weight` alone, of no module, is that of a layer that was exported by itself, see
emit/derived.py.) The second is the packed projection of an `nn.MultiheadAttention` that is not
recognised as a whole: the exporter has transposed its weight, which tells the class by the bias.

This comes after all idioms that make larger layers of smaller ones. Not if an exporter generated a name, and, but for
matrices, not if one does not say which module it belongs to: exporters call what they fold `mul_7`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ..ir.node_view import shape_of
from ..passes.edit import Edit, attribute, has_generated_name, initialiser, is_parameter, sweep
from .match import DOMAIN
from .projection_weights import IN_BIAS, IN_WEIGHT

_LAYERS = frozenset(
    {"Conv", "ConvTranspose", "InstanceNormalization"}
    | {"LayerNormalization", "LayerNorm", "RMSNormalization", "RMSNorm"}
)
_LAYERS_NAME = re.compile(r"(weight|bias)(_\w+)?")  # and what optimisers make of it: `conv1.weight_bias`


def run(model: ir.Model) -> int:
    """Take weights that are no layers'; gives how many."""
    return sweep(model, _visit) if model.producer_name == "pytorch" else 0


def _visit(edit: Edit, node: ir.Node) -> None:
    if node.op_type == "Linear" and node.domain == DOMAIN:
        _product(edit, node)
    elif node.op_type in _LAYERS and _has_own_names(node.inputs[1:3]):
        for index, value in enumerate(node.inputs[1:3], 1):
            if value is not None:
                node.replace_input_with(index, _parameter(edit, node, value))
        edit.changes += 1


def _has_own_names(weights: Sequence[ir.Value | None]) -> bool:
    """Whether these are parameters of modules that call one of them otherwise than a layer would."""
    values = [value for value in weights if value is not None]
    names = [(value.name or "").rpartition(".") for value in values]
    if not all(is_parameter(value) and not has_generated_name(value) for value in values):
        return False
    return all(owner for owner, _, _ in names) and not all(_LAYERS_NAME.fullmatch(name) for *_, name in names)


def _parameter(edit: Edit, node: ir.Node, value: ir.Value) -> ir.Value:
    return edit.insert(
        node, "Parameter", [value], like=value, shape=shape_of(value) or (), name=value.name or "", domain=DOMAIN
    )


def _product(edit: Edit, node: ir.Node) -> None:
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
