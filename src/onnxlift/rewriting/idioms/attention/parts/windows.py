"""The mask of an attention in windows: each window of an image has its own, and all images of a batch have the same.

1. Reshape(Add(Reshape(scores, (b, w, h, n, m)), mask), (b * w, h, n, m))
2. Add(scores, Tile(mask, (b, 1, 1, 1)))
3. Add(scores, Reshape(Expand(mask (1, w, ...), (b, w, ...)), (b * w, ...)))
       ->  scores + WindowMask(mask), which is `mask.repeat(b, 1, 1, 1)`

The batch of the scores has w windows of each image. The mask has the shape (w, 1, n, m) or (w, h, n, m), perhaps with
an axis of size 1 before. All sizes but that of the batch are known. Not if another node reads a value in between.

The first form is sound because the first axis of a reshape follows from the others. So the scores get their shape back,
and entry j of the batch is window j % w of its image. In the other forms, the batch must be known to be as large as the
repeated mask; then the scores have as many images as the mask is repeated for. In these forms a bias that is the same
for all windows may be added to the mask, before or after it is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import DOMAIN, both_orders, is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import elements_of, shape_of
from onnxlift.ir.graph.types import Dim

Sizes = tuple[Dim, ...]


def before_windows(edit: Edit, value: ir.Value, nodes: list[ir.Node]) -> tuple[ir.Value, ir.Value | None]:
    """Return the scores before a mask of the first form was added, and the mask; else `value` itself and None.

    The nodes in between are appended to `nodes`.
    """
    joined = made_by(edit, value, "Reshape")
    add = made_by(edit, joined.inputs[0], "Add") if joined is not None else None
    if joined is None or add is None or not is_private(edit, add.outputs[0]):
        return value, None
    for cut, mask in both_orders(add):
        split = made_by(edit, cut, "Reshape")
        scores = split.inputs[0] if split is not None else None
        if split is None or scores is None or not is_private(edit, cut) or not is_private(edit, scores):
            continue
        if _are_windows(shape_of(scores), shape_of(cut), shape_of(mask)) and _is_like(
            shape_of(scores), shape_of(value)
        ):
            nodes += [joined, add, split]
            return scores, mask
    return value, None


def repeated_windows(
    edit: Edit, value: ir.Value, nodes: list[ir.Node]
) -> tuple[ir.Value, ir.Value | None, ir.Value | None]:
    """Return the scores before a mask of form 2 or 3 was added, the mask, and the bias that all windows share.

    Return `value` itself, None and None if there is no such mask. The nodes in between are appended to `nodes`.
    """
    add = made_by(edit, value, "Add")
    for scores, added in both_orders(add) if add is not None else ():
        for repetition, bias, more in _with_bias(edit, added):
            found = _before_repetition(edit, scores, repetition)
            if add is None or found is None:
                continue
            mask, between = found
            nodes += [add, *more, *between]
            if bias is None:
                mask, bias, more = next(parts for parts in _with_bias(edit, mask) if _is_of_windows(mask, parts[0]))
                nodes += more
            return scores, mask, bias
    return value, None, None


def _with_bias(edit: Edit, value: ir.Value) -> Iterator[tuple[ir.Value, ir.Value | None, list[ir.Node]]]:
    """Yield the ways to see a value as a sum with a bias for all windows: the rest, the bias, and the node that adds
    it.

    The last one is the value as it is, without a bias.
    """
    add = made_by(edit, value, "Add")
    if add is not None and is_private(edit, value):
        yield from ((own, bias, [add]) for own, bias in both_orders(add) if is_for_all_windows(bias))
    yield value, None, []


def _before_repetition(edit: Edit, scores: ir.Value, value: ir.Value) -> tuple[ir.Value, list[ir.Node]] | None:
    """Return the mask that `value` repeats for all images of the scores, and the nodes that repeat it."""
    found = _before_tile(edit, value) or _before_expand(edit, value)
    mask = shape_of(found[0]) if found is not None else None
    shape, whole = shape_of(scores), shape_of(value)
    if mask is None or shape is None or whole is None or shape[:1] != whole[:1]:
        return None
    windows = mask[-4:-3]
    return found if windows != (1,) and _are_windows(shape, (*shape[:1], *windows, *shape[1:]), mask) else None


def _before_tile(edit: Edit, value: ir.Value) -> tuple[ir.Value, list[ir.Node]] | None:
    """Match form 2: return the mask and the Tile."""
    tile = made_by(edit, value, "Tile")
    times = elements_of(tile.inputs[1]) if tile is not None else None
    if tile is None or tile.inputs[0] is None or times is None or times[1:] != (1, 1, 1):
        return None
    return tile.inputs[0], [tile]


def _before_expand(edit: Edit, value: ir.Value) -> tuple[ir.Value, list[ir.Node]] | None:
    """Match form 3: return the mask, the Reshape and the Expand."""
    joined = made_by(edit, value, "Reshape")
    expand = made_by(edit, joined.inputs[0], "Expand") if joined is not None else None
    if joined is None or expand is None or expand.inputs[0] is None:
        return None
    mask, wide, flat = (shape_of(each) for each in (expand.inputs[0], joined.inputs[0], value))
    if mask is None or wide is None or flat is None or mask[1:] != wide[1:] or mask[2:] != flat[1:]:
        return None
    return expand.inputs[0], [joined, expand]


def _is_of_windows(total: ir.Value, mask: ir.Value) -> bool:
    """Tell whether a mask has an entry for each window of `total`, the sum of the mask and a bias."""
    whole = shape_of(total)
    return whole is not None and shape_of(mask) in (whole, (*whole[:1], 1, *whole[2:]))


def repeated(edit: Edit, before: ir.Node, mask: ir.Value, bias: ir.Value | None, q: ir.Value) -> ir.Value:
    """Return the mask, plus `bias`, repeated for all windows of q."""
    shape, queries = shape_of(mask), shape_of(q)
    assert shape is not None
    name = mask.name
    tensor = constant(mask)
    if len(shape) == 5 and tensor is not None:
        shape = shape[1:]
        mask = edit.constant(f"{edit.names.fresh('windows')}/attn_mask", tensor.numpy()[0])  # the part up to / goes
    elif len(shape) == 5:
        axes, attributes = edit.axes(before, [0])
        shape = shape[1:]
        mask = edit.insert(before, "Squeeze", [mask, *axes], attributes, like=mask, shape=shape, name=f"{name}.windows")
    full = (None, queries[1] if queries is not None else None, *shape[2:])
    heads = made_by(edit, mask, "Unsqueeze")
    flat = heads.inputs[0] if heads is not None else None
    if flat is not None and shape_of(flat) == (shape[0], *shape[2:]):
        mask = flat  # WindowMask adds the axis itself
    inputs = [mask, q] if bias is None else [mask, q, bias]
    return edit.insert(before, "WindowMask", inputs, like=mask, shape=full, name=f"{name}.repeated", domain=DOMAIN)


def is_for_all_windows(bias: ir.Value | None) -> bool:
    """Tell whether a value that is added to the scores is the same for every entry of the batch."""
    shape = shape_of(bias)
    return shape is not None and shape[:-3] in ((), (1,))


def _are_windows(scores: Sizes | None, cut: Sizes | None, mask: Sizes | None) -> bool:
    """Tell whether the scores are split into windows, and the mask has one entry for each."""
    if scores is None or cut is None or mask is None or len(cut) != 5:
        return False
    windows = cut[1:]
    if not all(isinstance(size, int) and size > 0 for size in windows) or windows[1:] != scores[1:]:
        return False
    return mask[-4:] in (windows, (windows[0], 1, *windows[2:])) and mask[:-4] in ((), (1,))


def _is_like(scores: Sizes | None, result: Sizes | None) -> bool:
    """Tell whether the scores get their shape back; their first size follows from the others."""
    return scores is not None and result is not None and scores[1:] == result[1:]
