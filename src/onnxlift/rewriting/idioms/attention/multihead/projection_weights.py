"""Make the weights of an `nn.MultiheadAttention` from the three projections in the graph.

1. The projections are thirds of one weight, and of one bias: `in_proj_weight`, `in_proj_bias`.
2. Their weights are constants without a name: one for each, or one that keys and values share. The exporter has cut
   these out of the packed ones. They are joined again, in the order of queries, keys and values.
3. As 2, but keys or values have another number of features than queries (`kdim`, `vdim`): then the layer has
   `q_proj_weight`, `k_proj_weight` and `v_proj_weight`, and still one bias.

In 2 and 3 the bias may still be one packed constant, and each projection adds its part. Not if a weight has a name of
its own (except the class's names in 3): then it is the weight of a linear layer in another class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, weight_initialiser
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.rewriting.idioms.parts.parameter_names import IN_BIAS, IN_WEIGHT

from .projections import Projection

_OWN_NAMES = ("q_proj_weight", "k_proj_weight", "v_proj_weight")


@dataclass(frozen=True)
class PackedProjections:
    """The weights of the three projections, packed in one or one each, and their bias."""

    weight: ir.Value
    bias: ir.Value | None
    key_weight: ir.Value | None = None
    value_weight: ir.Value | None = None


def arranged(projections: Sequence[Projection]) -> list[Projection] | None:
    """Return the projections of queries, keys and values, with each `start` counted in the packed weight.

    Return None if they are not those of one layer.
    """
    if len(projections) != 3:
        return None
    first = projections[0]
    width = first.columns
    if not width or any(p.is_transposed != first.is_transposed for p in projections):
        return None
    if is_packed(projections):
        is_whole = shape_of(first.weight) == _stored(3 * width, width, first.is_transposed)
        fits = _is_packed_bias(projections, first.bias) and all(p.start % width == 0 for p in projections)
        return list(projections) if is_whole and fits else None
    weights = {p.weight: p for p in projections}
    if any(shape_of(p.weight) != _stored(p.rows, p.columns, p.is_transposed) for p in projections):
        return None
    if sum(p.rows for p in weights.values()) != 3 * width:
        return None
    if any(p.columns != width for p in projections) and len(weights) < 3:
        return None
    named = zip(projections, _OWN_NAMES, strict=True)
    if not all(origin_of(p.weight).has_made_up_name or is_named(p.weight, f".{name}") for p, name in named):
        return None
    starts: dict[ir.Value, int] = {}
    for weight in weights:
        starts[weight] = sum(weights[before].rows for before in starts)
    found = [replace(p, start=starts[p.weight]) for p in projections]
    if first.bias is None or is_named(first.bias, IN_BIAS):
        has_bias = all(p.bias is first.bias for p in found) and _is_packed_bias(found, first.bias)
    else:
        has_bias = all(_is_own_bias(p, weights[p.weight].bias) for p in found)
    return found if has_bias else None


def is_packed(projections: Sequence[Projection]) -> bool:
    """Tell whether all projections have the same weight and the same bias."""
    first = projections[0]
    return all(p.weight is first.weight and p.bias is first.bias for p in projections)


def is_named(value: ir.Value | None, *endings: str) -> bool:
    """Tell whether the name of a parameter has one of these endings."""
    return value is not None and str(value.name).endswith(endings)


def _stored(rows: int, columns: int, is_transposed: bool) -> tuple[int, int]:
    """Return the shape of a weight with so many rows, stored as (out, in) like PyTorch's, or as (in, out)."""
    return (rows, columns) if is_transposed else (columns, rows)


def _is_packed_bias(projections: Sequence[Projection], bias: ir.Value | None) -> bool:
    """Tell whether each projection adds the part of `bias` that goes with its rows of the weight, or `bias` is None."""
    size = 3 * projections[0].columns
    return bias is None or (shape_of(bias) == (size,) and all(p.bias_start == p.start for p in projections))


def _is_own_bias(projection: Projection, of_weight: ir.Value | None) -> bool:
    """Tell whether the projection's bias is a constant without a name, with a number for each row of its weight.

    It must be the bias of all projections with this weight.
    """
    bias, tensor = projection.bias, constant(projection.bias)
    if bias is None or tensor is None or bias is not of_weight:
        return False
    return origin_of(bias).has_made_up_name and tensor.size == projection.rows


def weights_of(edit: Edit, projections: Sequence[Projection], owner: str) -> PackedProjections:
    """Return the weights of a layer with these (arranged) projections; `owner` is the prefix of their names."""
    first = projections[0]
    if is_packed(projections):
        return PackedProjections(first.weight, first.bias)
    parts = list({p.weight: p for p in projections}.values())
    bias = first.bias
    if bias is not None and not is_named(bias, IN_BIAS):
        biases = [p.bias for p in parts if p.bias is not None]
        bias = _joined(
            edit, f"{owner}{IN_BIAS}", biases, lambda arrays: np.concatenate([a.reshape(-1) for a in arrays])
        )
    if any(p.columns != first.columns for p in parts):
        query, key, value = (p.weight for p in parts)
        return PackedProjections(query, bias, key, value)
    axis = 0 if first.is_transposed else 1
    weights = [p.weight for p in parts]
    return PackedProjections(
        _joined(edit, f"{owner}{IN_WEIGHT}", weights, lambda arrays: np.concatenate(arrays, axis)), bias
    )


def _joined(edit: Edit, name: str, values: Sequence[ir.Value], join: Callable[[list[Array]], Array]) -> ir.Value:
    """Return a parameter that is made of others."""
    tensors = [value.const_value for value in values if value.const_value is not None]
    array, reason = join([tensor.numpy() for tensor in tensors]), "nn.MultiheadAttention holds its projections in one"
    return weight_initialiser(edit.graph, edit.names.fresh(name), array, reason, is_named=True)
