"""Take a bias apart that an exporter has joined from the biases of queries and values.

    Add(MatMul(x, W), cat_1), which is q, zeros, v   ->   Add(MatMul(x, qkv.weight), Concat(q_bias, k_bias, v_bias))

BEiT, EVA and the second Swin Transformer compute queries, keys and values by one product, and the keys have no bias:
`F.linear(x, self.qkv.weight, torch.cat((self.q_bias, zeros, self.v_bias)))`. Exporters join the three ahead of time.
Without this step `q_bias` and `v_bias` would be missing in the state dict, and training would give the keys a bias.

It applies to a vector of which the middle third is zeros. The newer exporter notes what it was joined from: two
parameters `q_bias` and `v_bias` of one module, and zeros that are no parameter. The older one keeps no name. There it
must be added to a product with a matrix, and each of the other thirds must have `FEWEST` numbers other than zero. A
layer's own bias has its name, and a trained one has no such zeros. The names are then those that all these models use.
So is the matrix's, `qkv.weight`, if it has none either, because a function reads it and not the layer that it is of.

Sound because the parts are the numbers of the constant, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, initialiser, sweep, weight_initialiser
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.origin.exported import kind_of, state_names
from onnxlift.ir.origin.module_paths import told_module
from onnxlift.ir.origin.tensors import folded_from, may_be_trained, origin_of
from onnxlift.rewriting.restoring.folded_names import only_source
from onnxlift.rewriting.restoring.numbers.stored_parameters import Parameter, sizes_of
from onnxlift.stages import step

FEWEST = 4
_REASON = "an exporter has joined it with zeros and another bias"
_ZEROS = "the keys of this attention have no bias"
_STEP = re.compile(r"(val|zeros|zeros_like|full|full_like)(_\d+)*")


@dataclass(frozen=True)
class _Bias:
    """A joined bias: the module that has its parts, and the matrix of the product that it is added to, if only a
    function reads that."""

    owner: str
    matrix: Parameter | None


@step("joined-biases", after={"folded-parameters": "what is a part of a parameter in the file is no joined bias"})
def run(model: ir.Model) -> int:
    """Take these biases of the main graph apart; return how many."""
    keys = state_names(model.graph)
    candidates = [value for value in model.graph.initializers.values() if _has_zeros_inside(value)]
    found = {value: bias for value in candidates if (bias := _joined(model.graph, value, keys)) is not None}

    def visit(edit: Edit, node: ir.Node) -> None:
        for place, value in enumerate(node.inputs):
            if value in found:
                product, bias = node.inputs[1 - place], found[value]
                if bias.matrix is not None:
                    bias.matrix.restore(edit)
                node.replace_input_with(0, product)
                node.replace_input_with(1, _parts(edit, node, value, bias.owner))
                edit.changes += 1
                return

    return sweep(model, {"Add": visit}) if found else 0


def _has_zeros_inside(value: ir.Value) -> bool:
    """Tell whether this is a vector without a name of its own, of which the middle third is zeros."""
    tensor = constant(value)
    if tensor is None or len(tensor.shape) != 1 or not origin_of(value).has_lost_its_name:
        return False
    third, rest = divmod(tensor.size, 3)
    return not rest and not tensor.numpy()[third:-third].any()


def _joined(graph: ir.Graph, value: ir.Value, keys: Collection[str]) -> _Bias | None:
    """Return what is known about a joined bias; None if it is none."""
    uses = [*value.uses()]
    total, place = uses[0] if len(uses) == 1 else (None, 0)
    added = total.inputs[1 - place] if total is not None and is_standard(total, "Add") else None
    product = added.producer() if added is not None else None
    if total is None or product is None or not is_standard(product, "MatMul"):
        return None
    if origin_of(value).is_computed:
        owner = _noted_owner(graph, folded_from(value), keys)
    else:
        owner = told_module(total) if _has_numbers_outside(value) else None
    if owner is None or any(name in graph.initializers for name in _names(owner)):
        return None
    if told_module(product) != told_module(total):
        return _Bias(owner, None)  # the call of a layer
    matrix = product.inputs[1]
    key = _key_of(matrix, owner) if matrix is not None else None
    if matrix is None or key is None or key in graph.initializers:
        return None
    return _Bias(owner, Parameter(key, matrix, [matrix]))


def _key_of(matrix: ir.Value, owner: str) -> str | None:
    """Return the key of a matrix without a name, which nothing else reads; None if it is no such matrix."""
    if not may_be_trained(matrix) or not origin_of(matrix).has_lost_its_name or len([*matrix.uses()]) != 1:
        return None
    noted = folded_from(matrix)
    return only_source(noted) if noted else _below(owner, "qkv.weight")


def _noted_owner(graph: ir.Graph, sources: Collection[str], keys: Collection[str]) -> str | None:
    """Return the module whose biases of queries and values the exporter notes; None if it notes anything else."""
    parameters = [name for name in sources if name in keys and kind_of(graph, name) == "PARAMETER"]
    others = [name for name in sources if name not in parameters]
    owner = next(iter(parameters), "").rpartition(".")[0]
    queries, middle, values = _names(owner)
    are_zeros = all(name == middle or (name not in keys and _STEP.fullmatch(name)) for name in others)
    return owner if sorted(parameters) == [queries, values] and are_zeros else None


def _has_numbers_outside(value: ir.Value) -> bool:
    """Tell whether the first and the last third have enough numbers other than zero."""
    tensor = constant(value)
    assert tensor is not None
    first, _, last = np.split(tensor.numpy(), 3)
    return all(len(np.unique(part[part != 0])) >= FEWEST for part in (first, last))


def _names(owner: str) -> tuple[str, str, str]:
    return _below(owner, "q_bias"), _below(owner, "k_bias"), _below(owner, "v_bias")


def _below(owner: str, name: str) -> str:
    return f"{owner}.{name}" if owner else name


def _parts(edit: Edit, node: ir.Node, value: ir.Value, owner: str) -> ir.Value:
    """Insert a node before `node` that joins the parts of the bias; return its result."""
    tensor = constant(value)
    assert tensor is not None
    parts: list[Array] = np.split(tensor.numpy(), 3)
    names = _names(owner)
    queries, values = (
        weight_initialiser(edit.graph, names[place], np.ascontiguousarray(parts[place]), _REASON, is_named=True)
        for place in (0, 2)
    )
    keys = initialiser(edit.graph, names[1], np.ascontiguousarray(parts[1]), _ZEROS, is_named=True)
    axis = [ir.AttrInt64("axis", 0)]
    shape = sizes_of(value)
    return edit.insert(node, "Concat", [queries, keys, values], axis, like=value, shape=shape, name=f"{owner}.bias")
