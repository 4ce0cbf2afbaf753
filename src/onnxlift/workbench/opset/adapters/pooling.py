"""Pooling: AveragePool, LpPool, GlobalLpPool, MaxPool.

| operator | opsets |
|---|---|
| AveragePool | 7 (`count_include_pad`), 10 (`ceil_mode`), 19 (`dilations`) |
| LpPool | 2 (`p` is an integer), 18 (`ceil_mode`, `dilations`) |
| MaxPool | 8 (indices), 10 (`ceil_mode`, `dilations`), 12 (8-bit integers) |
"""

from __future__ import annotations

import numpy as np

from ..step import Result, Step, Value, adapter


@adapter(["LpPool", "GlobalLpPool"], 1, 2)
def order_becomes_an_integer(s: Step, *, p: float) -> Result:
    if p != int(p):
        s.refuse(f"the order {p} is no integer, as it must be since opset 2")
    return s.again(p=int(p))


@adapter(["LpPool", "GlobalLpPool"], 2, 1)
def order_becomes_a_float(s: Step, *, p: int) -> Result:
    return s.again(p=float(p))


@adapter("AveragePool", 19, 11)
def average_with_holes(
    s: Step,
    X: Value,
    *,
    dilations: tuple[int, ...] | None,
    kernel_shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
    auto_pad: str,
    ceil_mode: int,
    count_include_pad: int,
) -> Result:
    """The sum over a window is a convolution with ones, and the number of elements in it one of ones."""
    if all(each == 1 for each in dilations or ()):
        return s.again(dilations=None)
    window = _Window(s, X, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    ones = s.Expand(s.number(1, X), s.Shape(X))
    if count_include_pad:
        spread = [0, 0, *window.pads[: window.count], 0, 0, *window.pads[window.count :]]
        counted = window.total(s.Pad(ones, s.array(spread), s.number(1, X)), with_pads=False)
    else:
        counted = window.total(ones)
    return s.Div(window.total(X), counted)


@adapter("LpPool", 18, 11)
def norm_with_holes(
    s: Step,
    X: Value,
    *,
    p: int,
    dilations: tuple[int, ...] | None,
    kernel_shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
    auto_pad: str,
    ceil_mode: int,
) -> Result:
    if all(each == 1 for each in dilations or ()) and not ceil_mode:
        return s.again(dilations=None, ceil_mode=None)
    window = _Window(s, X, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    powers = s.Pow(s.Abs(X), s.number(p, X))
    return s.Pow(window.total(powers), s.number(1 / p, X))


class _Window:
    """Sums over the windows of a pooling, as a convolution with ones of each channel on its own."""

    def __init__(
        self,
        s: Step,
        x: Value,
        kernel: tuple[int, ...],
        strides: tuple[int, ...] | None,
        pads: tuple[int, ...] | None,
        dilations: tuple[int, ...] | None,
        auto_pad: str,
        ceil_mode: int,
    ) -> None:
        if auto_pad not in ("NOTSET", "VALID"):
            s.refuse(f"auto_pad {auto_pad} with dilations is not known at this opset")
        self.s, self.kernel, self.count = s, kernel, len(kernel)
        self.strides = list(strides or [1] * self.count)
        self.dilations = list(dilations or [1] * self.count)
        self.pads = list(pads or [0] * (2 * self.count)) if auto_pad == "NOTSET" else [0] * (2 * self.count)
        self.extra = [self._missing(x, axis) for axis in range(self.count)] if ceil_mode else [0] * self.count
        self.ones = s.array(np.ones((1, 1, *kernel)), s.dtype(x))

    def _missing(self, x: Value, axis: int) -> int:
        """Return how much the last window reaches beyond the end, if sizes are rounded up."""
        size = None if x.shape is None else x.shape[axis + 2]
        if not isinstance(size, int):
            self.s.refuse("its sizes are not known, and ceil_mode with dilations depends on them")
        stride = self.strides[axis]
        padded = size + self.pads[axis] + self.pads[axis + self.count]
        free = padded - self.dilations[axis] * (self.kernel[axis] - 1) - 1
        steps = -(-free // stride)
        if steps * stride >= size + self.pads[axis]:  # a window that would start in the padding at the end is left out
            steps -= 1
        return steps * stride - free if steps * stride > free else 0

    def total(self, x: Value, *, with_pads: bool = True) -> Value:
        s = self.s
        pads = self.pads if with_pads else [0] * (2 * self.count)
        edges = [*pads[: self.count], *(end + more for end, more in zip(pads[self.count :], self.extra, strict=True))]
        spatial = s.Slice(s.Shape(x), s.array([2]), s.array([2**31]), s.array([0]))
        channels = s.Reshape(x, s.Concat(s.array([-1, 1]), spatial, axis=0))
        sums = s.Conv(channels, self.ones, strides=self.strides, dilations=self.dilations, pads=edges)
        front = s.Slice(s.Shape(x), s.array([0]), s.array([2]), s.array([0]))
        back = s.Slice(s.Shape(sums), s.array([2]), s.array([2**31]), s.array([0]))
        return s.Reshape(sums, s.Concat(front, back, axis=0))
