"""Smaller operators of ONNX Runtime that ONNX has no equivalent of. The others are in bodies/microsoft_plain.py."""

from __future__ import annotations

from typing import Any

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import torch
from onnxlift.lifting.ops.arguments import attribute_number, changed
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result, Unpack
from onnxlift.lifting.ops.operand import Dims, Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.math.cast import converted
from onnxlift.lifting.ops.window import Ints
from onnxlift.rewriting.bodies.body import MICROSOFT


@op("Inverse", domain=MICROSOFT)
def Inverse(n: Node, X: Tensor) -> Result:
    if X.type.dtype in (DataType.FLOAT16, DataType.BFLOAT16):
        return converted(X.float().inverse(), X.type.dtype)
    return X.inverse()


@op("Rfft", domain=MICROSOFT)
def Rfft(n: Node, X: Tensor, *, normalized: int = 0, onesided: int = 1, signal_ndim: int = 1) -> Result:
    """Follow the documentation, since ONNX Runtime's CPU build cannot run it."""
    _check_fft(n, normalized, onesided, signal_ndim)
    return torch.view_as_real(torch.fft.rfft(X))


@op("Irfft", domain=MICROSOFT)
def Irfft(n: Node, X: Tensor, *, normalized: int = 0, onesided: int = 1, signal_ndim: int = 1) -> Result:
    """Follow the documentation, since ONNX Runtime's CPU build cannot run it."""
    _check_fft(n, normalized, onesided, signal_ndim)
    return torch.fft.irfft(torch.view_as_complex(X.contiguous()))


def _check_fft(n: Node, normalized: int, onesided: int, signal_ndim: int) -> None:
    if normalized or not onesided or signal_ndim != 1:
        n.fail("a transform that is normalised, two-sided, or over several axes")


@op("ComplexMul", domain=MICROSOFT)
def ComplexMul(n: Node, A: Tensor, B: Tensor) -> Result:
    """Follow the documentation, since ONNX Runtime's CPU build cannot run it."""
    return kernel("complex_product")(A, B)


@op("ComplexMulConj", domain=MICROSOFT)
def ComplexMulConj(n: Node, A: Tensor, B: Tensor) -> Result:
    """Follow the documentation, since ONNX Runtime's CPU build cannot run it."""
    return kernel("complex_product")(A, B, conjugate=True)


@op("Unique", domain=MICROSOFT)
def Unique(n: Node, x: Tensor) -> Result:
    return Unpack(kernel("unique_in_order")(x), 3)


@op("CDist", domain=MICROSOFT)
def CDist(n: Node, A: Tensor, B: Tensor, *, metric: str = "sqeuclidean") -> Result:
    """ONNX Runtime has only these two distances."""
    if metric not in ("euclidean", "sqeuclidean"):
        n.fail(f"the distance {metric}")
    distance = torch.cdist(A, B, compute_mode="donot_use_mm_for_euclid_dist")
    return distance if metric == "euclidean" else distance.square()


@op("UnfoldTensor", domain=MICROSOFT)
def UnfoldTensor(n: Node, input: Tensor, *, dim: int = -1, size: int, step: int = 1) -> Result:
    return input.unfold(dim, size, step)


@op("CropAndResize", domain=MICROSOFT)
def CropAndResize(
    n: Node,
    X: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    crop_size: Dims,
    *,
    extrapolation_value: float = 0.0,
    mode: str = "bilinear",
) -> Result:
    if mode not in ("bilinear", "nearest"):
        n.fail(f"its mode is {mode}")
    options = {"nearest": mode == "nearest", "outside": attribute_number(extrapolation_value, X)}
    written = changed(options, nearest=False, outside=0.0)
    return kernel("crop_and_resize")(X, rois, batch_indices, crop_size[0], crop_size[1], **written)


@op("ConvTransposeWithDynamicPads", domain=MICROSOFT)
def ConvTransposeWithDynamicPads(
    n: Node,
    X: Tensor,
    W: Tensor,
    Pads: Dims | None,
    B: Tensor | None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    output_padding: Ints | None = None,
    strides: Ints | None = None,
) -> Result:
    """The pads are cut off the result. First come those at the begin of all axes, then those at the end."""
    if auto_pad != "NOTSET" or W.type.rank is None or any(output_padding or ()):
        n.fail("automatic pads, output_padding, or weights of unknown rank")
    rank = W.type.rank - 2
    ones = (1,) * rank
    begin, end = _halves(Pads, rank)
    sizes = {"begin": begin, "end": end, "stride": strides or ones, "dilation": dilations or ones}
    return kernel("conv_transpose")(X, W, B, **sizes, **changed({"groups": group}, groups=1))


def _halves(pads: Dims | None, rank: int) -> tuple[Any, Any]:
    if pads is None:
        return (0,) * rank, (0,) * rank
    if pads.elements is not None:
        return tuple(pads.elements[:rank]), tuple(pads.elements[rank:])
    whole = pads.as_expr()
    return whole[:rank], whole[rank:]
