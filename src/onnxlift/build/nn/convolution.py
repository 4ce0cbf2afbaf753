"""Convolutions and transposed convolutions over one, two and three axes."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any, ClassVar

from onnxlift.build import op
from onnxlift.build.errors import BuildError, at_the_users_line
from onnxlift.build.types import Dtype
from onnxlift.build.value import Value

from .linear import between
from .module import Layer, check_input, positive
from .parameter import Parameter
from .sizes import Sizes, repeated
from .spelling import padded, squeezed, unsqueezed

_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


class _Convolution(Layer):
    axes: ClassVar[int]

    def _sizes(self, in_channels: int, out_channels: int, groups: int, **sizes: Any) -> None:
        layer = type(self).__name__
        positive(layer, in_channels=in_channels, out_channels=out_channels, groups=groups)
        for what, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise BuildError(f"{layer}: {what} is {channels}, which cannot be divided into {groups} groups.")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        for name, given in sizes.items():
            least = 0 if name in ("padding", "output_padding") else 1
            setattr(self, name, repeated(layer, name, given, self.axes, least))

    def _weights(self, shape: tuple[int, ...], bias: bool, dtype: Dtype | None) -> None:
        default = between(1 / sqrt(max(1, prod(shape[1:]))))
        self.weight = Parameter(shape, dtype=dtype, init=default)
        self.bias = Parameter((self.out_channels,), dtype=dtype, init=default) if bias else None

    def _batched(self, input: Value) -> bool:
        check_input(self, input, -1 - self.axes, self.in_channels, "in_channels", (self.axes + 1, self.axes + 2))
        return input.rank != self.axes + 1

    def forward(self, input: Value) -> Value:
        """Return the convolution of the input, with or without an axis for the batch."""
        if self._batched(input):
            return self._convolved(input)
        return squeezed(self._convolved(unsqueezed(input, [0])), [0])

    def _convolved(self, input: Value) -> Value:
        raise NotImplementedError


class _Conv(_Convolution):
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    @at_the_users_line
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        dtype: Dtype | None = None,
    ) -> None:
        self._sizes(in_channels, out_channels, groups, kernel_size=kernel_size, stride=stride, dilation=dilation)
        layer = type(self).__name__
        if padding_mode not in _MODES:
            raise BuildError(f"{layer}: padding_mode is {padding_mode!r}, and must be one of {', '.join(_MODES)}.")
        if padding == "same" and prod(self.stride) > 1:
            raise BuildError(f'{layer}: padding="same" goes with a stride of 1, and it is {self.stride}.')
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise BuildError(f'{layer}: padding is {padding!r}, and must be numbers, "same" or "valid".')
            self.padding: tuple[int, ...] | str = padding
        else:
            self.padding = repeated(layer, "padding", padding, self.axes, 0)
        self.padding_mode = padding_mode
        self._weights((out_channels, in_channels // groups, *self.kernel_size), bias, dtype)

    def _pads(self) -> list[int]:
        """Return the sizes before all axes, and then those behind them."""
        if self.padding == "valid":
            return [0] * (2 * self.axes)
        if isinstance(self.padding, str):
            all_of = [dilation * (kernel - 1) for dilation, kernel in zip(self.dilation, self.kernel_size, strict=True)]
            return [each // 2 for each in all_of] + [each - each // 2 for each in all_of]
        return [*self.padding, *self.padding]

    def _convolved(self, input: Value) -> Value:
        pads = self._pads()
        if self.padding_mode != "zeros" and any(pads):
            around = [0, 0, *pads[: self.axes], 0, 0, *pads[self.axes :]]
            input = padded(input, around, _MODES[self.padding_mode])
            pads = [0] * len(pads)
        return op.Conv(
            input,
            self.weight,
            self.bias,
            kernel_shape=self.kernel_size,
            strides=self.stride,
            pads=pads,
            dilations=self.dilation,
            group=self.groups,
        )


class Conv1d(_Conv):
    """Convolution over one axis: (N, C, L) or (C, L)."""

    axes = 1


class Conv2d(_Conv):
    """Convolution over two axes: (N, C, H, W) or (C, H, W)."""

    axes = 2


class Conv3d(_Conv):
    """Convolution over three axes: (N, C, D, H, W) or (C, D, H, W)."""

    axes = 3


class _ConvTranspose(_Convolution):
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @at_the_users_line
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        *,
        dtype: Dtype | None = None,
    ) -> None:
        layer = type(self).__name__
        if padding_mode != "zeros":
            raise BuildError(f'{layer}: padding_mode is {padding_mode!r}, and can only be "zeros".')
        self._sizes(
            in_channels,
            out_channels,
            groups,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            dilation=dilation,
        )
        for stride_, dilation_, added in zip(self.stride, self.dilation, self.output_padding, strict=True):
            if added >= max(stride_, dilation_):
                raise BuildError(
                    f"{layer}: output_padding is {self.output_padding}, and must be smaller than the stride "
                    f"{self.stride} or the dilation {self.dilation}."
                )
        self._weights((in_channels, out_channels // groups, *self.kernel_size), bias, dtype)

    def _convolved(self, input: Value) -> Value:
        return op.ConvTranspose(
            input,
            self.weight,
            self.bias,
            kernel_shape=self.kernel_size,
            strides=self.stride,
            pads=[*self.padding, *self.padding],
            output_padding=self.output_padding if any(self.output_padding) else None,
            dilations=self.dilation,
            group=self.groups,
        )


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution over one axis."""

    axes = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution over two axes."""

    axes = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution over three axes."""

    axes = 3
