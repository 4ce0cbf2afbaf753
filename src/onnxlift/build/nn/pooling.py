"""Pooling: Max, Avg, Adaptive, and over all of an image."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar, Literal

import numpy as np

from onnxlift.build import constant, op
from onnxlift.build.errors import BuildError, at_the_users_line
from onnxlift.build.types import Array, data_type
from onnxlift.build.value import Value

from .module import Layer
from .sizes import Sizes, repeated, sizes_of
from .spelling import largest, squeezed, unsqueezed


class _Pool(Layer):
    axes: ClassVar[int]

    def _batched(self, input: Value) -> bool:
        if input.rank not in (None, self.axes + 1, self.axes + 2):
            self.refuse(
                f"its input is {input!r}, and must have {self.axes + 2} axes, or {self.axes + 1} without batch."
            )
        return input.rank != self.axes + 1

    def _not_empty(self, made: Value, input: Value) -> Value:
        """Return what was made, or raise a BuildError if the input has no room for a single window."""
        if made.shape is not None and 0 in made.shape[-self.axes :] and 0 not in (input.shape or ()):
            self.refuse(f"its input is {input!r}, which has no room for one window.")
        return made


class _MaxPool(_Pool):
    @at_the_users_line
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        layer = type(self).__name__
        self.kernel_size = repeated(layer, "kernel_size", kernel_size, self.axes)
        self.stride = self.kernel_size if stride is None else repeated(layer, "stride", stride, self.axes)
        self.padding = repeated(layer, "padding", padding, self.axes, 0)
        self.dilation = repeated(layer, "dilation", dilation, self.axes)
        self.return_indices, self.ceil_mode = return_indices, ceil_mode
        _check_padding(layer, self.padding, self.kernel_size)

    def forward(self, input: Value) -> Any:
        """Return the largest of each window, and with `return_indices` their places in the channel."""
        if not self._batched(input):
            made = self.forward(unsqueezed(input, [0]))
            return tuple(squeezed(each, [0]) for each in made) if self.return_indices else squeezed(made, [0])
        given: dict[str, Any] = {
            "kernel_shape": self.kernel_size,
            "strides": self.stride,
            "pads": [*self.padding, *self.padding],
            "dilations": self.dilation if prod(self.dilation) > 1 else None,
            "ceil_mode": int(self.ceil_mode) or None,
        }
        if not self.return_indices:
            return self._not_empty(op.MaxPool(input, **given), input)
        made, places = op.MaxPool(input, outputs=2, **given)
        # ONNX counts places over all samples and channels, PyTorch in each channel.
        return made, places % op.ReduceProd(op.Shape(input)[2:], keepdims=0)


def _check_padding(layer: str, padding: tuple[int, ...], kernel: tuple[int, ...]) -> None:
    if any(2 * pad > size for pad, size in zip(padding, kernel, strict=True)):
        raise BuildError(f"{layer}: padding is {padding}, more than half of the kernel_size {kernel}.")


class MaxPool1d(_MaxPool):
    """The largest of each window along one axis."""

    axes = 1


class MaxPool2d(_MaxPool):
    """The largest of each window along two axes."""

    axes = 2


class MaxPool3d(_MaxPool):
    """The largest of each window along three axes."""

    axes = 3


class _AvgPool(_Pool):
    @at_the_users_line
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        layer = type(self).__name__
        self.kernel_size = repeated(layer, "kernel_size", kernel_size, self.axes)
        self.stride = self.kernel_size if stride is None else repeated(layer, "stride", stride, self.axes)
        self.padding = repeated(layer, "padding", padding, self.axes, 0)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad
        self.divisor_override = divisor_override
        _check_padding(layer, self.padding, self.kernel_size)
        if divisor_override is not None and (ceil_mode or divisor_override == 0):
            raise BuildError(f"{layer}: divisor_override must not be 0, and goes without ceil_mode.")

    def forward(self, input: Value) -> Value:
        """Return the mean of each window."""
        if not self._batched(input):
            return squeezed(self.forward(unsqueezed(input, [0])), [0])
        divisor = self.divisor_override
        made: Value = op.AveragePool(
            input,
            kernel_shape=self.kernel_size,
            strides=self.stride,
            pads=[*self.padding, *self.padding],
            ceil_mode=int(self.ceil_mode) or None,
            count_include_pad=int(self.count_include_pad or divisor is not None),
        )
        made = self._not_empty(made, input)
        return made if divisor is None else made * (prod(self.kernel_size) / divisor)


class AvgPool1d(_AvgPool):
    """The mean of each window along one axis."""

    axes = 1


class AvgPool2d(_AvgPool):
    """The mean of each window along two axes."""

    axes = 2


class AvgPool3d(_AvgPool):
    """The mean of each window along three axes."""

    axes = 3


class _Adaptive(_Pool):
    kind: ClassVar[Literal["Average", "Max"]]

    @at_the_users_line
    def __init__(self, output_size: int | tuple[int | None, ...] | None) -> None:
        given = output_size if isinstance(output_size, list | tuple) else (output_size,) * self.axes
        right = all(size is None or (isinstance(size, int) and size > 0) for size in given)
        if len(given) != self.axes or not right:
            raise BuildError(
                f"{type(self).__name__}: output_size is {output_size!r}, and must be a size, or {self.axes} of them."
            )
        self.output_size = tuple(given)

    def forward(self, input: Value) -> Value:
        """Return an image of the output size."""
        if not self._batched(input):
            return squeezed(self.forward(unsqueezed(input, [0])), [0])
        if all(size == 1 for size in self.output_size):
            return op.GlobalAveragePool(input) if self.kind == "Average" else op.GlobalMaxPool(input)
        if input.shape is None:
            self.refuse(f"its input is {input!r}, whose sizes must be known.")
        pairs: list[tuple[int, int]] = []
        for size, wanted in zip(sizes_of(input, 2, 2 + self.axes), self.output_size, strict=True):
            if not isinstance(size, int):
                self.refuse(f"its input is {input!r}, whose last {self.axes} sizes must be numbers.")
            pairs.append((size, size if wanted is None else wanted))
        if all(size % wanted == 0 for size, wanted in pairs):
            kernel = [size // wanted for size, wanted in pairs]
            if all(size == 1 for size in kernel):
                return input
            if self.kind == "Average":
                return op.AveragePool(input, kernel_shape=kernel, strides=kernel)
            return op.MaxPool(input, kernel_shape=kernel, strides=kernel)
        for axis, (size, wanted) in enumerate(pairs, 2):
            input = (
                _mean_along(input, axis, size, wanted)
                if self.kind == "Average"
                else _max_along(input, axis, size, wanted)
            )
        return input


def _windows(size: int, wanted: int) -> list[tuple[int, int]]:
    return [(i * size // wanted, -(-(i + 1) * size // wanted)) for i in range(wanted)]


def _mean_along(input: Value, axis: int, size: int, wanted: int) -> Value:
    """Return the means along one axis, as a product with a matrix."""
    if size == wanted:
        return input
    assert input.rank is not None
    means: Array = np.zeros((size, wanted), (input.dtype or data_type("float32")).numpy())
    for i, (start, end) in enumerate(_windows(size, wanted)):
        means[start:end, i] = 1 / (end - start)
    if axis == input.rank - 1:
        return input @ constant(means)
    order = list(range(input.rank))
    order[axis], order[-1] = order[-1], order[axis]
    return op.Transpose(op.Transpose(input, perm=order) @ constant(means), perm=order)


def _max_along(input: Value, axis: int, size: int, wanted: int) -> Value:
    if size == wanted:
        return input
    front = (slice(None),) * axis
    parts = [largest(input[(*front, slice(start, end))], [axis]) for start, end in _windows(size, wanted)]
    return op.Concat(*parts, axis=axis)


class AdaptiveAvgPool1d(_Adaptive):
    """Means, so that one axis has the output size."""

    axes, kind = 1, "Average"


class AdaptiveAvgPool2d(_Adaptive):
    """Means, so that two axes have the output size."""

    axes, kind = 2, "Average"


class AdaptiveAvgPool3d(_Adaptive):
    """Means, so that three axes have the output size."""

    axes, kind = 3, "Average"


class AdaptiveMaxPool1d(_Adaptive):
    """Largest numbers, so that one axis has the output size."""

    axes, kind = 1, "Max"


class AdaptiveMaxPool2d(_Adaptive):
    """Largest numbers, so that two axes have the output size."""

    axes, kind = 2, "Max"


class AdaptiveMaxPool3d(_Adaptive):
    """Largest numbers, so that three axes have the output size."""

    axes, kind = 3, "Max"


class GlobalAveragePool(Layer):
    """The mean of each channel; all axes behind the channels have size 1 then."""

    def forward(self, input: Value) -> Value:
        """Return the means."""
        return op.GlobalAveragePool(input)


class GlobalMaxPool(Layer):
    """The largest number of each channel; all axes behind the channels have size 1 then."""

    def forward(self, input: Value) -> Value:
        """Return the largest numbers."""
        return op.GlobalMaxPool(input)
