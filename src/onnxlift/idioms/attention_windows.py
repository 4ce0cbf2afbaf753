"""The mask of an attention in windows: each window of an image has its own, and all images of a batch have the same.

1. Reshape(Add(Reshape(scores, (b, w, h, n, m)), mask), (b * w, h, n, m))
2. Add(scores, Tile(mask, (b, 1, 1, 1)))
       ->  scores + WindowMask(mask), which is `mask.repeat(b, 1, 1, 1)`

The batch of the scores holds w windows of each image; the mask has the shape (w, 1, n, m) or (w, h, n, m), perhaps with
an axis of size 1 before. All sizes but that of the batch are known. Not if anything else reads what is in between.
The first is sound because the first axis of a reshape follows from the others, so that the scores come back in the
shape they had, with window i of each image where i is the remainder of their place in the batch. The second needs a
batch that is known to be as large as the repeated mask; then the images are as many as the scores say themselves.
"""

from __future__ import annotations

import onnx_ir as ir

from ..ir.node_view import elements_of, shape_of
from ..ir.types import Dim
from ..passes.edit import Edit
from .match import DOMAIN, both_orders, is_private, made_by

Sizes = tuple[Dim, ...]


def before_windows(edit: Edit, value: ir.Value, nodes: list[ir.Node]) -> tuple[ir.Value, ir.Value | None]:
    """The scores before such a mask was added to them, and the mask; else `value` itself, without one. The nodes in
    between are appended to `nodes`."""
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


def tiled_windows(edit: Edit, value: ir.Value, nodes: list[ir.Node]) -> tuple[ir.Value, ir.Value | None]:
    """The same for a mask that is repeated by a Tile, rule 2."""
    add = made_by(edit, value, "Add")
    for scores, mask in both_orders(add) if add is not None else ():
        tile = made_by(edit, mask, "Tile")
        if add is None or tile is None or (elements_of(tile.inputs[1]) or ())[1:] != (1, 1, 1):
            continue
        (batch, *window), (repeated_batch, *_) = shape_of(scores) or (None,), shape_of(mask) or (None,)
        windows, *of_window = shape_of(tile.inputs[0]) or (None,)
        if batch is None or batch != repeated_batch or windows == 1:
            continue
        if _are_windows((batch, *window), (batch, windows, *window), (windows, *of_window)):
            nodes += [add, tile]
            return scores, tile.inputs[0]
    return value, None


def without_bias(edit: Edit, mask: ir.Value, nodes: list[ir.Node]) -> tuple[ir.Value, ir.Value | None]:
    """The mask of windows without the bias that was added to it for all of them, and the bias; else as it is."""
    add = made_by(edit, mask, "Add")
    if add is None or not is_private(edit, mask):
        return mask, None
    windows, heads, *window = shape_of(mask) or (0, 0)
    for own, bias in both_orders(add):
        if shape_of(own) in ((windows, 1, *window), (windows, heads, *window)) and is_for_all_windows(bias):
            nodes.append(add)
            return own, bias
    return mask, None


def repeated(edit: Edit, before: ir.Node, mask: ir.Value, bias: ir.Value | None, q: ir.Value) -> ir.Value:
    """The mask, plus `bias`, for all windows of q."""
    shape = shape_of(mask) or ()
    name = mask.name or "mask"
    if len(shape) == 5:
        axes, attributes = edit.axes(before, [0])
        shape = shape[1:]
        mask = edit.insert(before, "Squeeze", [mask, *axes], attributes, like=mask, shape=shape, name=f"{name}.windows")
    full = (None, (shape_of(q) or (None, None))[1], *shape[2:])
    heads = made_by(edit, mask, "Unsqueeze")
    if (
        heads is not None
        and heads.inputs[0] is not None
        and (shape_of(heads.inputs[0]) or ()) == (shape[0], *shape[2:])
    ):
        mask = heads.inputs[0]  # the axis is made where the mask is used
    inputs = [mask, q] if bias is None else [mask, q, bias]
    return edit.insert(before, "WindowMask", inputs, like=mask, shape=full, name=f"{name}.repeated", domain=DOMAIN)


def is_for_all_windows(bias: ir.Value | None) -> bool:
    """Whether what is added to the scores is the same for every entry of the batch."""
    shape = shape_of(bias)
    return shape is not None and (len(shape) < 4 or shape[0] == 1)


def _are_windows(scores: Sizes | None, cut: Sizes | None, mask: Sizes | None) -> bool:
    """Whether the scores are cut into windows, and the mask has one entry for each."""
    if scores is None or cut is None or mask is None or len(scores) != 4 or len(cut) != 5:
        return False
    windows = cut[1:]
    if not all(isinstance(size, int) and size > 0 for size in windows) or windows[1:] != scores[1:]:
        return False
    return mask[-4:] in (windows, (windows[0], 1, *windows[2:])) and mask[:-4] in ((), (1,))


def _is_like(scores: Sizes | None, result: Sizes | None) -> bool:
    """Whether the scores come back in their shape, of which the first size follows from the others."""
    return scores is not None and result is not None and scores[1:] == result[1:]
