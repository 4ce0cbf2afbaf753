"""The mask of an attention: a value that is added to its scores, or says which scores count.

Two masks that are applied one after the other are one, if nothing is left of a score that either of them hides:

    Add(Add(scores, bias), mask)                  ->   scores + (bias + mask)
    Where(kept, Add(scores, bias), fill)          ->   scores + Where(kept, bias, fill)
    Add(Where(kept, scores, fill), mask)          ->   scores + (Where(kept, 0, fill) + mask)
    Where(kept, Where(other, scores, -inf), -inf) ->   the boolean mask And(kept, other)

`mask` must be 0 or a huge negative number everywhere (in the first rule, this may hold for the bias instead). Otherwise
the order of the additions would change the result. If `fill` is a number and not -inf, `kept` must be for keys only, or
made of positions. For a query whose keys are all hidden, the result would be the same, but not the gradient; and masks
by queries that come from data do hide all keys of some queries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import both_orders, is_private, made_by, with_number
from onnxlift.ir.graph.constants import constant, number
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import Shape, rank, shape_of, static_elements
from onnxlift.ir.graph.types import INTEGERS, DataType, is_float
from onnxlift.ir.inference.positions import Positions
from onnxlift.ir.inference.shape_rules import broadcast_shapes
from onnxlift.ir.origin.tensors import may_be_trained

from .windows import before_windows, is_for_all_windows, repeated, repeated_windows

_HUGE = -1e30
"""Added to any score, this leaves the same number: the score is lost in rounding."""
_LARGEST_SHIFT = 64
"""A larger number that is added to all scores costs them digits."""
_MAX_CAUSAL = 1 << 24
_MOST_POSITIONS = 64  # values that a mask of positions is made of


@dataclass
class Mask:
    """A mask of `scores`, or none at all.

    Either `added` is added to the scores, or the boolean `kept` says which scores count. Scores that do not count are
    `filled` with a number; with -inf, the mask is purely boolean. If `inverted`, a true in `kept` hides a score.
    `windows` is a mask for the windows of an image, besides the others. `earlier` is the mask that was applied before
    this one.
    """

    scores: ir.Value | None
    added: ir.Value | None = None
    kept: ir.Value | None = None
    filled: float = -np.inf
    inverted: bool = False
    is_causal: bool = False
    windows: ir.Value | None = None
    earlier: Mask | None = None

    @property
    def given(self) -> ir.Value | None:
        """The value that is added, or says which scores count."""
        return self.added if self.kept is None else self.kept

    @property
    def is_boolean(self) -> bool:
        """Tell whether this mask, with all masks before it, only says which scores count."""
        return self.kept is not None and self.filled == -np.inf and (self.earlier is None or self.earlier.is_boolean)

    def fits(self) -> bool:
        """Tell whether PyTorch takes the mask: it must have at least one axis."""
        return self.given is None or bool(shape_of(self.given))

    def value(self, edit: Edit, before: ir.Node, q: ir.Value) -> ir.Value | None:
        """Return the mask as one value: boolean (True where a score counts), or a float to add. May insert nodes."""
        if self.windows is not None:
            return repeated(edit, before, self.windows, self.added, q)
        mask = None if self.is_causal else self._value(edit, before)
        shape = shape_of(mask)
        if mask is None or shape is None or len(shape) != 1:
            return mask
        axes, attributes = edit.axes(before, [0])  # PyTorch wants an axis of queries, even if it has one entry
        name = f"{mask.name}.row"
        return edit.insert(before, "Unsqueeze", [mask, *axes], attributes, like=mask, shape=(1, *shape), name=name)

    def _value(self, edit: Edit, before: ir.Node) -> ir.Value | None:
        if self.kept is None:
            earlier = None if self.earlier is None else self.earlier.number(edit, before)
            return self.added if earlier is None else _inserted(edit, before, "Add", earlier, self.added)
        if not self.is_boolean:
            return self.number(edit, before)
        kept = _inserted(edit, before, "Not", self.kept) if self.inverted else self.kept
        earlier = None if self.earlier is None else self.earlier._value(edit, before)
        return kept if earlier is None else _inserted(edit, before, "And", earlier, kept)

    def number(self, edit: Edit, before: ir.Node) -> ir.Value | None:
        """Return the mask as a float to add."""
        if self.kept is None:
            return self._value(edit, before)
        assert self.scores is not None
        dtype = (DataType.FLOAT if self.scores.dtype is None else self.scores.dtype).numpy()
        visible = None if self.earlier is None else self.earlier.number(edit, before)
        if visible is None:
            visible = edit.constant(f"{self.kept.name}.mask.kept", np.array(0, dtype))
        fill = edit.constant(f"{self.kept.name}.mask.masked", np.array(self.filled, dtype))
        return _inserted(edit, before, "Where", self.kept, *((fill, visible) if self.inverted else (visible, fill)))


def _inserted(edit: Edit, before: ir.Node, op_type: str, *inputs: ir.Value | None) -> ir.Value:
    """Return the result of a new node, with the type of its last input and the shape that all inputs broadcast to."""
    first, last = inputs[0], inputs[-1]
    assert first is not None and last is not None
    shapes = [shape for value in inputs if (shape := shape_of(value)) is not None]
    shape = broadcast_shapes(shapes, lambda: edit.names.fresh("size"))
    return edit.insert(before, op_type, inputs, like=last, shape=shape, name=f"{first.name}.mask", shared=True)


def find_mask(edit: Edit, value: ir.Value, nodes: list[ir.Node]) -> Mask:
    """Return the mask that was applied last to the scores in `value`; append the nodes that apply it to `nodes`.

    Before a mask of windows, there may be a mask that is added to the scores of all windows alike.
    """
    scores, windows = before_windows(edit, value, nodes)
    if windows is not None:
        add = made_by(edit, scores, "Add")
        bias = _added(edit, add) if add is not None else None
        if add is None or bias is None or not is_for_all_windows(bias.added):
            return Mask(scores, windows=windows)
        nodes.append(add)
        return replace(bias, windows=windows, is_causal=False)  # PyTorch takes a mask or is_causal
    scores, windows, added = repeated_windows(edit, value, nodes)
    if windows is not None:
        return Mask(scores, added=added, windows=windows)
    where, add = made_by(edit, value, "Where"), made_by(edit, value, "Add")
    mask = None
    if where is not None:
        mask = _filled(edit, where)
    elif add is not None:
        mask = _added(edit, add)
    if mask is None:
        return Mask(value)
    nodes += [node for node in (where, add) if node is not None]
    return _with_earlier(edit, mask, nodes)


def _with_earlier(edit: Edit, mask: Mask, nodes: list[ir.Node]) -> Mask:
    """Return the mask together with the one that was applied before it, if the two can be one."""
    where, add = made_by(edit, mask.scores, "Where"), made_by(edit, mask.scores, "Add")
    earlier = _filled(edit, where) if where is not None else _added(edit, add) if add is not None else None
    if earlier is None or not is_private(edit, mask.scores):
        return mask
    is_idle = None in (mask.given, earlier.given)  # one of them hides nothing
    is_one = (
        mask.kept is not None
        or _is_all_or_nothing(edit, mask.added)
        or (earlier.kept is None and _is_all_or_nothing(edit, earlier.added))
    )
    if not is_idle and not (is_one and _leaves_keys(mask) and _leaves_keys(earlier)):
        return mask
    nodes += [node for node in (where, add) if node is not None]
    if is_idle:
        return replace(earlier if mask.given is None else mask, scores=earlier.scores)
    return replace(mask, scores=earlier.scores, is_causal=False, earlier=earlier)


def _leaves_keys(mask: Mask) -> bool:
    """Tell whether the mask is of a kind that leaves each query some key, as a rule.

    That is so if it is for keys only, or computed from constants and sizes alone, so that it is the same in every run.
    A mask by queries that is made of data may hide all keys of a query. Only masks that fill with a finite number are
    examined: those that are added, or that fill with -inf, pass.
    """
    shape = shape_of(mask.kept)
    if mask.kept is None or mask.filled == -np.inf or shape is None or shape[-2:-1] in ((), (1,)):
        return True
    waiting, seen = [mask.kept], set[ir.Value]()
    while waiting:
        value = waiting.pop()
        if value in seen:  # for speed
            continue
        node = value.producer()
        if (node is None and constant(value) is None) or len(seen) > _MOST_POSITIONS:
            return False
        if node is not None and is_standard(node, "If", "Loop", "Scan"):  # their subgraphs read more than their inputs
            return False
        if node is not None and not is_standard(node, "Shape", "Size"):
            waiting += [each for each in node.inputs if each is not None]
        seen.add(value)
    return True


def _is_all_or_nothing(edit: Edit, mask: ir.Value | None) -> bool:
    """Tell whether a mask is 0 or a huge negative number everywhere."""
    choice, product = made_by(edit, mask, "Where"), made_by(edit, mask, "Mul")
    if choice is not None:
        numbers = [number(value) for value in choice.inputs[1:]]
        return 0 in numbers and any(each is not None and each <= _HUGE for each in numbers)
    if product is not None:  # `(1 - mask) * -inf`, with a mask of ones and zeros
        return any(_is_one_less(edit, value) and (number(other) or 0) <= _HUGE for value, other in both_orders(product))
    tensor = constant(mask)
    if tensor is None or tensor.size > _MAX_CAUSAL:
        return False
    array = tensor.numpy()
    return bool(((array == 0) | (array.astype(np.float64) <= _HUGE)).all())


def _is_one_less(edit: Edit, value: ir.Value | None) -> bool:
    """Tell whether this is 1 minus a value that was an integer or a boolean."""
    difference = made_by(edit, value, "Sub")
    if difference is None or number(difference.inputs[0]) != 1:
        return False
    whole = difference.inputs[1]
    while (moved := made_by(edit, whole, "Cast", "Unsqueeze", "Expand")) is not None and is_float(whole):
        whole = moved.inputs[0]
    return whole is not None and (whole.dtype in INTEGERS or whole.dtype == DataType.BOOL)


def _filled(edit: Edit, where: ir.Node) -> Mask | None:
    """Match `Where(kept, scores, fill)` or `Where(hidden, fill, scores)`."""
    kept, then, otherwise = where.inputs
    for scores, fill, inverted in ((then, number(otherwise), False), (otherwise, number(then), True)):
        if fill is not None and fill <= _HUGE and _keeps_shape(scores, kept):
            if _hides_nothing(edit, scores, kept, inverted):
                return Mask(scores)
            causal = _is_causal(edit, scores, kept, inverted)
            return Mask(scores, kept=kept, filled=fill, inverted=inverted, is_causal=causal)
    return None


def _added(edit: Edit, add: ir.Node) -> Mask | None:
    """Match `Add(scores, mask)` in either order; the mask may be `Where(kept, 0, fill)` or `Where(hidden, fill, 0)`."""
    first, second = add.inputs
    is_first = is_score(edit, first) or (not is_score(edit, second) and _is_masked_score(edit, first))
    scores, mask = (first, second) if is_first else (second, first)
    if not _keeps_shape(scores, mask):
        return None
    mask = _without_shift(edit, mask) if _is_within(scores, mask) else mask
    if mask is None or number(mask) == 0:
        return Mask(scores)  # a softmax does not tell -0.0 from 0.0
    choice = made_by(edit, mask, "Where")
    if choice is not None and rank(choice.inputs[0]) == rank(mask):
        kept, then, otherwise = choice.inputs
        for zero, fill, inverted in ((number(then), number(otherwise), False), (number(otherwise), number(then), True)):
            if zero != 0 or fill is None or fill > _HUGE:
                continue
            if _hides_nothing(edit, scores, kept, inverted):
                return Mask(scores)
            causal = _is_causal(edit, scores, kept, inverted)
            if causal or fill == -np.inf:
                return Mask(scores, kept=kept, filled=fill, inverted=inverted, is_causal=causal)
    return Mask(scores, added=mask, is_causal=_is_causal(edit, scores, mask))


def _without_shift(edit: Edit, mask: ir.Value | None) -> ir.Value | None:
    """Return the mask without a constant that is added to all scores alike; None if nothing remains.

    A softmax does not depend on this constant. PyTorch adds one where the True of a mask that hides nothing becomes 1.
    """
    total = made_by(edit, mask, "Add")
    sums: Iterable[tuple[ir.Value | None, ir.Value | None]] = both_orders(total) if total is not None else ()
    for rest, added in ((None, mask), *sums):
        shift = _number_throughout(edit, added)
        if shift is not None and abs(shift) <= _LARGEST_SHIFT and not may_be_trained(added):
            return rest
    return mask


def _hides_nothing(edit: Edit, scores: ir.Value | None, kept: ir.Value | None, inverted: bool) -> bool:
    """Tell whether all scores count under a boolean mask that does not broadcast them to a larger shape."""
    return _is_within(scores, kept) and _number_throughout(edit, kept) == (not inverted)


def _number_throughout(edit: Edit, value: ir.Value | None) -> float | None:
    """Return the number that a constant, perhaps expanded and cast, has everywhere.

    After a cast from or to another type than a float, the number must be 0 or 1, which all types have.
    """
    are_floats = is_float(value)
    for op_type in ("Cast", "Expand", "Cast"):
        node = made_by(edit, value, op_type)
        value = value if node is None else node.inputs[0]
        are_floats = are_floats and is_float(value)
    filled = made_by(edit, value, "ConstantOfShape")
    tensor = constant(value) if filled is None else attribute(filled, "value", None)
    if tensor is None or not 0 < tensor.size <= _MAX_CAUSAL:
        return None
    array = tensor.numpy()
    first = array.reshape(-1)[0]
    return float(first) if (array == first).all() and (are_floats or first in (0, 1)) else None


def is_score(edit: Edit, value: ir.Value | None) -> bool:
    """Tell whether `value` is a product of two tensors, perhaps scaled: not what one would add as a mask."""
    scaled = made_by(edit, value, "Mul", "Div")
    inner = [value, *(scaled.inputs if scaled is not None else ())]
    return any(made_by(edit, one, "MatMul") is not None for one in inner)


def _is_masked_score(edit: Edit, value: ir.Value | None) -> bool:
    masked = made_by(edit, value, "Add", "Where")
    return masked is not None and any(is_score(edit, one) for one in masked.inputs)


def _keeps_shape(scores: ir.Value | None, mask: ir.Value | None) -> bool:
    """Tell whether the scores keep their shape under the mask.

    The mask must have no more axes, and must broadcast to the scores, not the other way round: PyTorch refuses that if
    the sizes turn out so at run time.
    """
    shape, of_mask = shape_of(scores), shape_of(mask)
    if shape is None or of_mask is None or len(of_mask) > len(shape):
        return False
    aligned = zip(reversed(shape), reversed(of_mask), strict=False)
    return not any(size == 1 and of_mask_too != 1 for size, of_mask_too in aligned)


def _is_within(scores: ir.Value | None, mask: ir.Value | None) -> bool:
    """Tell whether the scores have the same shape without the mask, whatever the sizes are at run time."""
    shape, of_mask = shape_of(scores), shape_of(mask)
    if shape is None or of_mask is None:
        return False
    return all(of_one in (1, size) for size, of_one in zip(reversed(shape), reversed(of_mask), strict=False))


def _is_causal(edit: Edit, scores: ir.Value | None, mask: ir.Value | None, inverted: bool = False) -> bool:
    """Tell whether the mask hides exactly the keys after each query, as PyTorch's `is_causal` does."""
    shape, size = shape_of(mask), shape_of(scores)
    if shape is None or size is None or len(shape) < 2 or shape[-2:] != size[-2:] or not _is_within(scores, mask):
        return False
    return hides_later(edit, mask, inverted)


def hides_later(edit: Edit, mask: ir.Value | None, inverted: bool = False) -> bool:
    """Tell whether a mask by queries and keys, the same for all batches and heads, hides exactly the keys after each
    query.

    `inverted` says that a true in a boolean mask hides a key.
    """
    tensor, shape = constant(mask), shape_of(mask)
    if tensor is None:
        if shape is None or any(axis != 1 for axis in shape[:-2]):
            return False
        return _is_triangle(edit, mask, shape[-2:], inverted)
    if tensor.size > _MAX_CAUSAL:
        return False
    array = tensor.numpy()
    visible = np.tri(*array.shape[-2:], dtype=np.bool_)
    if array.dtype == bool:
        return bool((array == (~visible if inverted else visible)).all())
    return bool((array[..., visible] == 0).all() and (array[..., ~visible].astype(np.float64) <= _HUGE).all())


def _is_triangle(edit: Edit, mask: ir.Value | None, sizes: Shape, inverted: bool) -> bool:
    """Tell whether `mask`, of these sizes, hides exactly the keys after each query, by one of these forms.

    It compares positions: that of a key is not after that of the query. Or it is a triangle of a matrix of one number.
    The lower triangle of ones marks the keys that count. The upper triangle without the diagonal marks the keys that do
    not count, or is added to hide them.
    """
    order = Positions().condition(mask)
    if order is not None:
        rows, columns = order.strides[-2:]
        return (rows, columns, order.offset) == ((-1, 1, -1) if inverted else (1, -1, 0))
    is_added = is_float(mask)
    while not is_added and (node := made_by(edit, mask, "Not", "Equal", "Cast", "Unsqueeze")) is not None:
        compared = with_number(node) if node.op_type == "Equal" else (node.inputs[0], 0)
        if compared is None or compared[1] != 0:
            return False
        mask, inverted = compared[0], inverted ^ (node.op_type in ("Not", "Equal"))
    triangle, shape = made_by(edit, mask, "Trilu"), shape_of(mask)
    if triangle is None or shape is None or shape[-2:] != sizes:
        return False
    diagonal = (0,) if len(triangle.inputs) < 2 or triangle.inputs[1] is None else static_elements(triangle.inputs[1])
    filled = _number_throughout(edit, triangle.inputs[0])
    if attribute(triangle, "upper", 1) == 0:
        return diagonal == (0,) and filled == 1 and not is_added and not inverted
    is_hidden = filled is not None and filled <= _HUGE if is_added else filled == 1 and inverted
    return diagonal == (1,) and is_hidden
