"""The mask of an attention: what is added to its scores, or says which of them count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ..ir.scopes import constant
from ..ir.types import DataType
from ..passes.edit import Edit
from .match import is_private, made_by, number, rank

_HUGE = -1e30
"""Added to any score, this leaves the same number: the score is lost in rounding."""
_MAX_CAUSAL = 1 << 24


@dataclass
class Mask:
    """How `scores` were masked: by `added`, by the boolean `kept`, or by `filled` (with this number where `kept` says
    no), where `inverted` turns the boolean's meaning round. Or not at all."""

    scores: ir.Value | None
    added: ir.Value | None = None
    kept: ir.Value | None = None
    filled: float = -np.inf
    inverted: bool = False
    is_causal: bool = False

    def fits(self, axes: int | None) -> bool:
        """Whether PyTorch broadcasts it to the scores, which have `axes` axes."""
        mask = self.added if self.kept is None else self.kept
        return mask is None or self.is_causal or (axes is not None and 2 <= (rank(mask) or 0) <= axes)

    def value(self, edit: Edit, before: ir.Node) -> ir.Value | None:
        """The mask as one value: boolean (True where a score counts), or a float to add. May insert a node."""
        if self.is_causal:
            return None
        if self.kept is None or self.scores is None:
            return self.added
        shape = shape_of(self.kept) or (None,) * (rank(self.kept) or 0)
        name = f"{self.kept.name}.mask"
        if self.filled == -np.inf:
            if not self.inverted:
                return self.kept
            return edit.insert(before, "Not", [self.kept], like=self.kept, shape=shape, name=name)
        dtype = (self.scores.dtype or DataType.FLOAT).numpy()
        zero = edit.constant(f"{name}.kept", np.array(0, dtype))
        fill = edit.constant(f"{name}.masked", np.array(self.filled, dtype))
        branches = (fill, zero) if self.inverted else (zero, fill)
        return edit.insert(before, "Where", [self.kept, *branches], like=self.scores, shape=shape, name=name)


def find_mask(edit: Edit, value: ir.Value, nodes: list[ir.Node]) -> Mask:
    """The mask that was applied last to the scores in `value`; the nodes that apply it are appended to `nodes`."""
    if not is_private(edit, value):
        return Mask(value)
    where = made_by(edit, value, "Where")
    if where is not None:
        condition, then, otherwise = where.inputs
        for scores, fill, inverted in ((then, number(otherwise), False), (otherwise, number(then), True)):
            if fill is not None and fill <= _HUGE and _keeps_shape(scores, value):
                nodes.append(where)
                causal = not inverted and _is_causal(condition)
                return Mask(scores, kept=condition, filled=fill, inverted=inverted, is_causal=causal)
        return Mask(value)
    add = made_by(edit, value, "Add")
    if add is None:
        return Mask(value)
    first, second = add.inputs
    scores, added = (second, first) if _is_score(edit, second) and not _is_score(edit, first) else (first, second)
    if added is None or not _keeps_shape(scores, value):
        return Mask(value)
    nodes.append(add)
    choice = made_by(edit, added, "Where")
    if choice is not None and number(choice.inputs[1]) == 0 and number(choice.inputs[2]) == -np.inf:
        kept = choice.inputs[0]
        if rank(kept) == rank(added):
            nodes.append(choice)
            return Mask(scores, kept=kept, is_causal=_is_causal(kept))
    return Mask(scores, added=added, is_causal=_is_causal(added))


def _is_score(edit: Edit, value: ir.Value | None) -> bool:
    """Whether `value` is a product of two tensors, perhaps scaled: not what one would add as a mask."""
    scaled = made_by(edit, value, "Mul", "Div")
    inner = [value, *(scaled.inputs if scaled is not None else ())]
    return any(made_by(edit, one, "MatMul") is not None for one in inner)


def _keeps_shape(scores: ir.Value | None, masked: ir.Value) -> bool:
    """Whether the mask gives the scores no more axes."""
    return rank(scores) is not None and rank(scores) == rank(masked)


def _is_causal(mask: ir.Value | None) -> bool:
    """Whether a constant mask hides exactly the keys after each query, as `is_causal` of PyTorch does."""
    tensor, shape = constant(mask), shape_of(mask)
    if mask is None or tensor is None or shape is None or len(shape) < 2 or not 1 < tensor.size <= _MAX_CAUSAL:
        return False
    if any(size != 1 for size in shape[:-2]):
        return False
    array = tensor.numpy().reshape(int(shape[-2]), int(shape[-1]))
    visible = np.tri(*array.shape, dtype=bool)
    if array.dtype == bool:
        return bool((array == visible).all())
    return bool((array[visible] == 0).all() and (array[~visible] <= _HUGE).all())
