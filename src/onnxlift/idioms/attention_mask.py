"""The mask of an attention: what is added to its scores, or says which of them count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ..ir.node_view import shape_of
from ..ir.scopes import constant
from ..ir.types import DataType
from ..passes.edit import Edit
from .match import made_by, number, rank

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
    where, add = made_by(edit, value, "Where"), made_by(edit, value, "Add")
    if where is not None:
        return _filled(where, nodes) or Mask(value)
    if add is not None:
        return _added(edit, add, nodes) or Mask(value)
    return Mask(value)


def _filled(where: ir.Node, nodes: list[ir.Node]) -> Mask | None:
    """`Where(kept, scores, fill)` or the other way round."""
    kept, then, otherwise = where.inputs
    for scores, fill, inverted in ((then, number(otherwise), False), (otherwise, number(then), True)):
        if fill is not None and fill <= _HUGE and _keeps_shape(scores, kept):
            nodes.append(where)
            return Mask(scores, kept=kept, filled=fill, inverted=inverted, is_causal=_is_causal(scores, kept, inverted))
    return None


def _added(edit: Edit, add: ir.Node, nodes: list[ir.Node]) -> Mask | None:
    """`Add(scores, mask)` either way round."""
    first, second = add.inputs
    scores, mask = (second, first) if _is_score(edit, second) and not _is_score(edit, first) else (first, second)
    if not _keeps_shape(scores, mask):
        return None
    nodes.append(add)
    choice = made_by(edit, mask, "Where")
    if choice is not None:
        kept, zero, fill = choice.inputs
        if number(zero) == 0 and number(fill) == -np.inf and rank(kept) == rank(mask):
            nodes.append(choice)
            return Mask(scores, kept=kept, is_causal=_is_causal(scores, kept))
    return Mask(scores, added=mask, is_causal=_is_causal(scores, mask))


def _is_score(edit: Edit, value: ir.Value | None) -> bool:
    """Whether `value` is a product of two tensors, perhaps scaled: not what one would add as a mask."""
    scaled = made_by(edit, value, "Mul", "Div")
    inner = [value, *(scaled.inputs if scaled is not None else ())]
    return any(made_by(edit, one, "MatMul") is not None for one in inner)


def _keeps_shape(scores: ir.Value | None, mask: ir.Value | None) -> bool:
    """Whether the scores keep their shape under the mask: it has no more axes, and broadcasts to them, not the other
    way round (PyTorch refuses that, where sizes turn out so at run time)."""
    shape, of_mask = shape_of(scores), shape_of(mask)
    if shape is None or of_mask is None or len(of_mask) > len(shape):
        return False
    aligned = zip(reversed(shape), reversed(of_mask), strict=False)
    return not any(size == 1 and of_mask_too != 1 for size, of_mask_too in aligned)


def _is_causal(scores: ir.Value | None, mask: ir.Value | None, inverted: bool = False) -> bool:
    """Whether a constant mask hides exactly the keys after each query, as `is_causal` of PyTorch does."""
    tensor, shape, size = constant(mask), shape_of(mask), shape_of(scores)
    if tensor is None or shape is None or size is None or len(shape) < 2 or tensor.size > _MAX_CAUSAL:
        return False
    if shape[-2:] != size[-2:] or any(axis != 1 for axis in shape[:-2]):
        return False
    array = tensor.numpy().reshape(int(shape[-2]), int(shape[-1]))
    visible = np.tri(*array.shape, dtype=bool)
    if array.dtype == bool:
        return bool((array == (~visible if inverted else visible)).all())
    return bool((array[visible] == 0).all() and (array[~visible] <= _HUGE).all())
