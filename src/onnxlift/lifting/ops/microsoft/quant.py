"""Operators of ONNX Runtime with weights of a few bits. They stay packed in the state dict, and are unpacked for use.

The quantised operators that ONNX's own can express are in bodies/microsoft_quant.py.
"""

from __future__ import annotations

from typing import Any

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Expr, F
from onnxlift.lifting.ops import weight_shapes
from onnxlift.lifting.ops.arguments import attribute_number, changed, trimmed
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.kinds import LayerKind, signature
from onnxlift.lifting.ops.layers import Weight
from onnxlift.lifting.ops.node import Node, Result, Unpack
from onnxlift.lifting.ops.operand import Constant, Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.rewriting.bodies.body import MICROSOFT

PACKED_BITS = (2, 4, 8)


@op(
    "MatMulNBits",
    domain=MICROSOFT,
    ignores=["accuracy_level"],
    layer=LayerKind(
        "BlockQuantizedLinear",
        signature("in_features", "out_features", block_size=32, bits=4, zero_points=False, bias=False),
        word="linear",
        family="linear",
        steps=frozenset({"scales", "zero_points"}),
        shapes=weight_shapes.block_quantized_linear,
    ),
    weights=("B", "bias"),
)
def MatMulNBits(
    n: Node,
    A: Tensor,
    B: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    g_idx: Tensor | None,
    bias: Tensor | None,
    *,
    K: int,
    N: int,
    bits: int = 4,
    block_size: int,
    weight_prepacked: int = 0,
) -> Result:
    """A linear layer. `accuracy_level` would allow less exact results, which we do not use."""
    if g_idx is not None or weight_prepacked:
        n.fail("weights in the order of g_idx, or packed for one device")
    if bits not in PACKED_BITS or B.type.rank != 3 or B.type.dim(0) != N:
        n.fail(f"weights of {bits} bits that are not packed as (N, blocks, bytes)")
    layer = _as_layer(n, A, B, scales, zero_points, bias, K, N, bits, block_size)
    if layer is not None:
        return layer
    whole = B.type.dim(1)
    features = K if not isinstance(whole, int) or whole * block_size != K else None
    weight = _with_zero_points("dequantize_blocks", B, scales, zero_points, {"bits": bits, "features": features})
    return F.linear(*trimmed(A, weight, bias))


def _as_layer(
    n: Node,
    x: Tensor,
    weight: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    bias: Tensor | None,
    in_features: int,
    out_features: int,
    bits: int,
    block_size: int,
) -> Result:
    """Return a layer that holds all of these, if they are constants and the zero points are packed like the weight;
    else None."""
    if not isinstance(weight, Constant) or not isinstance(scales, Constant):
        return None
    if not isinstance(zero_points, Constant | None) or not isinstance(bias, Constant | None):
        return None
    blocks = -(-in_features // block_size)
    shape = (out_features, blocks, block_size * bits // 8)
    packed = -(-blocks * bits // 8)
    if weight.type.shape != shape or scales.type.size != out_features * blocks:
        return None
    if zero_points is not None and (zero_points.type.dtype, zero_points.type.size) != (
        DataType.UINT8,
        out_features * packed,
    ):
        return None
    weights: dict[str, Weight | None] = {
        "weight": n.weight(weight),
        "scales": n.weight(scales, lambda array: array.reshape(out_features, blocks), (out_features, blocks)),
    }
    if zero_points is not None:
        size = (out_features, packed)
        weights["zero_points"] = n.weight(zero_points, lambda array: array.reshape(size), size)
    weights["bias"] = None if bias is None else n.weight(bias)
    options = {"bits": bits, "zero_points": zero_points is not None, "bias": bias is not None}
    sizes = {"in_features": in_features, "out_features": out_features, "block_size": block_size}
    return n.layer("BlockQuantizedLinear", weights, **sizes, **options)(x)


def _with_zero_points(name: str, data: Expr, scales: Expr, zero_points: Tensor | None, options: dict[str, Any]) -> Expr:
    return kernel(name)(*trimmed(data, scales, zero_points), **changed(options, bits=4, features=None))


@op("MatMulBnb4", domain=MICROSOFT, ignores=["training_mode"])
def MatMulBnb4(
    n: Node, A: Tensor, B: Tensor, absmax: Tensor, *, K: int, N: int, block_size: int, quant_type: int, transB: int = 1
) -> Result:
    """The weights are NF4 (`quant_type` 1) or FP4 (0) of bitsandbytes."""
    options = changed({"nf4": bool(quant_type)}, nf4=True)
    weight = kernel("dequantize_bnb4")(B, absmax, N, K, block_size, **options)
    return F.linear(A, weight) if transB else A @ weight


@op("GatherBlockQuantized", domain=MICROSOFT)
def GatherBlockQuantized(
    n: Node,
    data: Tensor,
    indices: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Result:
    """A byte holds several numbers of the last axis, the first in the lowest bits. Zero is in the middle of their
    range."""
    packed = data.type.dtype == DataType.UINT8
    if data.type.dtype not in (DataType.UINT8, DataType.INT4, DataType.UINT4) or (packed and bits not in PACKED_BITS):
        n.fail("its table is neither of bytes nor of 4-bit integers")
    rank = data.type.rank
    if rank is None or gather_axis % rank == quantize_axis % rank:
        n.fail("it gathers along the axis that is quantised in blocks")
    if packed and quantize_axis % rank != rank - 1:
        n.fail("its bytes are not packed along the axis that is quantised in blocks")
    table: Expr = data
    zeros: Expr | None = zero_points
    if packed and bits != 8:
        table = kernel("unpack_bits")(data, bits)
        zeros = None if zero_points is None else kernel("unpack_bits")(zero_points, bits)
        if zeros is not None and isinstance(blocks := scales.type.dim(-1), int):
            zeros = zeros[..., :blocks]
    options = {
        "zero": 2 ** (bits - 1) if packed and zeros is None else 0,
        "block_size": block_size,
        "gather_axis": gather_axis,
        "quantize_axis": quantize_axis,
    }
    defaults = {"zero": 0, "block_size": 128, "gather_axis": 0, "quantize_axis": 1}
    return kernel("gather_block_quantized")(*trimmed(table, indices, scales, zeros), **changed(options, **defaults))


@op("DynamicQuantizeLSTM", domain=MICROSOFT, ignores=["hidden_size"])
def DynamicQuantizeLSTM(
    n: Node,
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Tensor | None,
    sequence_lens: Tensor | None,
    initial_h: Tensor | None,
    initial_c: Tensor | None,
    P: Tensor | None,
    W_scale: Tensor,
    W_zero_point: Tensor,
    R_scale: Tensor,
    R_zero_point: Tensor,
    *,
    activation_alpha: tuple[float, ...] | None = None,
    activation_beta: tuple[float, ...] | None = None,
    activations: tuple[str, ...] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    input_forget: int = 0,
) -> Result:
    usual = ("sigmoid", "tanh", "tanh")
    if activations and tuple(a.lower() for a in activations) not in (usual, usual * 2):
        n.fail("other activations than the usual")
    backwards = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(direction)
    if backwards is None:
        n.fail(f"its direction is {direction!r}")
    options = {
        "backwards": backwards,
        "clip": attribute_number(clip, X) if clip else None,
        "coupled": bool(input_forget),
    }
    inputs = [X, W, R, B, sequence_lens, initial_h, initial_c, P, W_scale, W_zero_point, R_scale, R_zero_point]
    written = changed(options, backwards=(False,), clip=None, coupled=False)
    return Unpack(kernel("dynamic_quantize_lstm")(*inputs, **written), 3, names=(None, "h", "c"))
