"""Convolutions: Conv, ConvTranspose, ConvInteger, DeformConv.

With constant weights they are layers (`nn.Conv2d`), with computed ones functions (`F.conv2d`). If the pads before and
after an axis differ, `F.pad` adds them; ConvTranspose uses `output_padding` or cuts the result.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.lifting.code.expr import Expr, F
from onnxlift.lifting.ops import weight_shapes
from onnxlift.lifting.ops.arguments import changed, compact
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.kinds import ranked, signature
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Constant, Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.window import Ints, Window, empty_result, torch_pads, window

_MOST_READERS = 64

CONV_SIGNATURE = signature(
    "in_channels", "out_channels", "kernel_size", stride=1, padding=0, dilation=1, groups=1, bias=True
)
CONV = ranked(
    "Conv",
    {**CONV_SIGNATURE, "padding_mode": "zeros"},
    word="conv",
    family="convolution",
    class_word="Conv",
    shapes=weight_shapes.conv,
)
CONV_TRANSPOSE = ranked(
    "ConvTranspose",
    signature(
        "in_channels",
        "out_channels",
        "kernel_size",
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        bias=True,
        dilation=1,
    ),
    word="deconv",
    family="convolution",
    class_word="Conv",
    shapes=weight_shapes.conv_transpose,
)


@op("Conv", layer=CONV, weights={"W": "weight", "B": "bias"})
def Conv(
    n: Node,
    X: Tensor,
    W: Tensor,
    B: Tensor | None,
    *,
    auto_pad: str,
    dilations: Ints | None,
    group: int,
    kernel_shape: Ints | None,
    pads: Ints | None,
    strides: Ints | None,
) -> Result:
    own = window(n, X, _kernel_shape(n, W, kernel_shape), strides, dilations, pads, auto_pad)
    dims = _dimensions(n, own, W, group)
    if (empty := empty_result(n, X)) is not None:
        return empty
    x: Expr = X
    padding: Any = 0
    if 0 in (X.type.shape or ()):  # an empty input with pads: PyTorch needs F.pad for it
        x = own.pad(X)
    elif own.symmetric:
        padding = compact(own.begin or ())
    elif _is_torch_same(own, auto_pad):
        padding = "same"
    else:
        x = _padded(n, X, own)
    options = {
        "stride": compact(own.stride),
        "padding": padding,
        "dilation": compact(own.dilation),
        "groups": group,
    }
    if isinstance(W, Constant) and (B is None or isinstance(B, Constant)):
        channels = {"in_channels": W.const.shape[1] * group, "out_channels": W.const.shape[0]}
        sizes = {**channels, "kernel_size": compact(own.kernel), **options, "bias": B is not None}
        return n.layer(f"Conv{dims}d", {"weight": W, "bias": B}, **sizes)(x)
    weights = [W] if B is None else [W, B]
    function: Expr = getattr(F, f"conv{dims}d")
    return function(x, *weights, **changed(options, stride=1, padding=0, dilation=1, groups=1))


@op("PaddedConv", domain=DOMAIN, layer=CONV, weights=("W", "B"))
def PaddedConv(
    n: Node,
    X: Tensor,
    W: Constant,
    B: Constant | None,
    *,
    pads: Ints,
    mode: str,
    strides: Ints | None = None,
    dilations: Ints | None = None,
    group: int = 1,
) -> Result:
    """A convolution that pads both sides of each axis alike, but not with zeros (idioms/layers/padded_conv.py)."""
    out_channels, in_channels, *kernel_size = W.const.shape
    ones = (1,) * len(kernel_size)
    return n.layer(
        f"Conv{len(kernel_size)}d",
        {"weight": W, "bias": B},
        in_channels=in_channels * group,
        out_channels=out_channels,
        kernel_size=compact(tuple(kernel_size)),
        stride=compact(strides or ones),
        padding=compact(pads),
        dilation=compact(dilations or ones),
        groups=group,
        bias=B is not None,
        padding_mode={"reflect": "reflect", "edge": "replicate", "wrap": "circular"}[mode],
    )(X)


def _padded(n: Node, X: Tensor, own: Window) -> Expr:
    """Return the padded input. If several convolutions pad it alike, it is padded once for all. This is so in the gates
    of WaveNet, where the exporter has moved the pads into each convolution."""
    value = n.ir.inputs[0]
    readers = [] if value is None else list(islice(value.uses(), _MOST_READERS))
    alike = [user for user, place in readers if place == 0 and _pads(user) == _pads(n.ir)]
    if value is None or _pads(n.ir) is None or len(alike) < 2:
        return own.pad(X)
    return n.once((value, own.begin, own.end), own.pad(X), value)


def _pads(node: ir.Node) -> tuple[int, ...] | None:
    """Return the pads of a Conv, if its attributes give them; else None."""
    pads = node.attributes.get("pads") if node.op_type == "Conv" and node.domain == "" else None
    return None if pads is None or pads.is_ref() else tuple(pads.as_ints())


def _is_torch_same(own: Window, auto_pad: str) -> bool:
    """Tell whether PyTorch's padding="same" means the same. It exists for a stride of 1 and adds the odd pad at the
    end, as SAME_UPPER does."""
    return auto_pad == "SAME_UPPER" and set(own.stride) == {1} and own.begin is not None


@op("ConvTranspose", layer=CONV_TRANSPOSE, weights={"W": "weight", "B": "bias"})
def ConvTranspose(
    n: Node,
    X: Tensor,
    W: Tensor,
    B: Tensor | None,
    *,
    auto_pad: str,
    dilations: Ints | None,
    group: int,
    kernel_shape: Ints | None,
    output_padding: Ints | None,
    output_shape: Ints | None,
    pads: Ints | None,
    strides: Ints | None,
) -> Result:
    """`output_shape` (with batch and channels too before opset 11) overrides the pads, which then follow from it."""
    own = window(n, X, _kernel_shape(n, W, kernel_shape), strides, dilations, pads, "NOTSET")
    dims = _dimensions(n, own, W, group)
    extra = output_padding or (0,) * dims
    if len(extra) != dims:
        n.fail(f"output_padding has {len(extra)} numbers for {dims} spatial axes")
    upper = auto_pad == "SAME_UPPER"
    if output_shape:
        size = output_shape[-dims:]
        known = [X.type.dim(axis + 2) for axis in range(dims)]
        if not all(isinstance(d, int) for d in known):
            return _convolve_to(W, X, B, own, size, extra, group, upper)
        full = [s * (int(d or 0) - 1) + e for d, s, e in zip(known, own.stride, own.extent, strict=True)]
        begin, end = _split([f + x - o for f, x, o in zip(full, extra, size, strict=True)], upper)
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        # The output size must be input * stride. So the excess does not depend on the size of the input.
        excess = [e + x - s for e, x, s in zip(own.extent, extra, own.stride, strict=True)]
        if min(excess) < 0:
            n.fail(f"auto_pad {auto_pad} with strides larger than the kernel; ONNX does not say where to extend")
        begin, end = _split(excess, upper)
    else:
        begin, end = own.begin or (), own.end or ()
        if auto_pad == "VALID":
            begin, end = (0,) * dims, (0,) * dims
    # PyTorch cuts `padding` off both sides and adds `output_padding` at the end.
    added = tuple(x + b - e for x, b, e in zip(extra, begin, end, strict=True))
    limits = [max(s, d) for s, d in zip(own.stride, own.dilation, strict=True)]
    if min(begin) < 0 or any(a >= limit for a, limit in zip(added, limits, strict=True)):
        cut = tuple(e - x for e, x in zip(end, extra, strict=True))
        steps = {"stride": own.stride, "dilation": own.dilation}
        options = changed({"groups": group}, groups=1)
        return kernel("conv_transpose")(X, W, B, begin=begin, end=cut, **steps, **options)
    result = _convolve_transposed(n, X, W, B, own, begin, tuple(max(a, 0) for a in added), group)
    if min(added) < 0:
        return F.pad(result, torch_pads((0,) * dims, tuple(min(a, 0) for a in added)))
    return result


def _split(excess: list[int], upper: bool) -> tuple[Ints, Ints]:
    """Return how much to cut at the begin and at the end. A negative excess is added at the end."""
    begin = tuple(max(e, 0) // 2 if upper else max(e, 0) - max(e, 0) // 2 for e in excess)
    return begin, tuple(e - b for e, b in zip(excess, begin, strict=True))


def _convolve_to(
    W: Tensor, X: Tensor, B: Tensor | None, own: Window, size: Ints, extra: Ints, group: int, upper: bool
) -> Expr:
    options = changed({"groups": group, "upper": upper}, groups=1, upper=False)
    sizes = {"size": size, "stride": own.stride, "dilation": own.dilation, "output_padding": extra}
    return kernel("conv_transpose_to")(X, W, B, **sizes, **options)


def _convolve_transposed(
    n: Node, X: Tensor, W: Tensor, B: Tensor | None, own: Window, padding: Ints, output_padding: Ints, group: int
) -> Expr:
    options = {
        "stride": compact(own.stride),
        "padding": compact(padding),
        "output_padding": compact(output_padding),
        "groups": group,
        "dilation": compact(own.dilation),
    }
    dims = own.rank
    if isinstance(W, Constant) and (B is None or isinstance(B, Constant)):
        channels = {"in_channels": W.const.shape[0], "out_channels": W.const.shape[1] * group}
        sizes = {**channels, "kernel_size": compact(own.kernel), **options, "bias": B is not None}
        return n.layer(f"ConvTranspose{dims}d", {"weight": W, "bias": B}, **sizes)(X)
    weights = [W] if B is None else [W, B]
    function: Expr = getattr(F, f"conv_transpose{dims}d")
    return function(X, *weights, **changed(options, stride=1, padding=0, output_padding=0, groups=1, dilation=1))


@op("ConvInteger")
def ConvInteger(
    n: Node,
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None,
    w_zero_point: Tensor | None,
    *,
    auto_pad: str,
    dilations: Ints | None,
    group: int,
    kernel_shape: Ints | None,
    pads: Ints | None,
    strides: Ints | None,
) -> Result:
    """The pads stand for zero after the zero point is subtracted, so they are added after that."""
    own = window(n, x, _kernel_shape(n, w, kernel_shape), strides, dilations, pads, auto_pad)
    data: Expr = x.int()
    weight: Expr = w.int()
    if x_zero_point is not None and x_zero_point.number != 0:
        data = data - n.numbers(x, x_zero_point)[1]
    if w_zero_point is not None and w_zero_point.number != 0:
        one = w_zero_point.type.size == 1
        weight = weight - (n.numbers(w, w_zero_point)[1] if one else w_zero_point.view(-1, *[1] * (own.rank + 1)))
    options = changed({"groups": group}, groups=1)
    return kernel("conv_integer")(own.pad(data), weight, stride=own.stride, dilation=own.dilation, **options)


@op("DeformConv")
def DeformConv(
    n: Node,
    X: Tensor,
    W: Tensor,
    offset: Tensor,
    B: Tensor | None,
    mask: Tensor | None,
    *,
    dilations: Ints | None,
    group: int,
    kernel_shape: Ints | None,
    offset_group: int,
    pads: Ints | None,
    strides: Ints | None,
) -> Result:
    own = window(n, X, _kernel_shape(n, W, kernel_shape), strides, dilations, pads, None)
    if own.rank != 2:
        n.fail(f"a deformable convolution over {own.rank} axes; ONNX defines how to sample for 2")
    options = changed({"groups": group, "offset_groups": offset_group}, groups=1, offset_groups=1)
    sizes = {"begin": own.begin, "stride": own.stride, "dilation": own.dilation}
    return kernel("deform_conv")(X, W, offset, B, mask, **sizes, **options)


def _kernel_shape(n: Node, weight: Tensor, kernel_shape: Ints | None) -> Ints:
    """Return the shape of the kernel, from the weights or from the attribute, which may be left out."""
    shape = weight.type.shape
    if shape is not None and all(isinstance(d, int) for d in shape[2:]):
        found = tuple(int(d or 0) for d in shape[2:])
        if kernel_shape and kernel_shape != found:
            n.fail(f"kernel_shape {kernel_shape} is not the shape {found} of its weights")
        return found
    if not kernel_shape:
        n.fail("the shape of its kernel is known neither from kernel_shape nor from its weights")
    return kernel_shape


def _dimensions(n: Node, own: Window, weight: Tensor, group: int) -> int:
    channels = weight.type.dim(0)
    if group < 1 or (isinstance(channels, int) and channels % group):
        n.fail(f"its {channels} channels do not make {group} groups")
    if not 1 <= own.rank <= 3:
        n.fail(f"a convolution over {own.rank} axes; PyTorch has them for 1, 2 and 3")
    return own.rank
