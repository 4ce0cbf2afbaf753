"""Look at weights one after the other, piece by piece, so that a model of any size takes little memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxlift.ir.graph.interface import interface_of
from onnxlift.ir.graph.types import FLOATS, INTEGERS
from onnxlift.ir.graph.walk import Region
from onnxlift.ir.reading.tensors import CHUNK, DataFile, FileTensor

from .rule import Place
from .subject import Graph, value_place

_PASSING_ON = frozenset("Transpose Reshape Squeeze Unsqueeze Identity Cast DequantizeLinear Flatten".split())
_MOST_STEPS = 4
_EXACT = {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16}
"""Floats that numpy computes with itself. Others are looked at as float32, which holds them exactly."""


@dataclass(frozen=True)
class Use:
    """A node that reads a weight, at the given input, perhaps through nodes that only move its elements."""

    node: ir.Node
    index: int


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
class Weight:
    """One weight: its tensor, who reads it, and its numbers, which are looked at when first asked for."""

    graph: Graph
    region: Region
    value: ir.Value
    tensor: ir.TensorProtocol
    seen: dict[tuple[object, ...], list[Weight]] = field(repr=False)
    """The weights before this one, by what weights of equal numbers have in common."""

    @property
    def place(self) -> Place:
        return value_place("weight", self.value.name, self.region)

    @property
    def is_float(self) -> bool:
        return self.tensor.dtype in FLOATS

    @cached_property
    def numbers(self) -> Numbers:
        return numbers_of(self.tensor)

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """The nodes that read it, also through nodes that move or convert its elements."""
        found: list[Use] = []
        waiting = [(self.value, 0)]
        while waiting:
            value, steps = waiting.pop()
            for node, index in value.uses():
                if node.domain == "" and index == 0 and node.op_type in _PASSING_ON and steps < _MOST_STEPS:
                    waiting += [(output, steps + 1) for output in node.outputs[:1]]
                else:
                    found.append(Use(node, index))
        return tuple(found)


def weights(graph: Graph) -> Iterator[Weight]:
    """Yield all weights of a model: initialisers, also of subgraphs, Constant nodes, and default values of inputs."""
    seen: dict[tuple[object, ...], list[Weight]] = {}
    inputs = {value.name: value for value in graph.model.graph.inputs}
    for name, tensor in interface_of(graph.model).defaults.items():
        yield Weight(graph, graph.regions[0], inputs[name], tensor, seen)
    for region in graph.regions:
        for value in region.graph.initializers.values():
            if value.const_value is not None and value.const_value.dtype != ir.DataType.STRING:
                yield Weight(graph, region, value, value.const_value, seen)


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


def fingerprint(tensor: ir.TensorProtocol) -> bytes:
    """Return a digest of the numbers: equal ones have the same, and different ones do not."""
    digest = hashlib.blake2b(digest_size=32)
    for piece in pieces(tensor):
        digest.update(np.ascontiguousarray(piece).view(np.uint8).data)
    return digest.digest()


def numbers_of(tensor: ir.TensorProtocol) -> Numbers:
    """Return what there is to know of the numbers of a tensor, after one look at each."""
    found = Numbers(0, float("inf"), float("-inf"))
    if tensor.dtype not in FLOATS and tensor.dtype not in INTEGERS and tensor.dtype != ir.DataType.BOOL:
        return found
    is_float = tensor.dtype in FLOATS
    for piece in pieces(tensor):
        array = piece.astype(np.float32) if is_float and tensor.dtype not in _EXACT else piece
        found = _joined(found, _of_piece(array, is_float))
    return found


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
