"""A weight that a layer computes anew from other parameters whenever it is called: `weight_norm(nn.Conv1d(...))`.

The idioms weight_norm.py and spectral_norm.py replace the arithmetic by a constant, so that the layer around it is
recognised like any other. The constant's `meta` says what it stands for. `Layer.hold` reads that and wraps the layer.
The state dict has the parts, as in the original, and gradients go to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, weight_initialiser
from onnxlift.ir.graph.axes import swaps_two_axes
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard

KEY = "computed_weight"
"""Key in `Value.meta` of the ComputedWeight that a constant stands for."""


@dataclass(frozen=True)
class ComputedWeight:
    """A weight that `function(layer, **arguments)` computes: it gives the layer these `parts` instead of a weight.

    The keys of `parts` are those in the layer's state dict. All parts but the `buffers` are trained.
    """

    function: str
    parts: Mapping[str, ir.Value]
    arguments: Mapping[str, int | None]
    buffers: frozenset[str] = frozenset()


def layer_of(edit: Edit, value: ir.Value) -> str | None:
    """Return the operator that `value` is the weight of, as PyTorch's layers hold it: Conv, ConvTranspose or Linear.

    Return None if anything reads it in another way.
    """
    found = list(dict.fromkeys(_reader(edit, node, index) for node, index in value.uses()))
    return found[0] if len(found) == 1 and not edit.is_output(value) else None


def _reader(edit: Edit, node: ir.Node, index: int) -> str | None:
    if node.graph is not edit.graph:
        return None
    if swaps_two_axes(node):
        (result,) = node.outputs
        products = [is_standard(user, "MatMul") and place == 1 for user, place in result.uses()]
        return "Linear" if all(products) and not edit.is_output(result) else None
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if index != 1 or (bias is not None and constant(bias) is None):
        return None
    if is_standard(node, "Conv", "ConvTranspose"):
        return node.op_type
    if not is_standard(node, "Gemm"):
        return None
    factors = {"transA": 0, "transB": 1, "alpha": 1.0, "beta": 1.0}
    is_plain = all(
        attribute(node, name, float(name in ("alpha", "beta"))) == factor for name, factor in factors.items()
    )
    return "Linear" if is_plain else None


def put(edit: Edit, node: ir.Node, owner: str, computed: ComputedWeight, array: Callable[[], Array]) -> None:
    """Replace `node`, which computes the weight of the module `owner`, by a constant.

    `array` computes the numbers of the weight if anybody asks for them; a wrapped layer does not.
    """
    (result,) = node.outputs
    assert result.dtype is not None and result.shape is not None
    tensor = ir.LazyTensor(lambda: ir.Tensor(array()), dtype=result.dtype, shape=ir.Shape(result.shape))
    name, reason = edit.names.fresh(f"{owner}.weight".lstrip(".")), "the model computes it from parameters of the layer"
    weight = weight_initialiser(edit.graph, name, tensor, reason, is_named=True)
    weight.meta[KEY] = computed
    for user, index in result.uses():
        user.replace_input_with(index, weight)
    edit.drop(node)
    edit.changes += 1


def numbers(value: ir.Value) -> Array:
    """Return the elements of a parameter."""
    assert value.const_value is not None
    return value.const_value.numpy()


def owner_of(value: ir.Value, key: str) -> str | None:
    """Return the path of the module that a parameter with this key belongs to: `encoder.0`, or "" for the model."""
    name = f".{value.name}"
    return name.removesuffix(f".{key}")[1:] if name.endswith(f".{key}") else None
