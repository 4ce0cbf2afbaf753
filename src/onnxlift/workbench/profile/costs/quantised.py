"""Quantisation: between numbers and few bits. Weights of few bits count as they are stored, packed."""

from __future__ import annotations

from ..formula import divided, product
from ..node import CostNode
from ..registry import Work, cost, holds_weights


@cost("QuantizeLinear", weights=(0,))
def quantise(n: CostNode) -> Work:
    """Divided by the scale, rounded, shifted, clipped."""
    return Work(other=n.output_size() * 4)


@cost("DequantizeLinear", weights=(0,))
def dequantise(n: CostNode) -> Work:
    """Shifted, and multiplied by the scale."""
    return Work(other=n.output_size() * (1 + n.has(2)))


@cost("DynamicQuantizeLinear")
def quantise_by_range(n: CostNode) -> Work:
    """The least and the greatest, then divided by the scale, rounded, shifted, clipped."""
    return Work(other=n.size() * 6)


@cost("MatMulNBits", domain="com.microsoft", weights=(1,))
def matmul_of_few_bits(n: CostNode) -> Work:
    """The weight is K x N, packed in blocks along K. Each of its numbers is shifted and scaled."""
    inner, columns = int(n.attribute("K", 0)), int(n.attribute("N", 0))
    rows = product(n.shape(0)[:-1])
    other = inner * columns * 2 + rows * columns * n.has(5)
    return Work(macs=rows * inner * columns, other=other, parameters=inner * columns)


@cost("MatMulBnb4", domain="com.microsoft", weights=(1,))
def matmul_of_four_bits(n: CostNode) -> Work:
    """The weight is K x N: each byte is two numbers of a table, which are scaled by blocks."""
    inner, columns = int(n.attribute("K", 0)), int(n.attribute("N", 0))
    rows = product(n.shape(0)[:-1])
    return Work(macs=rows * inner * columns, other=inner * columns, parameters=inner * columns)


@cost("GatherBlockQuantized", domain="com.microsoft", weights=(0,))
def pick_of_few_bits(n: CostNode) -> Work:
    """Only what is picked is read, shifted and scaled. Bytes hold several numbers."""
    bits = int(n.attribute("bits", 4))
    data = n.input(0)
    width = data.dtype.bitwidth if data is not None and data.dtype is not None else bits
    packed = max(width // bits, 1)
    picked = n.output_size()
    scales = divided(picked, int(n.attribute("block_size", 128)) or 128) * n.output_bits()
    reads = divided(picked * bits + scales, 8) + n.bytes(1)
    return Work(other=picked * 2, reads=reads, parameters=n.size() * packed)


holds_weights("MatMulIntegerToFloat", places=(0, 1, 6))
holds_weights("DynamicQuantizeMatMul", places=(1, 4))
holds_weights("QAttention", places=(1, 2))
holds_weights("QGemm", places=(0, 3, 6))
holds_weights("QLinearConv", places=(0, 3, 8))
holds_weights("QLinearAdd", "QLinearMul", places=(0, 3))
holds_weights("QLinearWhere", places=(1, 4))
holds_weights("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", places=(0,))
holds_weights("QLinearAveragePool", "QLinearGlobalAveragePool", places=(0,))
holds_weights("DequantizeLinear", "QuantizeLinear", places=(0,))
holds_weights("QEmbedLayerNormalization", places=(2, 3, 4, 5, 6))
holds_weights("MatMulInteger16", "MulInteger", places=(0, 1))
