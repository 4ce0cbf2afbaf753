"""Look at the numbers of a tensor piece by piece, so that a model of any size takes little memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxlift.ir.graph.types import FLOATS, INTEGERS
from onnxlift.ir.reading.tensors import CHUNK, DataFile, FileTensor

_EXACT = {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16}
"""Floats that numpy computes with itself. Others are looked at as float32, which holds them exactly."""


@dataclass(frozen=True)
class Numbers:
    """What there is to know of the numbers of a tensor. `least` and `greatest` are of those that are finite."""

    count: int
    least: float
    greatest: float
    nans: int = 0
    highs: int = 0
    """How many are +inf, and `lows` how many are -inf."""
    lows: int = 0
    subnormals: int = 0

    @property
    def is_one_number(self) -> bool:
        """Tell whether all elements are equal."""
        return self.count > 0 and not (self.nans or self.highs or self.lows) and self.least == self.greatest


@dataclass(frozen=True)
class Statistics:
    """The numbers of a tensor in short. `mean` and `std` are of those that are finite; None if there are none."""

    numbers: Numbers
    mean: float | None
    std: float | None
    zeros: int


def type_name(dtype: ir.DataType) -> str:
    """Return the name of an element type as numpy has it."""
    name = dtype.name.lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def pieces(tensor: ir.TensorProtocol) -> Iterator[npt.NDArray[Any]]:
    """Yield the elements of a tensor in flat pieces of at most a mebibyte, without holding all in memory."""
    if isinstance(tensor, FileTensor) and isinstance(tensor.raw.source, DataFile) and tensor.dtype.bitwidth >= 8:
        dtype = tensor.dtype.numpy().newbyteorder("<")
        rest = b""
        for chunk in tensor.raw.source.chunks(tensor.raw.offset, tensor.raw.length):
            chunk = rest + chunk if rest else chunk
            whole = len(chunk) - len(chunk) % dtype.itemsize
            rest = chunk[whole:]
            yield np.frombuffer(chunk[:whole] if rest else chunk, dtype)
        return
    flat = tensor.numpy().reshape(-1)
    step = max(CHUNK // max(flat.itemsize, 1), 1)
    for start in range(0, flat.size, step):
        yield flat[start : start + step]


def numbers_of(tensor: ir.TensorProtocol) -> Numbers:
    """Return what there is to know of the numbers of a tensor, after one look at each."""
    found = Numbers(0, float("inf"), float("-inf"))
    for array in _arrays(tensor):
        found = _joined(found, _of_piece(array, tensor.dtype in FLOATS))
    return found


def statistics_of(tensor: ir.TensorProtocol) -> Statistics:
    """Return least, greatest, mean and standard deviation of a tensor, after one look at each number."""
    numbers = Numbers(0, float("inf"), float("-inf"))
    count, mean, squares, zeros = 0, 0.0, 0.0, 0
    for array in _arrays(tensor):
        numbers = _joined(numbers, _of_piece(array, tensor.dtype in FLOATS))
        zeros += array.size - int(np.count_nonzero(array))
        wide = array.astype(np.float64)
        wide = wide[np.isfinite(wide)]
        if wide.size:  # join two means and two sums of squared deviations, as Chan, Golub and LeVeque do
            step = float(wide.mean()) - mean
            total = count + wide.size
            squares += float(((wide - wide.mean()) ** 2).sum()) + step**2 * count * wide.size / total
            mean += step * wide.size / total
            count = total
    return Statistics(numbers, mean if count else None, (squares / count) ** 0.5 if count else None, zeros)


def _arrays(tensor: ir.TensorProtocol) -> Iterator[npt.NDArray[Any]]:
    """Yield the pieces of a tensor of numbers in types that numpy computes with. A tensor of strings has none."""
    if tensor.dtype not in FLOATS and tensor.dtype not in INTEGERS and tensor.dtype != ir.DataType.BOOL:
        return
    is_odd = tensor.dtype in FLOATS and tensor.dtype not in _EXACT
    for piece in pieces(tensor):
        yield piece.astype(np.float32) if is_odd else piece


def _of_piece(array: npt.NDArray[Any], is_float: bool) -> Numbers:
    if not array.size:
        return Numbers(0, float("inf"), float("-inf"))
    least, greatest = array.min(), array.max()
    if not is_float:
        return Numbers(array.size, int(least), int(greatest))
    nans = highs = lows = 0
    if not (np.isfinite(least) and np.isfinite(greatest)):
        nans = int(np.isnan(array).sum())
        highs, lows = int((array == np.inf).sum()), int((array == -np.inf).sum())
        finite = array[np.isfinite(array)]
        least, greatest = (finite.min(), finite.max()) if finite.size else (float("inf"), float("-inf"))
    subnormals = 0
    if array.dtype != np.float16 and least < np.finfo(array.dtype).tiny:
        size = np.abs(array)
        subnormals = int(((size < np.finfo(array.dtype).tiny) & (size > 0)).sum())
    return Numbers(array.size, float(least), float(greatest), nans, highs, lows, subnormals)


def _joined(a: Numbers, b: Numbers) -> Numbers:
    return Numbers(
        a.count + b.count,
        min(a.least, b.least),
        max(a.greatest, b.greatest),
        a.nans + b.nans,
        a.highs + b.highs,
        a.lows + b.lows,
        a.subnormals + b.subnormals,
    )
