"""Weights that belong to no layer become parameters of the module itself.

    Conv(x, kernel, shift)                                ->   Conv(x, Parameter(kernel), Parameter(shift))
    GroupNorm(x, W, b), made from gamma and beta          ->   GroupNorm(x, Parameter(gamma), Parameter(beta))
    PRelu(x, W), made from slope                          ->   BarePRelu(x, Parameter(slope))
    Linear(x, W, b), W as (out, in)                       ->   BareLinear(x, W, b)
    Linear(x, W, in_proj_bias), W as (in, out), nameless  ->   BareLinear(x, in_proj_weight, in_proj_bias)
    Mul(x, scale), one number                             ->   the same, with the number marked as one to train

The results are written as functions: `F.conv1d(x, self.kernel, self.shift)`. In a layer, the weights would have other
keys in the state dict. It applies to models from PyTorch only, and goes by the names that the weights had there
(parameter_names.py). A node's weights are bare if one of these rules holds:

1. One of them has a name that layers do not give. Layers call their weights `weight` and `bias`, and the statistics of
   batch norms `running_mean` and `running_var`. (A matrix that is held as (in, out) is no layer's either: linear.py.)
2. The module that they belong to has modules below it, and so is no layer (`block.weight` and `block.fc.weight`). That
   module may be the model itself. A batch norm stays a layer: as a function it would not take the statistics of a batch
   in training. (A model that has nothing else was a layer, see modules/members/derived.py.)
3. The newer exporter says that a weight or bias is a buffer.
4. The weight is that of another layer: `F.linear(x, self.embed.weight)` beside `self.embed(ids)`. This other layer is
   called under its own name. The node is not in that layer, but in a module with modules below it, such as the module
   that holds the layer. Not if the bias is this layer's, too: then the layer is called a second time. Not for a layer
   that shares the weight of another (`self.head(x)`): it has a scope of its own.

Not if the name of one of the weights is unknown. An exception is the matrix of a linear layer beside a bias of its
module: the older exporter transposes the matrix and keeps no name. It is then called `weight`, or `in_proj_weight` if
its bias is `in_proj_bias`: this is the packed projection of an `nn.MultiheadAttention` that is not recognised as a
whole. Nor for the slopes of a PRelu if they are neither one number nor one for each channel.

This comes after all idioms that make larger layers of smaller ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep, weight_initialiser
from onnxlift.ir.editing.match import DOMAIN, is_filler
from onnxlift.ir.graph.constants import contiguous
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.ir.origin.exporter import exporter_of
from onnxlift.ir.origin.module_paths import modules_with_modules, reads_layer, told_module
from onnxlift.ir.origin.tensors import mark_told, mark_trained, may_be_trained, origin_of
from onnxlift.rewriting.idioms.parts.parameter_names import IN_BIAS, IN_WEIGHT, parameter_name
from onnxlift.stages import step

Weights = Mapping[int, ir.Value]
Roles = Mapping[int, str]
RolesOf = Callable[[ir.Node], Roles]
"""Returns the places of a node's inputs that are weights, with the names that PyTorch's function gives them; nothing if
there is no function for the operator. The first place is that of the weight which every layer of this kind has."""

MOST_READERS = 64  # of a weight; if more nodes read it, its layer is called again and again

_ARITHMETIC = "Abs Add Clip Div Exp Log Mul Neg Pow Reciprocal Relu Sigmoid Softplus Sqrt Sub Tanh".split()
_STATISTICS = frozenset({"running_mean", "running_var"})
# Optimisers add endings: `weight_bias` for a convolution that a norm was folded into, `weight_1` for merged weights.
_LAYERS_NAME = re.compile(r"(weight|bias)(_bias)?(_\d+)?|running_(mean|var)")


@step(
    "bare-weights",
    after={
        "multihead-attention": "the weights of its projections are its own",
        "recurrent-cells": "the weights of its linear layers are its own",
        "embedding": "it looks for embeddings, too",
        "rms-norm": "it looks for norms as layers",
        "norms-without-weights": "it looks for norms as layers",
        "padded-conv": "the weights of a padded convolution are its own",
        "single-slopes": "a slope is stored as the layer reads it by then",
    },
)
def run(model: ir.Model, *, function_weights: RolesOf | None = None) -> int:
    """Turn weights that belong to no layer into parameters; return how many."""
    if not exporter_of(model).is_pytorch or function_weights is None:
        return 0
    parents = modules_with_modules(model.graph)
    changes = sweep(model, {tuple(_ARITHMETIC): _number})
    return changes + sweep(model, lambda edit, node: _layer(edit, node, function_weights(node), parents))


def _number(edit: Edit, node: ir.Node) -> None:
    """Mark the single numbers that a node computes with as trained, if they are in the state dict."""
    for value in node.inputs:
        if value is not None and _is_trained_number(value, node):
            word = (value.name or "").rpartition(".")[2]
            mark_trained(value, word, "a number of the state dict that is computed with")
            edit.changes += 1


def _layer(edit: Edit, node: ir.Node, roles: Roles, parents: Collection[str]) -> None:
    """Let the module hold the weights of a node that is not a layer of its own."""
    if not roles:
        return
    given = {place: node.inputs[place] for place in roles if place < len(node.inputs)}
    fillers = [place for place, value in given.items() if node.op_type == "GroupNorm" and is_filler(value, 0)]
    weights = {place: v for place, v in given.items() if v is not None and place not in fillers}
    names = _names(node, weights)
    are_stored = all(may_be_trained(value) or origin_of(value).is_computed for value in weights.values())
    if names is None or not are_stored or not _is_bare(edit, node, roles, weights, names, parents):
        return
    held = {place: _held(edit, node, value, names[place]) for place, value in weights.items()}
    if node.op_type == "Linear":
        edit.replace(node, "BareLinear", [node.inputs[0], *held.values()], domain=DOMAIN)
        return
    for place, value in held.items():
        if roles[place] in _STATISTICS:
            mark_told(value, is_buffer=True, reason="the statistics of a norm")  # which the older exporter does not say
    inputs: list[ir.Value | None] = [*node.inputs]
    for place in given:
        inputs[place] = _parameter(edit, node, held[place]) if place in held else None
    attributes = dict(node.attributes)
    if node.op_type == "Bilinear":
        attributes["as_held"] = ir.AttrInt64("as_held", 1)
    op_type = "BarePRelu" if node.op_type == "PRelu" else node.op_type
    edit.replace(node, op_type, inputs, attributes.values(), domain=DOMAIN if op_type != node.op_type else None)


def _is_trained_number(value: ir.Value, node: ir.Node) -> bool:
    """Tell whether this is a single number of the state dict that is only used in arithmetic, and not marked yet."""
    origin = origin_of(value)
    if not may_be_trained(value) or value.const_value is None or value.const_value.size != 1 or origin.word is not None:
        return False
    is_known = not origin.is_computed and parameter_name(value, node) is not None
    return is_known and not origin.is_buffer and all(is_standard(user, *_ARITHMETIC) for user, _ in value.uses())


def _names(node: ir.Node, weights: Weights) -> dict[int, str] | None:
    """Return the names of the weights in PyTorch; None if one is unknown."""
    names = {place: name for place, value in weights.items() if (name := parameter_name(value, node)) is not None}
    is_turned = node.op_type == "Linear" and not attribute(node, "transposed", 0)
    if is_turned and 2 in names:
        owner, dot, bias = names[2].rpartition(".")
        if bias == IN_BIAS or _is_in(node, owner):
            names = {1: f"{owner}{dot}{IN_WEIGHT if bias == IN_BIAS else 'weight'}", **names}
    return names if names.keys() == weights.keys() else None


def _is_in(node: ir.Node, module: str) -> bool:
    """Tell whether the older exporter says that a node is in this module: `/layers/layers.0/MatMul` in `layers.0`."""
    name = node.name or ""
    last = name.rpartition("/")[0].rpartition("/")[2]
    return name.startswith("/") and (f".{module}".endswith(f".{last}") if last else not module)


def _is_bare(
    edit: Edit, node: ir.Node, roles: Roles, weights: Weights, names: Mapping[int, str], parents: Collection[str]
) -> bool:
    if node.op_type == "PRelu" and not _has_channels_slopes(node):
        return False
    trained = [value for place, value in weights.items() if roles[place] not in _STATISTICS]
    if any(origin_of(value).is_buffer for value in trained):
        return True
    if not all(_LAYERS_NAME.fullmatch(name.rpartition(".")[2]) for name in names.values()):
        return True
    if _is_of_other_layer(edit, node, next(iter(roles)), weights, names, parents):
        return True
    owners = {name.rpartition(".")[0] for name in names.values()}
    return len(owners) == 1 and owners <= set(parents) and not _STATISTICS & set(roles.values())


def _is_of_other_layer(
    edit: Edit, node: ir.Node, place: int, weights: Weights, names: Mapping[int, str], parents: Collection[str]
) -> bool:
    """Tell whether rule 4 holds for the weight at this place."""
    owner, module = names.get(place, "").rpartition(".")[0], told_module(node)
    others = {name.rpartition(".")[0] for other, name in names.items() if other != place}
    if not owner or owner in others or not reads_layer(module, owner, parents):
        return False
    return any(told_module(reader) == owner for reader in _readers(edit, weights[place]))


def _readers(edit: Edit, value: ir.Value) -> list[ir.Node]:
    """Return the nodes that read a weight; an empty list if there are more than `MOST_READERS`."""
    uses = value.uses() if value not in edit.shared else ()  # for speed
    if len(uses) > MOST_READERS:
        edit.shared.add(value)
        return []
    return [reader for reader, _ in uses]


def _has_channels_slopes(node: ir.Node) -> bool:
    """Tell whether a PRelu has one slope, or one for each channel."""
    shape, slopes = shape_of(node.inputs[0]), shape_of(node.inputs[1])
    if shape is None or slopes is None:
        return False
    aligned = (1,) * (len(shape) - len(slopes)) + slopes
    return all(size == 1 for size in aligned) or (len(shape) > 1 and aligned == (1, shape[1], *(1 for _ in shape[2:])))


def _held(edit: Edit, node: ir.Node, value: ir.Value, name: str) -> ir.Value:
    """Return a weight as PyTorch holds it (`(out, in)` for a linear layer), under the name that it has there."""
    shape = shape_of(value) or ()
    assert value.const_value is not None
    array: Array | None = None
    if node.op_type == "Linear" and len(shape) == 2 and not attribute(node, "transposed", 0):
        array = value.const_value.numpy().T
    elif node.op_type in ("GroupNorm", "PRelu") and len(shape) != 1:
        array = value.const_value.numpy().reshape(-1)
    elif node.op_type == "Bilinear" and rank(value) != 1 and not attribute(node, "as_held", 0):
        first, out, second = (int((shape_of(x) or (0,))[-1]) for x in (node.inputs[0], node.outputs[0], node.inputs[1]))
        array = value.const_value.numpy().reshape(first, out, second).swapaxes(0, 1)
    if array is not None or value.name != name:
        array = value.const_value.numpy() if array is None else array
        value = _stored(edit, contiguous(array), name)
    if value.const_value is not None and value.const_value.size == 1:
        mark_trained(value, name.rpartition(".")[2], "the weight of a layer")
    return value


def _stored(edit: Edit, array: Array, name: str) -> ir.Value:
    """Return the initialiser of this name if it has these numbers, else a new one."""
    known = edit.graph.initializers.get(name)
    stored = known.const_value.numpy() if known is not None and known.const_value is not None else None
    if known is not None and stored is not None and stored.dtype == array.dtype and np.array_equal(stored, array):
        return known
    return weight_initialiser(
        edit.graph, edit.names.fresh(name), array, "the weight of a layer, as PyTorch holds it", is_named=True
    )


def _parameter(edit: Edit, node: ir.Node, value: ir.Value) -> ir.Value:
    return edit.insert(
        node, "Parameter", [value], like=value, shape=shape_of(value) or (), name=value.name or "", domain=DOMAIN
    )
