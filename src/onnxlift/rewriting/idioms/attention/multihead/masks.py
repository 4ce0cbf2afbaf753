"""The masks of an attention as `nn.MultiheadAttention` takes them: one by queries and keys, one by batches and keys.

    (queries, keys), or (batch * heads, queries, keys)          ->  attn_mask
    Reshape(p), of (batch, 1, 1, keys)                          ->  key_padding_mask = p
    Reshape(Expand(Reshape(p))), of (batch * heads, 1, keys)    ->  the same
    Add(m, Reshape(Expand(Reshape(p))))                         ->  both, as the layer itself joins them for all heads
    Pad(m), with zeros for the rows that the layer appends to the keys (keys.py)   ->  m
    Where(hidden, -inf, 0), or Not(hidden), of any of these     ->  hidden: true where a score does not count

If the attention has batch and heads in two axes, a Reshape may have given these axes to any of the forms above.
Reshapes keep the order of all numbers. So a mask with as many numbers as (queries, keys) is one by queries and keys, if
all axes in front have size 1.

Not if a mask has other axes, or if the layer would have to compute it: a value that a node of the layer's own module
makes is no argument of its call. And not if it hides the rows that the layer appends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import is_zeros, made_by
from onnxlift.ir.graph.constants import constant, contiguous, number
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import Dim, Shape, shape_of, static_elements
from onnxlift.ir.inference.symbolic import product
from onnxlift.ir.origin.module_paths import module_of
from onnxlift.rewriting.idioms.attention.parts.mask import hides_later

from .core import Core

_MAX_STEPS = 8
_LARGEST = 1 << 24


@dataclass(frozen=True)
class AttentionSizes:
    """The sizes of an attention; `rows` is the number of keys that the layer itself appends."""

    batch: Dim
    heads: int
    queries: Dim
    keys: Dim
    rows: int
    is_batched: bool


@dataclass(frozen=True)
class Masks:
    """The masks that a layer is called with.

    `inverted` says that a boolean mask is true for the scores that count. `is_causal` says that the mask by queries and
    keys hides exactly the keys after each query.
    """

    by_query: ir.Value | None = None
    padding: ir.Value | None = None
    inverted: bool = False
    is_causal: bool = False


@dataclass(frozen=True)
class _Mask:
    """A mask on the way back to the layer's argument; `hides` says that a true in a boolean mask hides a score."""

    value: ir.Value
    hides: bool

    @property
    def shown(self) -> bool:
        """The entry of the mask for a score that counts: True, or False, which also equals the 0 of a mask to add."""
        return self.value.dtype == ir.DataType.BOOL and not self.hides


def find_masks(edit: Edit, core: Core, sizes: AttentionSizes, module: str) -> Masks | None:
    """Return the masks of an attention in this module: none, one or both; None if it has a mask that no layer takes."""
    if core.mask is None:
        return Masks()
    of_padding: Shape = (sizes.batch, sizes.keys) if sizes.is_batched else (sizes.keys,)
    for whole, inner in _parts(edit, _Mask(core.mask, core.hides), sizes):
        first = None if whole is None else _by_query(edit, whole, sizes)
        second = None if inner is None else _given(edit, inner, of_padding, sizes.rows)
        if (whole is None) == (first is None) and (inner is None) == (second is None):
            return _masks(edit, first, second, sizes, module)
    return None


def _by_query(edit: Edit, mask: _Mask, sizes: AttentionSizes) -> _Mask | None:
    """Return the mask by queries and keys that the layer was given, one for all heads and batches or one for each."""
    shape, by_head = shape_of(mask.value), product((sizes.batch, sizes.heads))
    if shape is None or by_head is None:
        return None
    axes = (sizes.queries, sizes.keys)
    found = _given(edit, mask, axes, sizes.rows) if all(size == 1 for size in shape[:-2]) else None
    return found or _given(edit, mask, (by_head, *axes), sizes.rows)


def _masks(edit: Edit, first: _Mask | None, second: _Mask | None, sizes: AttentionSizes, module: str) -> Masks | None:
    """Return the two masks as arguments of one call."""
    given = [mask for mask in (first, second) if mask is not None]
    if any(_is_made_in(module, mask.value) for mask in given):
        return None
    masks = Masks(
        None if first is None else first.value,
        None if second is None else second.value,
        inverted=any(mask.shown for mask in given),  # then it is the only one: two masks are added up, as floats
    )
    tensor = None if first is None else constant(first.value)
    if first is None or tensor is None or sizes.queries != sizes.keys:
        return masks
    # With a second mask, all keys up to a query may be hidden. Then it matters which number hides the later ones.
    is_usual = second is None or bool(np.isin(tensor.numpy(), (0, -np.inf)).all())
    return replace(masks, is_causal=is_usual and hides_later(edit, first.value, inverted=first.hides))


def _parts(edit: Edit, mask: _Mask, sizes: AttentionSizes) -> Iterator[tuple[_Mask | None, _Mask | None]]:
    """Yield the possible pairs of a mask by queries and keys, and a mask by batches and keys."""
    if _is_padding(mask.value, sizes):
        yield None, mask
    value = _before_split(edit, mask.value)
    padding = _for_all_heads(edit, value, sizes)
    if padding is not None:
        yield None, replace(mask, value=padding)
    total = made_by(edit, value, "Add")
    if total is not None:
        by_query, joined = total.inputs
        padding = _for_all_heads(edit, joined, sizes)
        if padding is not None and by_query is not None:
            yield _Mask(by_query, hides=False), _Mask(padding, hides=False)
    yield replace(mask, value=value), None


def _before_split(edit: Edit, mask: ir.Value) -> ir.Value:
    """Return the mask with batches and heads in one axis that was reshaped to this one; else this one."""
    split = made_by(edit, mask, "Reshape")
    before = None if split is None else split.inputs[0]
    shape, whole = shape_of(before), shape_of(mask)
    if before is None or shape is None or whole is None or len(shape) != 3 or shape[-2:] != whole[-2:]:
        return mask
    return before


def _is_padding(value: ir.Value | None, sizes: AttentionSizes) -> bool:
    """Tell whether a mask has a number for each batch and key, the same for all heads and queries."""
    shape = shape_of(value)
    if shape is None:
        return False
    leading = shape[:-1]
    if sizes.batch == 1:
        return all(size == 1 for size in leading)
    return leading == (sizes.batch, 1, 1) or (sizes.heads == 1 and leading == (sizes.batch, 1))


def _for_all_heads(edit: Edit, mask: ir.Value | None, sizes: AttentionSizes) -> ir.Value | None:
    """Return the mask by batches and keys that `mask` repeats for all heads and queries."""
    if _is_padding(mask, sizes):
        return mask
    rows = made_by(edit, mask, "Reshape", "Squeeze")
    expanded = None if rows is None else made_by(edit, rows.inputs[0], "Expand")
    padding = None if expanded is None else expanded.inputs[0]
    shape, of_mask = shape_of(padding), shape_of(mask)
    if expanded is None or shape is None or of_mask is None or shape[:-1] != (sizes.batch, 1, 1):
        return None
    if shape_of(expanded.outputs[0]) != (sizes.batch, sizes.heads, 1, shape[3]):
        return None
    return padding if of_mask[1:] == (1, shape[3]) else None


def _given(edit: Edit, mask: _Mask, shape: Shape, rows: int) -> _Mask | None:
    """Return the mask of this shape that the layer was given, before it got columns for `rows` more keys and other
    axes.
    """
    found: _Mask | None = None
    step: tuple[_Mask, int] | None = mask, rows
    for _ in range(_MAX_STEPS):
        if step is None:
            break
        mask, rows = step
        if rows == 0 and shape_of(mask.value) == shape:
            found = mask
        step = _before(edit, mask, rows)
    return found or _cut(edit, mask, shape, rows)


def _before(edit: Edit, mask: _Mask, rows: int) -> tuple[_Mask, int] | None:
    """Return the mask one step back, and how many columns it still has too many."""
    value = mask.value
    inverted, choice, pad = (made_by(edit, value, op_type) for op_type in ("Not", "Where", "Pad"))
    if inverted is not None and inverted.inputs[0] is not None and not mask.hides:
        return _Mask(inverted.inputs[0], hides=True), rows
    if choice is not None and shape_of(choice.inputs[0]) == shape_of(value) is not None:
        hidden, then, otherwise = choice.inputs
        if hidden is not None and number(then) == -math.inf and is_zeros(edit, otherwise):
            return _Mask(hidden, hides=True), rows
    if pad is not None and pad.inputs[0] is not None:
        columns = None if mask.shown else _columns(pad)
        return None if columns is None else (replace(mask, value=pad.inputs[0]), rows - columns)
    axes = made_by(edit, value, "Unsqueeze", "Squeeze", "Reshape")
    return None if axes is None or axes.inputs[0] is None else (replace(mask, value=axes.inputs[0]), rows)


def _columns(pad: ir.Node) -> int | None:
    """Return how many columns of zeros a Pad adds after the last one, if it does nothing else."""
    amounts, filler, *_ = *pad.inputs[1:], None, None
    sizes = static_elements(amounts)
    if attribute(pad, "mode", "constant") != "constant" or len(pad.inputs) > 3 or not sizes:
        return None
    return sizes[-1] if not any(sizes[:-1]) and (filler is None or number(filler) == 0) else None


def _cut(edit: Edit, mask: _Mask, shape: Shape, rows: int) -> _Mask | None:
    """Return a constant mask of this shape without its last `rows` columns, which must hide nothing."""
    tensor = constant(mask.value)
    if tensor is None or tensor.size > _LARGEST or not all(isinstance(size, int) for size in shape):
        return None
    array, sizes = np.atleast_1d(tensor.numpy()), [int(size) for size in shape]
    kept, appended = np.split(array, sizes[-1:], axis=-1)
    if (appended != mask.shown).any() or array.shape[-1] != sizes[-1] + rows or kept.size != math.prod(sizes):
        return None
    return replace(mask, value=edit.constant(f"{mask.value.name}.given", contiguous(kept).reshape(sizes)))


def _is_made_in(module: str, value: ir.Value | None) -> bool:
    producer = None if value is None else value.producer()
    return producer is not None and module_of(producer) == module != ""
