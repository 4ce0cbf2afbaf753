"""Tensors as numbers: which are equal to the bit, and how far others are apart; in pieces, for the sake of memory."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxlift.ir.graph.types import COMPLEX, FLOATS
from onnxlift.ir.reading.tensors import DataFile, FileTensor

Array = npt.NDArray[Any]

PIECE = 1 << 18
"""How many elements are compared at a time."""

MOST_SETTING = 16
"""A tensor of integers with at most so many elements is a setting of its operator, like an axis, and no weight."""

MOST_PERMUTED = 1 << 24
"""Up to so many elements we look whether a tensor is another one with its axes in another order."""


@dataclass(frozen=True)
class Tolerance:
    """From where on two numbers are different: |a - b| > atol + rtol * max(|a|, |b|). By default any bit counts."""

    rtol: float = 0.0
    atol: float = 0.0

    @property
    def is_exact(self) -> bool:
        return not self.rtol and not self.atol


@dataclass(frozen=True)
class Distance:
    """How far the numbers of two tensors are apart.

    `max_rel` is relative to the larger of the two numbers, and `cosine` is that of the angle between the tensors as
    vectors. They are None for strings, and `cosine` also if a tensor is zero, not finite, or one number. Where only one
    of two numbers is finite, or both are infinities of other signs, they count for `not_finite`, and for no other
    figure."""

    elements: int
    different: int
    max_abs: float | None = None
    max_rel: float | None = None
    cosine: float | None = None
    not_finite: int = 0


def is_setting(tensor: ir.TensorProtocol) -> bool:
    """Tell whether a constant is rather a setting of its operator than a weight: a scalar, an axis, a list of sizes."""
    if not tensor.shape.numpy():
        return True
    return tensor.dtype not in FLOATS and tensor.dtype not in COMPLEX and tensor.size <= MOST_SETTING


def shape_of(tensor: ir.TensorProtocol) -> tuple[int, ...]:
    return tuple(int(size) for size in tensor.shape.numpy())


def digest(tensor: ir.TensorProtocol) -> bytes:
    """Return a hash of the numbers of a tensor, which are never all in memory if they are in a file."""
    found = hashlib.blake2b(digest_size=16)
    for chunk in _bytes(tensor):
        found.update(chunk)
    return found.digest()


def _bytes(tensor: ir.TensorProtocol) -> Iterator[bytes | memoryview]:
    if tensor.dtype == ir.DataType.STRING:
        for text in _strings(tensor):
            yield len(text).to_bytes(8, "little") + text
    elif isinstance(tensor, FileTensor):
        raw = tensor.raw
        if isinstance(raw.source, DataFile):
            yield from raw.source.chunks(raw.offset, raw.length)
        else:
            yield raw.view()
    else:
        yield tensor.tobytes()


def _strings(tensor: ir.TensorProtocol) -> list[bytes]:
    texts = np.asarray(tensor.numpy(), dtype=object).reshape(-1)
    return [text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape") for text in texts]


def distance(a: ir.TensorProtocol, b: ir.TensorProtocol, tolerance: Tolerance) -> Distance:
    """Compare two tensors with the same number of elements, in the order in which they are stored."""
    if ir.DataType.STRING in (a.dtype, b.dtype):
        different = a.dtype != b.dtype or sum(x != y for x, y in zip(_strings(a), _strings(b), strict=True))
        return Distance(a.size, a.size if different is True else int(different))
    sums = _Sums(tolerance)
    for start in range(0, a.size, PIECE):
        sums.add(_piece(a, start), _piece(b, start))
    return sums.distance(a.size)


def _piece(tensor: ir.TensorProtocol, start: int) -> Array:
    """Return some elements, by their place in storage. Of a large file, only these are mapped."""
    if isinstance(tensor, FileTensor) and tensor.dtype.bitwidth >= 8 and isinstance(tensor.raw.source, DataFile):
        width = tensor.dtype.bitwidth // 8
        count = min(PIECE, tensor.size - start)
        view = tensor.raw.source.view(tensor.raw.offset + start * width, count * width)
        return np.frombuffer(view, tensor.dtype.numpy().newbyteorder("<"))
    found: Array = tensor.numpy().reshape(-1)[start : start + PIECE]
    return found


class _Sums:
    """What is known of two tensors after some of their pieces."""

    def __init__(self, tolerance: Tolerance) -> None:
        self.tolerance = tolerance
        self.different = self.not_finite = 0
        self.max_abs = self.max_rel = 0.0
        self.dot = self.square_a = self.square_b = 0.0

    def add(self, a: Array, b: Array) -> None:
        wide_a, wide_b = _wide(a), _wide(b)
        with np.errstate(all="ignore"):
            same = (wide_a == wide_b) | (np.isnan(wide_a) & np.isnan(wide_b))
            gap = np.abs(wide_a - wide_b)
            size = np.maximum(np.abs(wide_a), np.abs(wide_b))
            finite = np.isfinite(wide_a) & np.isfinite(wide_b)
            self.different += int(self._differs(a, b, same, finite, gap, size).sum())
            self.not_finite += int((~same & ~finite).sum())
            gap = np.where(finite, gap, 0)
            self.max_abs = max(self.max_abs, float(gap.max(initial=0)))
            ratio = np.divide(gap, size, out=np.zeros_like(gap), where=finite & (size > 0))
            self.max_rel = max(self.max_rel, float(ratio.max(initial=0)))
            self.dot += float(np.real(np.vdot(wide_a, wide_b)))
            self.square_a += float(np.real(np.vdot(wide_a, wide_a)))
            self.square_b += float(np.real(np.vdot(wide_b, wide_b)))

    def _differs(self, a: Array, b: Array, same: Array, finite: Array, gap: Array, size: Array) -> Array:
        if not self.tolerance.is_exact:
            beyond: Array = gap > self.tolerance.atol + self.tolerance.rtol * size
            return np.where(finite, beyond, ~same)
        if a.dtype != b.dtype:
            return ~same
        if a.dtype.kind in "iub":  # a wide float does not hold every int64
            return np.asarray(a != b)
        not_a_number = np.isnan(_wide(a)) & np.isnan(_wide(b))
        return _bits_differ(a, b) & ~not_a_number

    def distance(self, elements: int) -> Distance:
        scale = math.sqrt(self.square_a) * math.sqrt(self.square_b) if self.square_a >= 0 <= self.square_b else 0.0
        scale = scale if elements > 1 else 0.0  # one number has a sign, and no direction
        cosine = min(1.0, max(-1.0, self.dot / scale)) if scale and math.isfinite(scale + self.dot) else None
        return Distance(elements, self.different, self.max_abs, self.max_rel, cosine, self.not_finite)


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _bits_differ(a: Array, b: Array) -> Array:
    """Tell for each element whether any bit of it differs: -0.0 is not 0.0."""
    width = a.dtype.itemsize
    rows_a, rows_b = (np.ascontiguousarray(x).view(np.uint8).reshape(-1, width) for x in (a, b))
    found: Array = (rows_a != rows_b).any(axis=1)
    return found


def rearranged(a: ir.TensorProtocol, b: ir.TensorProtocol) -> str:
    """Say how `b` holds the same numbers in another shape: "reshaped" or "transposed"; "" if it does not."""
    if a.dtype != b.dtype or a.size != b.size or a.size > MOST_PERMUTED or a.dtype == ir.DataType.STRING:
        return ""
    shape_a, shape_b = shape_of(a), shape_of(b)
    if digest(a) == digest(b):
        return "reshaped"
    if len(shape_a) != len(shape_b) or len(shape_a) > 5:
        return ""
    array_a, array_b = a.numpy(), b.numpy()
    for order in permutations(range(len(shape_a))):
        if tuple(shape_a[axis] for axis in order) == shape_b and bool((array_a.transpose(order) == array_b).all()):
            return f"transposed by {list(order)}"
    return ""


def dequantised(
    quantised: ir.TensorProtocol, scale: ir.TensorProtocol, zero: ir.TensorProtocol | None, axis: int
) -> Array:
    """Return the numbers that DequantizeLinear makes of a weight, for a scale of one number or one for each slice.

    Raises ValueError if the sizes do not fit, as with scales for blocks."""
    array = quantised.numpy().astype(np.float64)
    factor = scale.numpy().astype(np.float64)
    shift = np.zeros_like(factor) if zero is None else zero.numpy().astype(np.float64)
    if factor.ndim == 1 and array.ndim and factor.size == array.shape[axis]:
        shape = [1] * array.ndim
        shape[axis] = factor.size
        factor, shift = factor.reshape(shape), shift.reshape(shape)
    elif factor.size != 1:
        raise ValueError("scales for blocks")
    result: Array = (array - shift) * factor
    return result
