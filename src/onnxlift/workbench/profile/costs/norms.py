"""Normalisation: statistics, then a shift and a scale of each element."""

from __future__ import annotations

from ..node import CostNode
from ..registry import Work, cost


@cost("BatchNormalization")
def batch_norm(n: CostNode) -> Work:
    """Minus the mean, divided by the deviation, scaled, shifted. Training computes both statistics first."""
    return Work(other=n.output_size() * (8 if n.attribute("training_mode") else 4))


@cost("LayerNormalization", "GroupNormalization", "InstanceNormalization", "MeanVarianceNormalization")
def layer_norm(n: CostNode) -> Work:
    """The mean, minus it, squared, the mean of that, divided by the root: five; then the scale and the bias."""
    return Work(other=n.output_size() * (5 + n.has(1) + n.has(2)))


@cost("RMSNormalization")
def root_mean_square_norm(n: CostNode) -> Work:
    """Squared, the mean, divided by the root, scaled."""
    return Work(other=n.output_size() * 4)


@cost("LpNormalization")
def lp_norm(n: CostNode) -> Work:
    """The absolute value or the square, the sum, divided by it."""
    return Work(other=n.output_size() * 3)


@cost("LRN")
def local_response_norm(n: CostNode) -> Work:
    """The squares of the neighbouring channels are summed; then scaled, shifted, a power, and divided by it."""
    return Work(other=n.output_size() * (n.attribute("size", 1) + 5))
