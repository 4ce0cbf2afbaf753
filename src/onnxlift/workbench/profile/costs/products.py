"""Products of matrices: a multiply-accumulate for each element of the output and each element that is summed."""

from __future__ import annotations

import re

from ..formula import Size, divided, product
from ..node import CostNode, NotKnownError
from ..registry import Work, cost


@cost("MatMul")
def matmul(n: CostNode) -> Work:
    """(..., m, k) by (..., k, n)."""
    return Work(macs=n.output_size() * n.shape(0)[-1])


@cost("MatMulInteger", weights=(0, 1))
def matmul_integer(n: CostNode) -> Work:
    """The zero points are taken from both matrices first."""
    shifts = sum((n.size(index) for index in (0, 1) if n.has(index + 2)), start=0)
    return Work(macs=n.output_size() * n.shape(0)[-1], other=shifts)


@cost("QLinearMatMul", weights=(0, 3))
def matmul_quantised(n: CostNode) -> Work:
    """The sums are scaled, rounded, shifted and clipped."""
    return Work(macs=n.output_size() * n.shape(0)[-1], other=n.output_size() * 4)


@cost("Gemm")
def gemm(n: CostNode) -> Work:
    """alpha * A @ B + beta * C."""
    inner = n.shape(0)[0 if n.attribute("transA") else 1]
    scaled = n.attribute("alpha", 1.0) != 1
    added = n.has(2) * (1 + (n.attribute("beta", 1.0) != 1))
    return Work(macs=n.output_size() * inner, other=n.output_size() * (scaled + added))


@cost("Einsum")
def einsum(n: CostNode) -> Work:
    """Two operands at a time, from the left. An index is summed as soon as nothing later needs it.

    Without anything to sum, a product is no multiply-accumulate."""
    operands, result, sizes = _indices(n)
    macs: Size = 0
    other: Size = 0
    left = operands[0]
    if len(operands) == 1 and set(left) - set(result):
        return Work(other=n.size())
    for place, right in enumerate(operands[1:], 1):
        needed = set(result).union(*operands[place + 1 :])
        every = dict.fromkeys([*left, *right])
        work = product(sizes[index] for index in every)
        if set(every) - needed:
            macs = macs + work
        else:
            other = other + work
        left = [index for index in every if index in needed]
    return Work(macs=macs, other=other)


def _indices(n: CostNode) -> tuple[list[list[str]], list[str], dict[str, Size]]:
    """Return the indices of each operand and of the result, and the size of each. Those of `...` are numbered."""
    equation = str(n.attribute("equation", "")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) != len(n.inputs):
        raise NotKnownError("its equation has another number of operands")
    sizes: dict[str, Size] = {}
    operands: list[list[str]] = []
    most_hidden = 0
    for place, text in enumerate(texts):
        shape = n.shape(place)
        named = len(text.replace("...", ""))
        hidden = len(shape) - named if "..." in text else 0
        most_hidden = max(most_hidden, hidden)
        indices = _letters(text, hidden)
        if len(indices) != len(shape):
            raise NotKnownError("its equation does not fit the axes of its inputs")
        for index, size in zip(indices, shape, strict=True):
            if index not in sizes or sizes[index] == 1:
                sizes[index] = size
        operands.append(indices)
    if not arrow:
        every = "".join(texts)
        right = "..." * ("..." in every) + "".join(
            sorted(each for each in set(re.sub(r"\.", "", every)) if every.count(each) == 1)
        )
    return operands, _letters(right, most_hidden), sizes


def _letters(text: str, hidden: int) -> list[str]:
    before, dots, after = text.partition("...")
    return [*before, *(f"...{place}" for place in range(hidden, 0, -1) if dots), *after]


@cost("Det")
def determinant(n: CostNode) -> Work:
    """Gaussian elimination, then the product of the diagonal."""
    *batch, size = n.shape()[:-1]
    count = product(batch)
    macs = divided(size * (size - 1) * (2 * size - 1), 6)
    return Work(macs=count * macs, other=count * (divided(size * (size - 1), 2) + size - 1))


@cost("Inverse", domain="com.microsoft")
def inverse(n: CostNode) -> Work:
    """Gaussian elimination with the identity beside the matrix: the cube of its size."""
    return Work(macs=n.size() * n.shape()[-1])


@cost("CDist", domain="com.microsoft")
def distances(n: CostNode) -> Work:
    """|a|^2 - 2ab + |b|^2 for all pairs of rows."""
    width = n.shape(0)[1]
    other = n.size(0) + n.size(1) + n.output_size() * (2 + (n.attribute("metric", "") == "euclidean"))
    return Work(macs=n.output_size() * width, other=other)
