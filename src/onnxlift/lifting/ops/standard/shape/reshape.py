"""Write a Reshape in the most telling way: what happens to which axes, instead of all sizes anew.

    (batch, 10, 64)    -> (batch, 10, 4, 16)    x.unflatten(-1, (4, 16))
    (batch, 10, 4, 16) -> (batch, 10, 64)       x.flatten(2)
    (batch, 10)        -> (batch, 1, 10)        x.unsqueeze(1)
    (batch, 49, 8)     -> (batch, 7, 56)        x.reshape(-1, 7, 56)

Leading and trailing sizes that are equal before and after stay. The elements keep their order, so only the axes between
them are reshaped. Sizes are equal if they are the same number or have the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxlift.ir.graph.types import Dim
from onnxlift.ir.inference import symbolic
from onnxlift.lifting.code.expr import Expr
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Dims, Operand, Scalar, Tensor, size_of
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.media.string_arrays import moves_elements

from .shape import squeezed, unsqueezed


@op("Reshape", ignores=("consumed_inputs",))
@moves_elements
def Reshape(n: Node, data: Operand, shape: Dims, *, allowzero: int = 0) -> Result:
    """A size of 0 keeps the input's size, unless `allowzero` (opset 14). A size of -1 follows from the others."""
    if isinstance(data, Scalar | Dims):
        sizes = _reshaped_sizes(data, shape.static)
        if sizes is not None:
            return sizes
    x = n.tensor(data)
    if shape.elements is None:
        return x.reshape(shape) if allowzero else kernel("reshape_copying_zeros")(x, shape)
    target = shape.elements
    if not allowzero:
        target = [_own_size(n, x, axis) if size.number == 0 else size for axis, size in enumerate(target)]
    return reshaped(x, target, n.output.shape)


def _reshaped_sizes(data: Scalar | Dims, shape: tuple[int, ...] | None) -> Scalar | Dims | None:
    """Return a list of sizes reshaped to a list, or a single one to a scalar; None for any other reshape."""
    if isinstance(data, Scalar):
        return data if shape == () else Dims([data]) if shape in ((1,), (-1,)) else None
    if shape == () and data.length == 1:
        return data[0]
    return data if shape is not None and len(shape) == 1 else None


def _own_size(n: Node, x: Tensor, axis: int) -> Scalar:
    if x.type.rank is not None and axis >= x.type.rank:
        n.fail(f"its shape copies axis {axis} of an input that has {x.type.rank}")
    return size_of(x, axis)


def reshaped(x: Tensor, target: Sequence[Scalar], result: tuple[Dim, ...] | None) -> Expr:
    """Return `x` in the shape `target`, one of whose sizes may be -1. `result` is what inference knows of that
    shape."""
    if x.type.shape is not None:
        if result is None or len(result) != len(target):
            result = (None,) * len(target)
        after = [_known(size) if dim is None else dim for size, dim in zip(target, result, strict=True)]
        target = [Scalar(dim) if isinstance(dim, int) else size for size, dim in zip(target, after, strict=True)]
        change = _between(x.type.shape, after, target)
        written = change.write(x)
        if written is not None:
            return written
    if len(target) == 1:
        return x.flatten()
    return x.reshape(*_with_minus_one(target)) if target else x.reshape(())


def _known(size: Scalar) -> Dim:
    number = size.number
    return int(number) if number is not None and number >= 0 else None


def _with_minus_one(target: Sequence[Scalar]) -> list[Scalar]:
    """Return the sizes with -1 for the only one that is not a number. It follows from the others, if none of these is
    0."""
    dynamic = [axis for axis, size in enumerate(target) if size.number is None]
    if len(dynamic) != 1 or any(size.number in (0, -1) for size in target):
        return list(target)
    return [Scalar(-1) if size.number is None else size for size in target]


@dataclass
class _Change:
    """A change of the axes from `first` on: their sizes `before` become `after`, and the `tail` axes behind them
    stay."""

    first: int
    before: Sequence[Dim]
    after: Sequence[Dim]
    target: Sequence[Scalar]
    tail: int

    def write(self, x: Tensor) -> Expr | None:
        axes = range(self.first, self.first + len(self.before))
        places = range(self.first, self.first + len(self.after))
        if not self.before and not self.after:
            return x
        if not self.after and all(size == 1 for size in self.before):
            to_matrix = self.first > 0 and self.first + self.tail == 2
            return x.flatten(1) if to_matrix else squeezed(x, axes)
        if not self.before and all(size == 1 for size in self.after):
            return unsqueezed(x, places)
        if len(self.before) == 1 and len(self.after) > 1 and self._products() is not False:
            sizes = _with_minus_one(self.target) if self._products() else self.target
            return x.unflatten(self.first if self.tail else -1, tuple(sizes))
        if len(self.before) > 1 and len(self.after) == 1 and self._products():
            last = [axes[-1]] if self.tail else []
            return x.flatten(self.first, *last) if self.first or last else x.flatten()
        return None

    def _products(self) -> bool | None:
        """Tell whether there are as many elements after as before; None if that is not known. The numbers may differ:
        if a size that stays is 0, the others can be anything. (`unflatten` would notice, `flatten` would not.)"""
        if any(size.number == -1 for size in self.target):
            return True
        before, after = _product(self.before), _product(self.after)
        if before is None or after is None:
            return None
        return before == after or (None if isinstance(before, str) or isinstance(after, str) else False)


def _product(sizes: Sequence[Dim]) -> Dim:
    known = [size for size in sizes if size is not None]
    return symbolic.product(known) if len(known) == len(sizes) else None


def _between(before: Sequence[Dim], after: Sequence[Dim], target: Sequence[Scalar]) -> _Change:
    """Return the change without the leading and trailing sizes that stay."""
    shorter = min(len(before), len(after))
    first = 0
    while first < shorter and before[first] is not None and before[first] == after[first]:
        first += 1
    tail = 0
    while tail < shorter - first and before[-1 - tail] is not None and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    inner = slice(first, len(after) - tail)
    return _Change(first, before[first : len(before) - tail], after[inner], target[inner], tail)
