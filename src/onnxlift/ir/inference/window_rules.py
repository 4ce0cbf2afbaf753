"""Infer output shapes of operators with a sliding window (convolutions, poolings, STFT), as rules of `shape_rules`."""

from __future__ import annotations

from onnxlift.ir.graph.shapes import Dim, Shape

from . import symbolic
from .node_view import NodeView, Unknown


def _spatial_sizes(n: NodeView, kernel: Shape) -> list[Dim | None]:
    """Return the spatial sizes of a convolution or pooling of the first input; None for those not expressible."""
    sizes = n.shape()[2:]
    rank = len(sizes)
    strides = n.attribute("strides", None) or (1,) * rank
    dilations = n.attribute("dilations", None) or (1,) * rank
    pads = n.attribute("pads", None) or (0,) * (2 * rank)
    mode = n.attribute("auto_pad", "NOTSET")
    if not len(kernel) == len(strides) == len(dilations) == rank or len(pads) != 2 * rank or min(strides) < 1:
        raise Unknown
    rounds_up = n.attribute("ceil_mode", 0) and mode == "NOTSET"  # the other modes define the number of windows
    result: list[Dim | None] = []
    for i, size in enumerate(sizes):
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            rounded = symbolic.add(size, strides[i] - 1)
            result.append(None if rounded is None else symbolic.floor_divide(rounded, strides[i]))
            continue
        width = kernel[i]
        if not isinstance(width, int):
            raise Unknown
        padding = pads[i] + pads[i + rank] if mode == "NOTSET" else 0
        margin = padding - dilations[i] * (width - 1) - 1
        if not rounds_up:
            count = _windows(size, margin, strides[i])
            if count is not None:
                n.bounds.learn(count, 1)
            result.append(count)
        elif isinstance(size, int):
            result.append(_windows_rounded_up(size, pads[i], margin, strides[i]))
        else:
            result.append(None)
    return result


def _windows(size: Dim, margin: int, stride: int) -> Dim | None:
    """Return `(size + margin) // stride + 1`: the number of windows, if the input is large enough for one."""
    if stride == 1:
        return symbolic.add(size, margin + 1)
    total = symbolic.add(size, margin + stride)
    return None if total is None else symbolic.floor_divide(total, stride)


def _windows_rounded_up(size: int, begin: int, margin: int, stride: int) -> int:
    """Return the number of windows with `ceil_mode`.

    There is one more window for the rest, unless it would begin beyond the input and the padding before it. (Before
    opset 22, ONNX's own inference forgets this exception.)"""
    count = -(-(size + margin) // stride) + 1
    return count - 1 if (count - 1) * stride >= size + begin else count


def convolution(n: NodeView, weight_index: int = 1) -> Shape:
    """Return the output shape of a Conv or ConvInteger; also of a QLinearConv, whose weight is another input."""
    weight = n.shape(weight_index)
    if len(weight) < 3 or len(n.shape()) != len(weight):
        raise Unknown
    return (n.shape()[0], weight[0], *(n.known(size) for size in _spatial_sizes(n, weight[2:])))


def transposed_convolution(n: NodeView) -> Shape:
    """Return the output shape of a ConvTranspose, unless `output_shape` or `auto_pad` decides it."""
    shape, weight = n.shape(0), n.shape(1)
    rank = len(shape) - 2
    if n.attribute("output_shape", None) is not None or n.attribute("auto_pad", "NOTSET") != "NOTSET" or rank < 1:
        raise Unknown
    strides = n.attribute("strides", None) or (1,) * rank
    dilations = n.attribute("dilations", None) or (1,) * rank
    pads = n.attribute("pads", None) or (0,) * (2 * rank)
    added = n.attribute("output_padding", None) or (0,) * rank
    channels = symbolic.multiply(weight[1], n.attribute("group", 1))
    if not len(weight) - 2 == len(strides) == len(dilations) == len(added) == rank or len(pads) != 2 * rank:
        raise Unknown
    sizes: list[Dim] = []
    for i, size in enumerate(shape[2:]):
        width = weight[i + 2]
        if not isinstance(width, int):
            raise Unknown
        margin = added[i] + dilations[i] * (width - 1) + 1 - pads[i] - pads[i + rank] - strides[i]
        scaled = symbolic.multiply(size, strides[i])
        sizes.append(n.known(None if scaled is None else symbolic.add(scaled, margin)))
    return (shape[0], n.known(channels), *sizes)


def pool(n: NodeView) -> Shape:
    """Return the output shape of a MaxPool, AveragePool or LpPool."""
    return (*n.shape()[:2], *(n.known(size) for size in _spatial_sizes(n, n.attribute("kernel_shape"))))


def global_pool(n: NodeView) -> Shape:
    """Return the output shape of a GlobalAveragePool or GlobalMaxPool."""
    shape = n.shape()
    return shape[:2] + (1,) * (len(shape) - 2)


def fourier_frames(n: NodeView) -> Shape:
    """Return the output shape of an STFT: (batch, frames, bins, 2).

    Without the attribute `onesided` it is one-sided; ONNX's own inference takes it for two-sided."""
    batch, length = n.shape()[:2]
    width = n.shape(2)[0] if n.has(2) else n.elements(3)[0] if n.has(3) else None
    step = n.elements(1)[0]
    bins = frames = None
    if isinstance(width, int):
        bins = width // 2 + 1 if n.attribute("onesided", 1) else width
        frames = _windows(length, -width, step) if isinstance(step, int) and step > 0 else None
    return (batch, n.known(frames), n.known(bins), 2)
