"""A product with a weight that is dequantised in blocks, or from a few bits, is one layer that stores packed integers.

    MatMul(x, DequantizeLinear(W, s, z))                ->   MatMulNBits(x, W packed, s, z packed)
    MatMul(x, Transpose(DequantizeLinear(W, s, z)))     ->   the same; also as a Gemm
    Add(MatMulNBits(x, ..), b), Gemm(x, .., b)          ->   MatMulNBits(x, .., b)

W, s and z are constants: W a matrix of integers of 4 or 8 bits. s is of float32, with a number for each output and each
block of features. Integers of 4 bits may also have one for each output, or a single one; those of 8 bits are a
QuantizedLinear then. b is a constant with one number for each output. Nobody else reads a value in between.

Not with blocks along the outputs, and not with blocks of so few numbers that they do not fill bytes. Sound because
MatMulNBits is defined so: it counts integers from 0 up, so integers with a sign, and their zero points, are moved by
the same half of the range. The packed bytes are computed when they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, initialiser, sweep
from onnxlift.ir.editing.match import both_orders, drop_unused, is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.rewriting.bodies.body import MICROSOFT
from onnxlift.rewriting.idioms.parts.biases import is_bias
from onnxlift.stages import step

_BITS = {ir.DataType.INT4: 4, ir.DataType.UINT4: 4, ir.DataType.INT8: 8, ir.DataType.UINT8: 8}
_SIGNED = (ir.DataType.INT4, ir.DataType.INT8)
_LAYER = "MatMulNBits"


@step("block-layers", after={"quantized-layers": "a weight of bytes with one step for each output is its layer's"})
def run(model: ir.Model) -> int:
    """Make layers of products with weights in blocks, or of a few bits; return how many rewrites that took."""
    return sweep(model, {("MatMul", "Gemm"): _linear, "Add": _bias})


def _linear(edit: Edit, node: ir.Node) -> None:
    x, weight, bias = (*node.inputs, None)[:3]
    plain = attribute(node, "transA", 0) == 0 and attribute(node, "alpha", 1.0) == attribute(node, "beta", 1.0) == 1.0
    transposed = bool(attribute(node, "transB", 0))
    turn = made_by(edit, weight, "Transpose")
    if turn is not None and is_private(edit, weight):
        weight, transposed = turn.inputs[0], not transposed
    dequantize = made_by(edit, weight, "DequantizeLinear")
    if dequantize is None or x is None or not plain or not is_private(edit, weight):
        return
    found = _parameters(edit, dequantize, transposed)
    if found is None:
        return
    inputs, (outputs, features, bits, block_size) = found
    if bias is not None and not is_bias(bias, outputs, 2):
        return
    inputs = [x, *inputs] if bias is None else [x, *inputs, *[None] * (4 - len(inputs)), bias]
    numbers = {"K": features, "N": outputs, "bits": bits, "block_size": block_size}
    attributes = [ir.AttrInt64(name, number) for name, number in numbers.items()]
    edit.replace(node, _LAYER, inputs, attributes, domain=MICROSOFT)
    drop_unused(edit, [each for each in (turn, dequantize) if each is not None])


def _bias(edit: Edit, node: ir.Node) -> None:
    for value, bias in both_orders(node):
        layer = made_by(edit, value, _LAYER, domain=MICROSOFT)
        if layer is None or not is_private(edit, value) or (len(layer.inputs) > 5 and layer.inputs[5] is not None):
            continue
        if is_bias(bias, attribute(layer, "N", None), rank(value)):
            inputs = [*layer.inputs, *[None] * (5 - len(layer.inputs))][:5]
            attributes = [*layer.attributes.values()]
            edit.replace(node, _LAYER, [*inputs, bias], attributes, domain=MICROSOFT, named_by=layer)
            drop_unused(edit, [layer])
            return


def _parameters(
    edit: Edit, dequantize: ir.Node, transposed: bool
) -> tuple[list[ir.Value | None], tuple[int, int, int, int]] | None:
    """Return packed weight, scales and perhaps zero points, with outputs, features, bits and the size of a block.
    `transposed` if the weight is (outputs, features)."""
    source, scale, zero = (*dequantize.inputs, None)[:3]
    weight, scales, zeros = constant(source), constant(scale), constant(zero)
    if source is None or weight is None or scales is None or (zero is not None and zeros is None):
        return None
    bits = _BITS.get(weight.dtype)
    if bits is None or len(weight.shape) != 2 or scales.dtype != ir.DataType.FLOAT or 0 in weight.shape.numpy():
        return None
    if dequantize.attributes.keys() - {"axis", "block_size"} or (zeros is not None and zeros.shape != scales.shape):
        return None
    outputs, features = weight.shape.numpy() if transposed else weight.shape.numpy()[::-1]
    axis, size = attribute(dequantize, "axis", 1), attribute(dequantize, "block_size", 0)
    whole = _row_of_blocks(shape_of(scale), axis, size, bits, transposed, outputs)
    block_size = -(-features * bits // 8) * 8 // bits if whole else size
    blocks = -(-features // block_size) if block_size and axis is not None else 0
    by_block = (outputs, blocks) if transposed else (blocks, outputs)
    along = axis is not None and axis % 2 == (1 if transposed else 0)
    if not whole and (not size or not along or shape_of(scale) != by_block or block_size * bits % 8):
        return None

    def rows(tensor: ir.TensorProtocol) -> Array:
        """Return (outputs, ..) of a constant, counted from 0 up."""
        array = tensor.numpy()
        if whole and tensor is not weight:
            return np.broadcast_to(array.reshape(-1, 1), (outputs, 1))
        return array if transposed else array.T

    offset = 1 << bits - 1 if weight.dtype in _SIGNED else 0
    name, dtype = source.name or "weight", ir.DataType.UINT8

    def packed(tensor: ir.TensorProtocol, width: int) -> Array:
        numbers = rows(tensor).astype(np.int16) + offset
        return _packed(np.pad(numbers, ((0, 0), (0, width - numbers.shape[1]))), bits)

    def stored(label: str, dtype: ir.DataType, shape: tuple[int, ...], compute: Callable[[], Array]) -> ir.Value:
        lazy = ir.LazyTensor(partial(_tensor, compute, shape), dtype, ir.Shape(shape))
        return initialiser(edit.graph, edit.names.fresh(label), lazy)

    width = blocks * block_size
    inputs: list[ir.Value | None] = [
        stored(name, dtype, (outputs, blocks, block_size * bits // 8), lambda: packed(weight, width)),
        stored(f"{name}_scale", ir.DataType.FLOAT, (outputs, blocks), lambda: rows(scales)),
    ]
    points = zeros if zeros is not None and zeros.numpy().astype(np.int16).any() else None
    if points is not None:
        count = -(-blocks * bits // 8) * 8 // bits
        shape = (outputs, count * bits // 8)
        inputs.append(stored(f"{name}_zero_point", dtype, shape, lambda: packed(points, count)))
    elif not offset:
        shape = (outputs, -(-blocks * bits // 8))
        inputs.append(stored(f"{name}_zero_point", dtype, shape, lambda: np.zeros(shape, np.uint8)))
    return inputs, (outputs, features, bits, block_size)


def _row_of_blocks(
    shape: Any, axis: int | None, block_size: int | None, bits: int, transposed: bool, outputs: int
) -> bool:
    """Tell whether each output has one block, its whole row: scales are one number, or one for each output."""
    if block_size or bits == 8:
        return False
    return shape in ((), (1,)) or (shape == (outputs,) and axis is not None and axis % 2 == (0 if transposed else 1))


def _packed(numbers: Array, bits: int) -> Array:
    """Return rows of small integers as bytes, the first in the lowest bits."""
    numbers = numbers.astype(np.uint8)
    return numbers if bits == 8 else numbers[:, 0::2] | numbers[:, 1::2] << 4


def _tensor(compute: Callable[[], Array], shape: tuple[int, ...]) -> ir.Tensor[Any]:
    return ir.Tensor(np.ascontiguousarray(compute().reshape(shape)))
