"""Rows that an `nn.MultiheadAttention` appends to its keys and values.

    Concat(k, b), b a row of numbers for all batches         ->   add_bias_kv: the parameter bias_k (or bias_v)
    Concat(k, zeros)                                         ->   add_zero_attn

Each is one row after the last key; the zeros come after the bias. The exporters repeat the bias for all batches at run
time (Tile, Expand), or have folded that: then all rows of the constant must be equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, weight_initialiser
from onnxlift.ir.editing.match import is_zeros, made_by
from onnxlift.ir.graph.constants import constant, contiguous
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.rewriting.idioms.parts.moved_axes import Moved

_LARGEST = 1 << 20
_BEFORE_HEADS = (("seq",), ("batch",), ("head", "feature"))


@dataclass(frozen=True)
class Rows:
    """The rows after the keys or values: a constant with the bias, and whether there is one of zeros."""

    bias: ir.Value | None = None
    has_zeros: bool = False

    @property
    def count(self) -> int:
        return (self.bias is not None) + self.has_zeros


def find_rows(edit: Edit, moved: Moved) -> Rows | None:
    """Return the rows that were appended to keys or values on their way into heads; None if no layer appends them."""
    rows = Rows()
    for part in moved.appended:
        if part.atom != "seq" or part.length != 1 or rows.has_zeros:
            return None
        bias = _row(edit, part.value) if part.to.is_at(_BEFORE_HEADS) else None
        if bias is not None and rows.bias is None:
            rows = Rows(bias)
        elif is_zeros(edit, part.value):
            rows = Rows(rows.bias, has_zeros=True)
        else:
            return None
    return rows


def bias_of(edit: Edit, rows: Rows, name: str) -> ir.Value | None:
    """Return the parameter that holds the bias: the model's own, or a new one of this name."""
    value, tensor = rows.bias, constant(rows.bias)
    if value is None or tensor is None:
        return None
    shape = (1, 1, tensor.shape.numpy()[-1])
    if tensor.shape.numpy() == shape and not origin_of(value).has_made_up_name:
        return value
    row = contiguous(tensor.numpy()[:1, :1])
    reason = "nn.MultiheadAttention adds such a row to the keys or values"
    return weight_initialiser(edit.graph, edit.names.fresh(name), row, reason, is_named=True)


def _row(edit: Edit, value: ir.Value) -> ir.Value | None:
    """Return the constant with the same row for every batch that `value` is.

    Return None for zeros that are not named like a bias.
    """
    repeated = made_by(edit, value, "Tile", "Expand")
    source = value if repeated is None else repeated.inputs[0]
    tensor, shape = constant(source), shape_of(value)
    if source is None or tensor is None or tensor.size > _LARGEST or shape is None or len(tensor.shape) != 3:
        return None
    array = tensor.numpy()
    if array.shape[2] != shape[2] or not (array == array[:, :1]).all():
        return None
    return source if array.any() or str(source.name).endswith(("bias_k", "bias_v")) else None
