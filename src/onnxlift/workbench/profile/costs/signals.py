"""Signals: Fourier transforms and windows.

A transform of n numbers counts 5 n log2 n operations, as is usual, whatever the runtime does.
"""

from __future__ import annotations

import math

from onnxlift.ir.graph.shapes import static_elements

from ..formula import Size, product
from ..node import CostNode, NotKnownError, Shape
from ..registry import Work, cost


def _transform(length: Size | None) -> int:
    if not isinstance(length, int) or length < 1:
        raise NotKnownError("the length of its transforms is not a number")
    return math.ceil(5 * length * math.log2(length))


@cost("DFT")
def fourier(n: CostNode) -> Work:
    """Transforms along one axis; the last axis has the real and the imaginary part."""
    shape = n.shape()
    axis = _axis(n, len(shape))
    length: Size | None = shape[axis]
    if n.has(1):
        given = static_elements(n.input(1))
        length = given[0] if given else None
    return Work(other=_count(shape, axis) * _transform(length))


def _axis(n: CostNode, rank: int) -> int:
    if n.opset < 20:
        return n.axis("axis", rank, 1)
    given = static_elements(n.input(2)) if n.has(2) else (-2,)
    if not given or not -rank <= given[0] < rank:
        raise NotKnownError("its axis is computed")
    return given[0] % rank


def _count(shape: Shape, axis: int) -> Size:
    """Return how many transforms there are along an axis."""
    return product(size for place, size in enumerate(shape[:-1]) if place != axis)


@cost("STFT")
def short_time_fourier(n: CostNode) -> Work:
    """Each frame is multiplied by the window and transformed."""
    batch, frames = n.output_shape()[:2]
    length = n.shape(2)[0] if n.has(2) else None
    if length is None:
        given = static_elements(n.input(3))
        length = given[0] if given else None
    window = length if n.has(2) and length is not None else 0
    return Work(other=batch * frames * (window + _transform(length)))


@cost("Rfft", "Irfft", domain="com.microsoft")
def real_fourier(n: CostNode) -> Work:
    """Transforms over the last `signal_ndim` axes of real numbers: those of the input, or of the output."""
    dims = int(n.attribute("signal_ndim", 1))
    shape = n.shape() if n.op_type == "Rfft" else n.output_shape()
    lengths = shape[len(shape) - dims :]
    if not all(isinstance(length, int) for length in lengths):
        raise NotKnownError("the length of its transforms is not a number")
    return Work(other=product(shape[: len(shape) - dims]) * _transform(product(lengths)))


@cost("HannWindow", "HammingWindow", "BlackmanWindow")
def window(n: CostNode) -> Work:
    """A cosine, a product, a difference and the angle; two cosines for Blackman's."""
    return Work(other=n.output_size() * (7 if n.op_type == "BlackmanWindow" else 4))


@cost("MelWeightMatrix")
def mel_weights(n: CostNode) -> Work:
    """A slope up and a slope down for each element: two differences, two quotients, the smaller, the larger."""
    return Work(other=n.output_size() * 6)


@cost("ComplexMul", "ComplexMulConj", domain="com.microsoft")
def complex_product(n: CostNode) -> Work:
    """Four products and two sums for each pair of numbers: three operations for each number."""
    return Work(other=n.output_size() * 3)
