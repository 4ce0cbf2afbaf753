"""Weights of a few bits, as ONNX Runtime packs them, and the linear layer that reads them.

    MatMulNBits(A, B, scales)   ->   MatMul(A, DequantizeLinear(B as uint4, scales, 8, block_size))

A byte holds several numbers of the last axis, the first in the lowest bits. From opset 21 on, ONNX has numbers of four
bits, and the weight stays as small as it was. Before that, or with two bits, it is stored as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from .body import BodyBuilder, Value, body

BITS = (2, 4, 8)
_FIRST_WITH_FOUR_BITS = 21

Array = np.ndarray[Any, Any]


@body("MatMulNBits")
def MatMulNBits(
    b: BodyBuilder,
    A: Value,
    B: Value,
    scales: Value,
    zero_points: Value | None,
    g_idx: Value | None,
    bias: Value | None,
    *,
    K: int,
    N: int,
    accuracy_level: int = 0,
    bits: int = 4,
    block_size: int,
    weight_prepacked: int = 0,
) -> Value:
    """The weight is (outputs, blocks, bytes). `accuracy_level` allows ONNX Runtime to compute less exactly, which
    nothing in ONNX says."""
    if g_idx is not None or weight_prepacked:
        b.fail("weights in the order of g_idx, or packed for one device")
    blocks = -(-K // block_size)
    weight = PackedWeight(b, B, scales, zero_points, bits, (N, K), block_size)
    if weight.packed.size != N * blocks * block_size * bits // 8:
        b.fail(f"its weight is not packed as ({N}, {blocks}, {block_size * bits // 8})")
    y = b.MatMul(A, weight.dequantised())
    return y if bias is None else b.Add(y, bias)


class PackedWeight:
    """A weight (..., outputs, features) with packed rows, and a scale, and perhaps a zero point, for each block of
    a row. `shape` is that of the weight, without packing."""

    def __init__(
        self,
        b: BodyBuilder,
        packed: Value,
        scales: Value,
        zero_points: Value | None,
        bits: int,
        shape: Sequence[int],
        block_size: int,
    ) -> None:
        tensors = [b.known(value) for value in (packed, scales, zero_points)]
        if bits not in BITS:
            b.fail(f"weights of {bits} bits")
        if tensors[0] is None or tensors[1] is None or (zero_points is not None and tensors[2] is None):
            b.fail("its weights, or their scales, are computed")
        self.b = b
        self.packed, self.scales, self.zero_points = tensors[0], tensors[1], tensors[2]
        self.bits = bits
        *self.lead, self.rows, self.features = shape
        self.block_size = block_size
        self.blocks = -(-self.features // block_size)
        if self.scales.size != int(np.prod([*self.lead, self.rows, self.blocks])):
            b.fail("it does not have one scale for each block of its weights")

    def dequantised(self) -> Value:
        """Return the weight in the type of its scales, as (..., features, outputs): ready to be multiplied with."""
        b, middle = self.b, 2 ** (self.bits - 1)
        four = self.bits == 4 and b.opset >= _FIRST_WITH_FOUR_BITS
        dtype, kind = (ir.DataType.UINT4, ml_dtypes.uint4) if four else (ir.DataType.UINT8, np.uint8)
        by_block = [*self.lead, self.blocks, self.rows]
        scales = b.computed(lambda: self._turned(self.scales.numpy()), self.scales.dtype, by_block)
        if self.zero_points is not None and self.zero_points.dtype != ir.DataType.UINT8:
            return self._from_floats(scales)

        def zeros() -> Array:
            if self.zero_points is None:
                return np.full(by_block, middle, kind)
            return self._turned(self._unpacked(self.zero_points, self.blocks)).astype(kind)

        def numbers() -> Array:
            return self._turned(self._unpacked(self.packed, self.features)).astype(kind)

        weight = b.computed(numbers, dtype, [*self.lead, self.features, self.rows])
        zero = b.computed(zeros, dtype, by_block)
        return b.DequantizeLinear(weight, scales, zero, axis=len(self.lead), block_size=self.block_size)

    def _from_floats(self, scales: Value) -> Value:
        """Return the weight if its zero points are no whole numbers."""
        b, zero_points = self.b, self.zero_points
        assert zero_points is not None
        padded = self.blocks * self.block_size
        by_block = [*self.lead, self.blocks, 1, self.rows]
        weight = b.computed(
            lambda: self._turned(self._unpacked(self.packed, padded)).reshape(
                *self.lead, self.blocks, self.block_size, self.rows
            ),
            ir.DataType.UINT8,
            [*self.lead, self.blocks, self.block_size, self.rows],
        )
        zero = b.computed(lambda: self._turned(zero_points.numpy()).reshape(by_block), zero_points.dtype, by_block)
        scale = b.Reshape(scales, b.ints(*by_block))
        product = b.Mul(b.Sub(b.CastLike(weight, scale), b.CastLike(zero, scale)), scale)
        whole = b.Reshape(product, b.ints(*self.lead, padded, self.rows))
        axis = len(self.lead)
        return b.Slice(whole, b.ints(0), b.ints(self.features), b.ints(axis)) if padded != self.features else whole

    def _unpacked(self, tensor: ir.TensorProtocol, count: int) -> Array:
        """Return the first `count` numbers of each row."""
        rows = tensor.numpy().reshape(*self.lead, self.rows, -1)
        shifts = np.arange(0, 8, self.bits, dtype=np.uint8)
        numbers = rows[..., None] >> shifts & np.uint8(2**self.bits - 1)
        return numbers.reshape(*rows.shape[:-1], -1)[..., :count]

    def _turned(self, array: Array) -> Array:
        """Return rows as columns."""
        return np.swapaxes(array.reshape(*self.lead, self.rows, -1), -1, -2)
