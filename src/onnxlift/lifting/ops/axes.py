"""Count axes from either end, and index along some of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxlift.lifting.code.expr import Expr

from .node import Unsupported
from .operand import Tensor

_MOST_AXES = 64
"""PyTorch has no tensors with more axes."""


def from_front(axis: int, rank: int | None) -> int:
    """Return `axis` counted from the front if the rank is known, else as it is."""
    most = _MOST_AXES if rank is None else rank
    if not -most <= axis < most:
        raise Unsupported(f"there is no axis {axis} in a tensor of {'any rank' if rank is None else f'rank {rank}'}")
    return axis + rank if rank is not None and axis < 0 else axis


def as_written(axis: int, rank: int | None) -> int:
    """Return `axis` as people write it: from the front, but -1 for the last of three or more."""
    axis = from_front(axis, rank)
    return -1 if rank is not None and rank > 2 and axis == rank - 1 else axis


def along(x: Tensor, axis: int, index: Any) -> Expr:
    """Return `x` indexed along one axis: `x[:, index]`."""
    picked = at(x, {axis: index})
    assert picked is not None, "a single axis can always be indexed"
    return picked


def at(x: Tensor, indices: Mapping[int, Any]) -> Expr | None:
    """Return `x` with an index or slice for some axes (axis -> index) and the others in full: `x[:, 1:5]`.

    Return None if that cannot be written: some axes are counted from the front, others from the end, and the rank is
    unknown.
    """
    rank = x.type.rank
    places = {from_front(axis, rank): index for axis, index in indices.items()}
    first, last = min(places), max(places)
    if first < 0 <= last:
        return None
    if last < 0 or (first >= 2 and rank is not None and last == rank - 1):
        return x[(..., *(places.get(axis, slice(None)) for axis in range(first, (rank or 0))))]
    return x[tuple(places.get(axis, slice(None)) for axis in range(last + 1))]
