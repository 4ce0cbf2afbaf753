"""Convolutions: a multiply-accumulate for each element of the output and each weight of its window.

Windows that reach into the padding count in full, as all counters do.
"""

from __future__ import annotations

from ..formula import product
from ..node import CostNode
from ..registry import Work, cost


@cost("Conv")
def convolution(n: CostNode) -> Work:
    """The weight is (channels out, channels in / groups, window)."""
    return Work(macs=n.output_size() * product(n.shape(1)[1:]), other=n.output_size() * n.has(2))


@cost("ConvInteger", weights=(0, 1))
def integer_convolution(n: CostNode) -> Work:
    """The zero points are taken from input and weight first."""
    shifts = sum((n.size(index) for index in (0, 1) if n.has(index + 2)), start=0)
    return Work(macs=n.output_size() * product(n.shape(1)[1:]), other=shifts)


@cost("QLinearConv", weights=(0, 3, 8))
def quantised_convolution(n: CostNode) -> Work:
    """The sums are scaled, rounded, shifted and clipped."""
    return Work(macs=n.output_size() * product(n.shape(3)[1:]), other=n.output_size() * (4 + n.has(8)))


@cost("ConvTranspose")
@cost("ConvTransposeWithDynamicPads", domain="com.microsoft")
def transposed_convolution(n: CostNode) -> Work:
    """Each element of the input is multiplied by a window of (channels in, channels out / groups, window)."""
    bias = n.has(3 if n.op_type.endswith("Pads") else 2)
    return Work(macs=n.size() * product(n.shape(1)[1:]), other=n.output_size() * bias)


@cost("DeformConv")
def deformable_convolution(n: CostNode) -> Work:
    """Each place of each window is interpolated from four neighbours, and may be masked."""
    channels, weight, out = n.shape(0)[1], n.shape(1), n.output_shape()
    places = product((out[0], channels, *out[2:], *weight[2:]))
    other = places * (7 + n.has(4)) + n.output_size() * n.has(3)
    return Work(macs=n.output_size() * product(weight[1:]), other=other)
