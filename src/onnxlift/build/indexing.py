"""Indexing with numpy's meaning: `x[0]`, `x[:, 1:]`, `x[..., None]`, `x[indices]`, `x[mask]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.types import INTEGERS, shape_text, type_of

from . import state
from .arithmetic import call
from .errors import BuildError
from .value import Value

_END = 2**63 - 1
_BEGIN = -(2**63)


@dataclass
class _Slice:
    axis: int
    start: Any
    stop: Any
    step: int


def take(x: Value, index: Any) -> Value:
    """Return `x[index]`."""
    if isinstance(index, list):
        index = np.asarray(index)
    items = list(index) if isinstance(index, tuple) else [index]
    items = [np.asarray(each) if isinstance(each, list) else each for each in items]
    mask = _mask(x, items)
    if mask is not None:
        return mask
    items = _without_ellipsis(x, items)
    _check(x, items)
    return _Taking(x, items).result()


def _mask(x: Value, items: list[Any]) -> Value | None:
    """Return `x[mask]`, where the mask has all axes of `x` or its first ones; None if the index is no mask."""
    masks = [each for each in items if _dtype(each) == ir.DataType.BOOL]
    if not masks:
        return None
    mask = masks[0] if isinstance(masks[0], Value) else _constant(masks[0])
    if mask.rank is None or mask.rank == 0:
        raise BuildError(f"{_told(x)} is indexed by a mask whose number of axes is not known, or 0.")
    if len(items) > 1:
        if mask.rank == 1 and len(masks) == 1 and all(each == slice(None) for each in items if each is not masks[0]):
            place = next(i for i, each in enumerate(items) if each is masks[0])
            return call("Compress", x, mask, axis=place)
        raise BuildError(f"{_told(x)} is indexed by a mask and by more: index it twice.")
    if mask.rank == 1:
        return call("Compress", x, mask, axis=0)
    return call("GatherND", x, call("Transpose", call("NonZero", mask)))


def _constant(array: Any) -> Value:
    from .tensors import constant

    return constant(array)


def _dtype(item: Any) -> ir.DataType | None:
    if isinstance(item, Value):
        return item.dtype
    if isinstance(item, np.ndarray):
        return ir.DataType.BOOL if item.dtype == bool else ir.DataType.from_numpy(item.dtype)
    return None


def _without_ellipsis(x: Value, items: list[Any]) -> list[Any]:
    places = [i for i, each in enumerate(items) if each is Ellipsis]
    if len(places) > 1:
        raise BuildError(f"{_told(x)} is indexed with `...` twice.")
    if not places:
        return items
    named = sum(each is not None and each is not Ellipsis for each in items)
    if x.rank is None:
        if all(each is None for each in items[: places[0]]) and named == 0:
            raise BuildError(f"{_told(x)} is indexed with `...`, and its number of axes is not known.")
        raise BuildError(f"{_told(x)} is indexed with `...`, and its number of axes is not known: name all axes.")
    rest = [slice(None)] * max(x.rank - named, 0)
    return [*items[: places[0]], *rest, *items[places[0] + 1 :]]


def _check(x: Value, items: list[Any]) -> None:
    axes = [each for each in items if each is not None]
    if x.rank is not None and len(axes) > x.rank:
        raise BuildError(f"{_told(x)} has {x.rank} axes, and is indexed with {len(axes)}.")
    shape = x.shape
    axis = 0
    for each in items:
        if each is None:
            continue
        size = shape[axis] if shape is not None else None
        if _is_int(each) and isinstance(size, int) and not -size <= each < size:
            raise BuildError(f"the index {each} is outside axis {axis} of {_told(x)}, which has {size} elements.")
        if isinstance(each, slice):
            _check_slice(x, each)
        elif not _is_int(each) and _dtype(each) not in INTEGERS:
            raise BuildError(
                f"{_told(x)} is indexed with {each!r}: an index is an int, a slice, None, `...`, or ints or a mask as "
                "an array or a value."
            )
        axis += 1


def _check_slice(x: Value, item: slice) -> None:
    step = item.step
    if step is not None and (not _is_int(step) or step == 0):
        raise BuildError(f"{_told(x)} is sliced with the step {step!r}, and a step is an int other than 0.")
    for bound in (item.start, item.stop):
        fits = bound is None or _is_int(bound)
        if isinstance(bound, Value):
            fits = bound.dtype in INTEGERS and bound.shape in ((), (1,), None)
        if not fits:
            raise BuildError(f"{_told(x)} is sliced with {bound!r}, and a bound is an int, or a value of one int.")


def _is_whole(item: slice) -> bool:
    """Tell whether a slice is the whole axis: `:`, `0:` or `::1`. Bounds that are values are compared with nothing."""
    return (
        item.stop is None
        and (item.start is None or (_is_int(item.start) and item.start == 0))
        and (item.step is None or item.step == 1)
    )


def _slice(x: Value, found: list[_Slice]) -> Value:
    """Return the slices of a value, made at once."""
    starts = [_bound(each.start, _END if each.step < 0 else 0) for each in found]
    stops = [_bound(each.stop, _BEGIN if each.step < 0 else _END) for each in found]
    wheres, steps = [each.axis for each in found], [each.step for each in found]
    if state.opsets()[""] < 10:
        if any(step != 1 for step in steps):
            raise BuildError(f"{_told(x)} is sliced with a step, which ONNX has since opset 10.")
        if any(isinstance(each, Value) for each in (*starts, *stops)):
            raise BuildError(f"{_told(x)} is sliced up to a value, which ONNX has since opset 10.")
        return call("Slice", x, starts=starts, ends=stops, axes=wheres)
    more = [wheres] if all(step == 1 for step in steps) else [wheres, steps]
    return call("Slice", x, _vector(starts), _vector(stops), *more)


def _may_begin_too_early(item: _Slice, x: Value) -> bool:
    """Tell whether a slice goes backwards from before the first element for some size: `x[-4::-1]` of three.

    It is empty then. ONNX would begin at the first element."""
    if item.step > 0 or not _is_int(item.start) or item.start >= -1:
        return False
    size = None if x.shape is None else x.shape[item.axis]
    if isinstance(size, int) and item.start >= -size:
        return False
    if isinstance(item.stop, Value):
        raise BuildError(
            f"{_told(x)} is sliced backwards from {item.start} to a value: slice it twice, first with "
            f"`:{item.start + 1}` and then backwards from its end."
        )
    return True


def _of_the_cut(item: _Slice) -> _Slice:
    """Return what a slice that goes backwards is after all behind its start has been cut off:

    x[-4:-6:-1]   ->   x[:-3][:-3:-1]"""
    if item.stop is None or item.stop >= 0:
        return _Slice(item.axis, None, item.stop, item.step)
    if item.stop >= item.start:
        return _Slice(item.axis, 0, 0, 1)
    return _Slice(item.axis, None, item.stop - item.start - 1, item.step)


class _Taking:
    """First all slices at once, then single indices, then new axes, in the order of axes from the last."""

    def __init__(self, x: Value, items: list[Any]) -> None:
        self.x = x
        self.items = items

    def result(self) -> Value:
        arrays = [each for each in self.items if isinstance(each, Value | np.ndarray)]
        if len(arrays) > 1:
            raise BuildError(
                f"{_told(self.x)} is indexed with several arrays at once: use op.GatherND, or index twice."
            )
        if arrays and any(_is_int(each) for each in self.items):
            raise BuildError(f"{_told(self.x)} is indexed with an array and an int at once: index it twice.")
        axes = [each for each in self.items if each is not None]
        result = self._sliced(axes)
        for axis in reversed(range(len(axes))):
            each = axes[axis]
            if isinstance(each, Value | np.ndarray):
                result = call("Gather", result, each, axis=axis)
            elif _is_int(each):
                result = _single(result, int(each), axis)
        return self._widened(result)

    def _sliced(self, axes: list[Any]) -> Value:
        found = [
            _Slice(axis, each.start, each.stop, 1 if each.step is None else int(each.step))
            for axis, each in enumerate(axes)
            if isinstance(each, slice) and not _is_whole(each)
        ]
        if not found:
            return self.x
        cuts = [each for each in found if _may_begin_too_early(each, self.x)]
        x = _slice(self.x, [_Slice(each.axis, None, each.start + 1, 1) for each in cuts]) if cuts else self.x
        return _slice(x, [_of_the_cut(each) if each in cuts else each for each in found])

    def _widened(self, x: Value) -> Value:
        """Add the axes that stand for None. An index that is an array may have any number of axes."""
        places: list[int] = []
        axis = 0
        for each in self.items:
            if each is None:
                places.append(axis)
                axis += 1
            elif isinstance(each, slice):
                axis += 1
            elif not _is_int(each):
                rank = each.rank if isinstance(each, Value) else each.ndim
                if rank is None:
                    raise BuildError(f"{_told(self.x)} is indexed with {each!r}, whose number of axes is not known.")
                axis += rank
        if not places:
            return x
        if state.opsets()[""] < 13:
            return call("Unsqueeze", x, axes=places)
        return call("Unsqueeze", x, places)


def _single(x: Value, index: int, axis: int) -> Value:
    """Take one element of an axis. Before opset 11, a Gather counts only from the front."""
    size = x.shape[axis] if x.shape is not None and axis < len(x.shape) else None
    if index < 0 and state.opsets()[""] < 11:
        if not isinstance(size, int):
            raise BuildError(
                f"{_told(x)} is indexed with {index}, counted from an end that is not known: Gather does that since "
                "opset 11."
            )
        index += size
    return call("Gather", x, index, axis=axis)


def _bound(given: Any, default: int) -> Any:
    if isinstance(given, Value):
        return given
    return default if given is None else int(given)


def _vector(bounds: list[Any]) -> Any:
    """Return the bounds as one list, or as one value if some are values."""
    if not any(isinstance(each, Value) for each in bounds):
        return bounds
    parts: list[Any] = []
    for each in bounds:
        if isinstance(each, Value):
            whole = each if each.dtype == ir.DataType.INT64 else call("Cast", each, to="int64")
            parts.append(whole if whole.shape == (1,) else call("Reshape", whole, [1]))
        else:
            parts.append([each])
    return parts[0] if len(parts) == 1 else call("Concat", *parts, axis=0)


def _is_int(item: Any) -> bool:
    return isinstance(item, int | np.integer) and not isinstance(item, bool)


def _told(x: Value) -> str:
    return f"{x.name} {type_of(x._value)}" if x.shape is None else f"{x.name} {shape_text(x.shape)}"
