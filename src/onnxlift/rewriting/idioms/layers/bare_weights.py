"""Weights that are no layer's become parameters of the module itself.

    Conv(x, kernel, shift)                                ->   Conv(x, Parameter(kernel), Parameter(shift))
    GroupNorm(x, W, b), made from gamma and beta          ->   GroupNorm(x, Parameter(gamma), Parameter(beta))
    PRelu(x, W), made from slope                          ->   BarePRelu(x, Parameter(slope))
    Linear(x, W, b), W as (out, in)                       ->   BareLinear(x, W, b)
    Linear(x, W, in_proj_bias), W as (in, out), nameless  ->   BareLinear(x, in_proj_weight, in_proj_bias)
    Mul(x, scale), one number                             ->   the same, with the number marked as one to train

which are written as functions: `F.conv1d(x, self.kernel, self.shift)`. In a layer, the weights would have other keys in
the state dict. For a model from PyTorch it applies, by the names that the weights had there (parameter_names.py),

1. if one of them has a name that layers do not give: their weights are called `weight` and `bias`, the statistics of
   batch norms `running_mean` and `running_var`. (What is multiplied with as (in, out) is no layer's either, see
   linear.py.)
2. if the module that they belong to has modules below it (`block.weight` and `block.fc.weight`), or the model has, and
   so is no layer. A batch norm stays one: as a function it would not take the statistics of a batch in training. (A
   model that has nothing else was a layer, see modules/members/derived.py.)
3. if the newer exporter says that a weight or bias is a buffer.
4. if the weight is that of a layer which is called by its own name, and which the node is not in, but in a module with
   modules below it, such as the layer's own: `F.linear(x, self.embed.weight)` beside `self.embed(ids)`. Not if the bias
   is this layer's, too, which then is called a second time, nor for a layer that shares the weight of another
   (`self.head(x)`), which has a scope of its own.

Not if the name of one of them is not known, but for a linear layer's matrix beside the bias of its module: the older
exporter transposes it and keeps no name. It is called `weight` then, or, by its bias, `in_proj_weight`: the packed
projection of an `nn.MultiheadAttention` that is not recognised as a whole. Nor for a slope that is no channel's.

This comes after all idioms that make larger layers of smaller ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep, weight_initialiser
from onnxlift.ir.editing.match import DOMAIN, is_filler
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
"""Gives the inputs that are weights, with what PyTorch's function calls them, for operators that are such a function;
the first is that which each such layer has."""

MOST_READERS = 64  # of a weight; what more nodes read is a layer that is called again and again

_ARITHMETIC = "Abs Add Clip Div Exp Log Mul Neg Pow Reciprocal Relu Sigmoid Softplus Sqrt Sub Tanh".split()
_STATISTICS = frozenset({"running_mean", "running_var"})
# And what optimisers make of it: the bias of a convolution that a norm was folded into, one of several merged weights.
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
    },
)
def run(model: ir.Model, *, function_weights: RolesOf | None = None) -> int:
    """Take weights that are no layers'; gives how many."""
    if not exporter_of(model).is_pytorch or function_weights is None:
        return 0
    parents = modules_with_modules(model.graph)
    changes = sweep(model, {tuple(_ARITHMETIC): _number})
    return changes + sweep(model, lambda edit, node: _layer(edit, node, function_weights(node), parents))


def _number(edit: Edit, node: ir.Node) -> None:
    """Note which numbers that a node computes with are trained."""
    for value in node.inputs:
        if value is not None and _is_trained_number(value, node):
            word = (value.name or "").rpartition(".")[2]
            mark_trained(value, word, "a number of the state dict that is computed with")
            edit.changes += 1


def _layer(edit: Edit, node: ir.Node, roles: Roles, parents: Collection[str]) -> None:
    """Let the module hold the weights of what is no layer of its own."""
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
    """Whether this is a single number of the state dict that is only computed with, and not known as one yet."""
    origin = origin_of(value)
    if not may_be_trained(value) or value.const_value is None or value.const_value.size != 1 or origin.word is not None:
        return False
    is_known = not origin.is_computed and parameter_name(value, node) is not None
    return is_known and not origin.is_buffer and all(is_standard(user, *_ARITHMETIC) for user, _ in value.uses())


def _names(node: ir.Node, weights: Weights) -> dict[int, str] | None:
    """What the weights were called; None if that is not known of all."""
    names = {place: name for place, value in weights.items() if (name := parameter_name(value, node)) is not None}
    is_turned = node.op_type == "Linear" and not attribute(node, "transposed", 0)
    if is_turned and 2 in names:
        owner, dot, bias = names[2].rpartition(".")
        if bias == IN_BIAS or _is_in(node, owner):
            names = {1: f"{owner}{dot}{IN_WEIGHT if bias == IN_BIAS else 'weight'}", **names}
    return names if names.keys() == weights.keys() else None


def _is_in(node: ir.Node, module: str) -> bool:
    """Whether the older exporter says that a node is in this module: `/layers/layers.0/MatMul` is in `layers.0`."""
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
    """Rule 4, by the weight at this place."""
    owner, module = names.get(place, "").rpartition(".")[0], told_module(node)
    others = {name.rpartition(".")[0] for other, name in names.items() if other != place}
    if not owner or owner in others or not reads_layer(module, owner, parents):
        return False
    return any(told_module(reader) == owner for reader in _readers(edit, weights[place]))


def _readers(edit: Edit, value: ir.Value) -> list[ir.Node]:
    """Who reads a weight; nobody, if these are very many."""
    uses = value.uses() if value not in edit.shared else ()  # for speed
    if len(uses) > MOST_READERS:
        edit.shared.add(value)
        return []
    return [reader for reader, _ in uses]


def _has_channels_slopes(node: ir.Node) -> bool:
    """Whether a PRelu has one slope, or one for each channel."""
    shape, slopes = shape_of(node.inputs[0]), shape_of(node.inputs[1])
    if shape is None or slopes is None:
        return False
    aligned = (1,) * (len(shape) - len(slopes)) + slopes
    return all(size == 1 for size in aligned) or (len(shape) > 1 and aligned == (1, shape[1], *(1 for _ in shape[2:])))


def _held(edit: Edit, node: ir.Node, value: ir.Value, name: str) -> ir.Value:
    """A weight as PyTorch holds it, by the name that it has there."""
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
        value = _stored(edit, np.ascontiguousarray(array), name)
    if value.const_value is not None and value.const_value.size == 1:
        mark_trained(value, name.rpartition(".")[2], "the weight of a layer")
    return value


def _stored(edit: Edit, array: Array, name: str) -> ir.Value:
    """The initialiser of this name, if it has these numbers; else a new one."""
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
