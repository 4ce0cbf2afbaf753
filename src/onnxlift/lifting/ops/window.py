"""Sliding windows: the meaning of kernel_shape, strides, dilations, pads and auto_pad of a Conv or a pooling
together."""

from __future__ import annotations

from dataclasses import dataclass

from onnxlift.lifting.code.expr import Expr, F

from .arguments import changed
from .kernel import kernel
from .node import Node
from .operand import Tensor

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """One window over the spatial axes. `begin` and `end` are the pads of every axis. They are None if auto_pad makes
    them depend on a size that only the running model knows; then `upper` tells whether an odd pad is added at the
    end."""

    kernel: Ints
    stride: Ints
    dilation: Ints
    begin: Ints | None
    end: Ints | None
    upper: bool = True

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def extent(self) -> Ints:
        """The number of positions that the window spans on each axis."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    @property
    def symmetric(self) -> bool:
        """Tell whether PyTorch's own `padding` can express the pads: they are equal before and after."""
        return self.begin is not None and self.begin == self.end and all(p >= 0 for p in self.begin)

    @property
    def padded(self) -> bool:
        return self.begin is None or any(self.begin) or any(self.end or ())

    @property
    def sizes(self) -> dict[str, Ints]:
        """The window without its pads, as the kernels take it."""
        return {"kernel": self.kernel, "stride": self.stride, "dilation": self.dilation}

    def without_pads(self) -> Window:
        return Window(self.kernel, self.stride, self.dilation, (0,) * self.rank, (0,) * self.rank)

    def pad(self, x: Expr, value: float | None = None) -> Expr:
        """Return `x` with the pads around it (of `value`, or zeros), so that the window itself needs none."""
        if not self.padded:
            return x
        if self.begin is None or self.end is None:
            options = {"upper": self.upper, "value": value}
            return kernel("pad_same")(x, **self.sizes, **changed(options, upper=True, value=None))
        amounts = torch_pads(self.begin, self.end)
        return F.pad(x, amounts) if value is None else F.pad(x, amounts, value=value)


def empty_result(n: Node, x: Tensor) -> Expr | None:
    """Return the result of a node if it is known to have no elements, because no window fits. PyTorch refuses to
    compute it."""
    shape = n.output.shape
    if shape is None or 0 not in shape or not all(isinstance(size, int) for size in shape):
        return None
    empty: Expr = x.new_empty(shape)
    return empty


def window(
    n: Node,
    x: Tensor,
    kernel_shape: Ints | None,
    strides: Ints | None,
    dilations: Ints | None,
    pads: Ints | None,
    auto_pad: str | None,
) -> Window:
    """Return the window that a node's attributes describe."""
    if not kernel_shape:
        n.fail("it has no kernel_shape")
    rank = len(kernel_shape)
    stride, dilation = strides or (1,) * rank, dilations or (1,) * rank
    pads = pads or (0,) * (2 * rank)
    if not len(stride) == len(dilation) == rank or len(pads) != 2 * rank:
        n.fail(f"kernel_shape, strides, dilations and pads do not agree on {rank} spatial axes")
    if min(kernel_shape + stride + dilation) < 1:
        n.fail("kernel_shape, strides and dilations must be positive")
    if x.type.rank not in (None, rank + 2):
        n.fail(f"its window has {rank} axes, its input has {x.type.rank}, two of which are not spatial")
    own = Window(kernel_shape, stride, dilation, pads[:rank], pads[rank:])
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        return _same(x, own, upper=auto_pad == "SAME_UPPER")
    if auto_pad == "VALID":
        return own.without_pads()
    if auto_pad not in (None, "", "NOTSET"):
        n.fail(f"auto_pad {auto_pad!r} is not one of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    return own


def _same(x: Tensor, own: Window, upper: bool) -> Window:
    """Return the window with pads that give ceil(input / stride) outputs. With a stride of 1 they do not depend on the
    input's size."""
    totals = []
    for axis, (extent, stride) in enumerate(zip(own.extent, own.stride, strict=True)):
        size = x.type.dim(axis + 2)
        if isinstance(size, int):
            totals.append(max((-(-size // stride) - 1) * stride + extent - size, 0))
        elif stride == 1:
            totals.append(extent - 1)
        else:
            return Window(own.kernel, own.stride, own.dilation, None, None, upper)
    small, large = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
    begin, end = (small, large) if upper else (large, small)
    return Window(own.kernel, own.stride, own.dilation, begin, end, upper)


def torch_pads(begin: Ints, end: Ints) -> Ints:
    """Return the amounts for `F.pad`: pairs of (before, after), the last axis first."""
    return tuple(p for pair in zip(reversed(begin), reversed(end), strict=True) for p in pair)
