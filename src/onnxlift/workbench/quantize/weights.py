"""Store weights in 8 or 4 bits, and compute in float32 as before.

    Conv(x, W)           ->   Conv(x, DequantizeLinear(W8, scale))               8 bits; MatMul, Gemm, ConvTranspose
    Gather(W, indices)   ->   DequantizeLinear(Gather(W8, indices), scale)       8 bits
    MatMul(x, W)         ->   com.microsoft::MatMulNBits(x, W4, scales, zeros)   4 bits in blocks, QOperator
    MatMul(x, W)         ->   MatMul(x, DequantizeLinear(W4, scales, zeros))     4 bits in blocks, QDQ
    Gemm(x, W, b)        ->   Add(.., b) of these                                4 bits

Weights are quantised when they are written, one after the other, so a model of any size takes the memory of its largest
weight. Those of 4 bits are rounded by ONNX Runtime's own function. Weights of fewer than 1,024 numbers stay: there is
nothing to win.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, Names, initialiser
from onnxlift.ir.editing.names import name_apart
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.inference.infer import infer

from ..report import open_model
from .recipe import QuantizeError, Recipe

Array = np.ndarray[Any, Any]
FEWEST = 1024
MICROSOFT = "com.microsoft"
_AXES = {"Conv": 0, "ConvTranspose": 1, "MatMul": 1, "Gemm": 1, "Gather": None}


@dataclass(frozen=True)
class _Found:
    """A node and the constant that it reads as its weight, at `place` among its inputs."""

    node: ir.Node
    place: int
    weight: ir.Value
    tensor: ir.TensorProtocol


def quantizable(model: ir.Model, recipe: Recipe) -> list[str]:
    """Return the names of the nodes of the main graph whose weights can be stored in fewer bits, in their order."""
    return [found.node.name or "" for node in model.graph if (found := _weight_of(node, recipe)) is not None]


def quantize_weights(model: ir.Model, recipe: Recipe, keep: Collection[str]) -> ir.Model:
    """Return a copy of the model in which weights are stored in fewer bits, except for those of the nodes to `keep`."""
    copy = open_model(model)
    infer(copy)
    region = next(iter(regions(copy)))
    edit = Edit(region, Names(copy))
    made: dict[tuple[str, int | None], list[ir.Value]] = {}
    for node in list(copy.graph):
        found = _weight_of(node, recipe)
        if found is None or node.name in keep:
            continue
        if recipe.bits == 8:
            _store_bytes(edit, found, recipe, made)
        elif recipe.format == "qdq":
            _store_blocks(edit, found, recipe, made)
        else:
            _replace_product(edit, found, recipe, made)
    edit.finish()
    _drop_unused(copy.graph)
    name_apart(copy)
    if any(node.domain == MICROSOFT for node in copy.graph):
        copy.opset_imports.setdefault(MICROSOFT, 1)
    return copy


def _drop_unused(graph: ir.Graph) -> None:
    outputs = set(graph.outputs)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and value not in outputs and not value.is_graph_input():
            del graph.initializers[name]


def _weight_of(node: ir.Node, recipe: Recipe) -> _Found | None:
    """Return the weight of a node that can be stored in fewer bits; None if it has none."""
    if node.domain or node.op_type not in _AXES or (recipe.op_types and node.op_type not in recipe.op_types):
        return None
    place = 0 if node.op_type == "Gather" else 1
    weight = node.inputs[place] if len(node.inputs) > place else None
    tensor = constant(weight)
    if weight is None or tensor is None or tensor.dtype != ir.DataType.FLOAT or tensor.size < FEWEST:
        return None
    axes = len(tensor.shape)
    if node.op_type == "Gather":
        fits = axes == 2 and attribute(node, "axis", 0) in (0, -2) and recipe.bits == 8
    elif node.op_type in ("MatMul", "Gemm"):
        fits = axes == 2 and (recipe.bits == 8 or _is_plain(node))
    else:
        fits = (
            recipe.bits == 8 and attribute(node, "group", 1) == 1
            if node.op_type == "ConvTranspose"
            else recipe.bits == 8
        )
    return _Found(node, place, weight, tensor) if fits else None


def _is_plain(node: ir.Node) -> bool:
    """Tell whether a product is that of its first two inputs as they are, or with the second one turned around."""
    scales = attribute(node, "alpha", 1.0), attribute(node, "beta", 1.0)
    return attribute(node, "transA", 0) == 0 and scales == (1.0, 1.0)


def _is_turned(node: ir.Node) -> bool:
    return node.op_type == "Gemm" and attribute(node, "transB", 0) == 1


def _store_bytes(edit: Edit, found: _Found, recipe: Recipe, made: dict[tuple[str, int | None], list[ir.Value]]) -> None:
    node, tensor = found.node, found.tensor
    axis = _AXES[node.op_type] if recipe.per_channel else None
    axis = 0 if axis is not None and _is_turned(node) else axis
    key = found.weight.name or "", axis
    if key not in made:
        scale = _scale(tensor, axis)
        shape = tuple(tensor.shape.numpy())
        lazy = ir.LazyTensor(partial(_bytes, tensor, scale, axis), ir.DataType.INT8, ir.Shape(shape))
        zero = np.zeros(scale.shape, np.int8)
        made[key] = [
            initialiser(edit.graph, edit.names.fresh(f"{found.weight.name}_quantized"), lazy),
            edit.constant(f"{found.weight.name}_scale", scale),
            edit.constant(f"{found.weight.name}_zero_point", zero),
        ]
    stored = made[key]
    options = [] if axis is None else [ir.AttrInt64("axis", axis)]
    if node.op_type == "Gather":
        rows = edit.insert(
            node, "Gather", [stored[0], node.inputs[1]], like=stored[0], shape=_shape(node), name=f"{node.name}_rows"
        )
        edit.replace(node, "DequantizeLinear", [rows, *stored[1:]])
        return
    weight = edit.insert(
        node,
        "DequantizeLinear",
        stored,
        options,
        like=found.weight,
        shape=tuple(tensor.shape.numpy()),
        name=f"{found.weight.name}_dequantized",
        shared=True,
    )
    node.replace_input_with(found.place, weight)


def _shape(node: ir.Node) -> list[int | str | None]:
    shape = node.outputs[0].shape
    return [] if shape is None else [size if isinstance(size, int) else size.value for size in shape]


def _scale(tensor: ir.TensorProtocol, axis: int | None) -> Array:
    """Return the steps of a weight: a 127th of its largest number, for each slice along `axis` or for all of it."""
    array = np.abs(tensor.numpy())
    if not np.isfinite(array).all():
        raise QuantizeError(f"the weight {tensor.name!r} has numbers that are not finite: keep its node (--keep NODE).")
    axes = tuple(each for each in range(array.ndim) if each != axis)
    largest = np.asarray(array.max(axis=None if axis is None else axes), np.float32)
    return np.where(largest == 0, np.float32(1), largest / np.float32(127)).astype(np.float32)


def _bytes(tensor: ir.TensorProtocol, scale: Array, axis: int | None) -> ir.TensorProtocol:
    array = tensor.numpy()
    steps = scale if axis is None else scale.reshape([-1 if each == axis else 1 for each in range(array.ndim)])
    return ir.Tensor(np.clip(np.rint(array / steps), -127, 127).astype(np.int8))


def _matrix(tensor: ir.TensorProtocol, turned: bool) -> Array:
    """Return a weight as rows for inputs and columns for outputs."""
    array = tensor.numpy()
    return np.ascontiguousarray(array.T if turned else array)


def _replace_product(
    edit: Edit, found: _Found, recipe: Recipe, made: dict[tuple[str, int | None], list[ir.Value]]
) -> None:
    """Put ONNX Runtime's product with a packed weight into the place of a MatMul or Gemm."""
    turned = _is_turned(found.node)
    shape = tuple(found.tensor.shape.numpy())
    rows, columns = shape[::-1] if turned else shape
    size = recipe.block_size
    blocks = -(-rows // size)
    key = found.weight.name or "", int(turned)
    if key not in made:
        shapes = {
            "Q4": (ir.DataType.UINT8, (columns, blocks, size // 2)),
            "scales": (ir.DataType.FLOAT, (columns, blocks)),
            "zero_points": (ir.DataType.UINT8, (columns, -(-blocks // 2))),
        }
        made[key] = [
            _lazy(edit, f"{found.weight.name}_{name}", dtype, each, partial(_packed, found.tensor, turned, size, place))
            for place, (name, (dtype, each)) in enumerate(shapes.items())
        ]
    numbers = {"K": rows, "N": columns, "bits": 4, "block_size": size}
    options = [ir.AttrInt64(name, number) for name, number in numbers.items()]
    _put(edit, found.node, "MatMulNBits", made[key], options, MICROSOFT)


def _store_blocks(
    edit: Edit, found: _Found, recipe: Recipe, made: dict[tuple[str, int | None], list[ir.Value]]
) -> None:
    """Let a MatMul or Gemm read its weight from integers of 4 bits with a scale for each block of rows."""
    turned = _is_turned(found.node)
    shape = tuple(found.tensor.shape.numpy())
    rows, columns = shape[::-1] if turned else shape
    blocks = -(-rows // recipe.block_size)
    key = found.weight.name or "", int(turned)
    if key not in made:
        shapes = {
            "DQ_Q4": (ir.DataType.UINT4, (rows, columns)),
            "DQ_scales": (ir.DataType.FLOAT, (blocks, columns)),
            "DQ_zero_points": (ir.DataType.UINT4, (blocks, columns)),
        }
        compute = partial(_blocks, found.tensor, turned, recipe.block_size)
        made[key] = [
            _lazy(edit, f"{found.weight.name}_{name}", dtype, each, partial(compute, place))
            for place, (name, (dtype, each)) in enumerate(shapes.items())
        ]
    weight = edit.insert(
        found.node,
        "DequantizeLinear",
        made[key],
        [ir.AttrInt64("axis", 0), ir.AttrInt64("block_size", recipe.block_size)],
        like=found.weight,
        shape=(rows, columns),
        name=f"{found.weight.name}_dequantized",
        shared=True,
    )
    _put(edit, found.node, "MatMul", [weight], [], "")


def _put(edit: Edit, node: ir.Node, op_type: str, weights: list[ir.Value], options: list[ir.Attr], domain: str) -> None:
    """Put a product in the place of a MatMul or Gemm; the bias of a Gemm is added."""
    bias = node.inputs[2] if node.op_type == "Gemm" and len(node.inputs) > 2 else None
    inputs = [node.inputs[0], *weights]
    if bias is None:
        edit.replace(node, op_type, inputs, options, domain=domain)
        return
    product = edit.insert(
        node,
        op_type,
        inputs,
        options,
        like=node.outputs[0],
        shape=_shape(node),
        name=f"{node.name}_product",
        domain=domain,
    )
    edit.replace(node, "Add", [product, bias], domain="")


def _lazy(edit: Edit, name: str, dtype: ir.DataType, shape: tuple[int, ...], compute: Any) -> ir.Value:
    return initialiser(edit.graph, edit.names.fresh(name), ir.LazyTensor(compute, dtype, ir.Shape(shape)))


def _packed(tensor: ir.TensorProtocol, turned: bool, block_size: int, place: int) -> ir.TensorProtocol:
    """Return the packed numbers (0), the scales (1) or the zero points (2) that ONNX Runtime makes of a weight."""
    from onnxruntime.capi._pybind_state import quantize_matmul_4bits

    matrix = _matrix(tensor, turned)
    rows, columns = matrix.shape
    blocks = -(-rows // block_size)
    padded = np.pad(matrix, ((0, blocks * block_size - rows), (0, 0)))
    packed = np.zeros((columns, blocks, block_size // 2), np.uint8)
    scales = np.zeros((columns, blocks), np.float32)
    zeros = np.zeros((columns, -(-blocks // 2)), np.uint8)
    quantize_matmul_4bits(packed, padded, scales, zeros, block_size, columns, rows, False)
    return ir.Tensor((packed, scales, zeros)[place])


def _blocks(tensor: ir.TensorProtocol, turned: bool, block_size: int, place: int) -> ir.TensorProtocol:
    """Return the integers (0), the scales (1) or the zero points (2) that ONNX Runtime makes of a weight."""
    from onnxruntime.capi._pybind_state import quantize_qdq_matmul_4bits

    matrix = _matrix(tensor, turned)
    rows, columns = matrix.shape
    blocks = -(-rows // block_size)
    packed = np.zeros((rows * columns + 1) // 2, np.uint8)
    scales = np.zeros((blocks, columns), np.float32)
    zeros = np.zeros((blocks * columns + 1) // 2, np.uint8)
    quantize_qdq_matmul_4bits(packed, matrix, scales, zeros, block_size, columns, rows, False)
    if place == 1:
        return ir.Tensor(scales)
    bits, shape = ((packed, (rows, columns)), (zeros, (blocks, columns)))[place // 2]
    return ir.PackedTensor(bits, ir.DataType.UINT4, shape=ir.Shape(shape))
