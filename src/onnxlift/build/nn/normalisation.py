"""Normalisation: BatchNorm, InstanceNorm, GroupNorm, LayerNorm and RMSNorm."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from onnxlift.build import constant, init, op, opsets
from onnxlift.build.errors import BuildError, at_the_users_line
from onnxlift.build.types import Dtype, data_type
from onnxlift.build.value import Value

from .module import Layer, check_input, positive
from .parameter import Buffer, Parameter
from .sizes import Sizes
from .spelling import mean, unsqueezed


def _like(input: Value, size: int, number: float) -> Value:
    return constant(np.full(size, number, (input.dtype or data_type("float32")).numpy()))


class _ByChannel(Layer):
    """A layer that normalises each channel, which is axis 1."""

    ranks: ClassVar[tuple[int, ...]]

    def _make(
        self, num_features: int, eps: float, momentum: float | None, affine: bool, tracks: bool, dtype: Dtype | None
    ) -> None:
        positive(type(self).__name__, num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, tracks
        self.weight = Parameter((num_features,), dtype=dtype, init=init.ones()) if affine else None
        self.bias = Parameter((num_features,), dtype=dtype, init=init.zeros()) if affine else None
        self.running_mean = Buffer((num_features,), dtype=dtype, init=init.zeros()) if tracks else None
        self.running_var = Buffer((num_features,), dtype=dtype, init=init.ones()) if tracks else None

    def _scale_and_shift(self, input: Value) -> tuple[Value, Value]:
        if self.weight is not None and self.bias is not None:
            return self.weight, self.bias
        return _like(input, self.num_features, 1), _like(input, self.num_features, 0)

    def _by_running_statistics(self, input: Value) -> Value:
        assert self.running_mean is not None and self.running_var is not None
        momentum = 0.1 if self.momentum is None else self.momentum
        scale, shift = self._scale_and_shift(input)
        return op.BatchNormalization(
            input, scale, shift, self.running_mean, self.running_var, epsilon=self.eps, momentum=1.0 - momentum
        )


class _BatchNorm(_ByChannel):
    @at_the_users_line
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: Dtype | None = None,
    ) -> None:
        self._make(num_features, eps, momentum, affine, track_running_stats, dtype)

    def forward(self, input: Value) -> Value:
        """Return the input, normalised by the running statistics; without these, by those of the batch."""
        check_input(self, input, 1, self.num_features, "num_features", self.ranks)
        if self.running_mean is not None:
            return self._by_running_statistics(input)
        if input.rank is None:
            self.refuse(f"its input is {input!r}, whose number of axes must be known.")
        axes = [axis for axis in range(input.rank) if axis != 1]
        centred = input - mean(input, axes)
        made = centred / op.Sqrt(mean(centred * centred, axes) + self.eps)
        if self.weight is None or self.bias is None:
            return made
        trailing = [-1] + [1] * (input.rank - 2)
        return made * op.Reshape(self.weight, trailing) + op.Reshape(self.bias, trailing)


class BatchNorm1d(_BatchNorm):
    """Normalises the channels of (N, C) or (N, C, L)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises the channels of (N, C, H, W)."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises the channels of (N, C, D, H, W)."""

    ranks = (5,)


class _InstanceNorm(_ByChannel):
    @at_the_users_line
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *,
        dtype: Dtype | None = None,
    ) -> None:
        self._make(num_features, eps, momentum, affine, track_running_stats, dtype)

    def forward(self, input: Value) -> Value:
        """Return the input with each channel of each sample normalised; by running statistics if they are kept."""
        check_input(self, input, 1, self.num_features, "num_features", self.ranks)
        if self.running_mean is not None:
            return self._by_running_statistics(input)
        scale, shift = self._scale_and_shift(input)
        return op.InstanceNormalization(input, scale, shift, epsilon=self.eps)


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sample of (N, C, L)."""

    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each sample of (N, C, H, W)."""

    ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each sample of (N, C, D, H, W)."""

    ranks = (5,)


class GroupNorm(Layer):
    """Normalises groups of channels of each sample."""

    @at_the_users_line
    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, *, dtype: Dtype | None = None
    ) -> None:
        positive("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise BuildError(
                f"GroupNorm: num_channels is {num_channels}, which cannot be divided into {num_groups} groups."
            )
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight = Parameter((num_channels,), dtype=dtype, init=init.ones()) if affine else None
        self.bias = Parameter((num_channels,), dtype=dtype, init=init.zeros()) if affine else None

    def forward(self, input: Value) -> Value:
        """Return the input with each group normalised."""
        check_input(self, input, 1, self.num_channels, "num_channels")
        if input.rank is None or input.rank < 3:
            self.refuse(f"its input is {input!r}, and must be known to have three axes or more: (N, C, ...).")
        ones, zeros = _like(input, self.num_groups, 1), _like(input, self.num_groups, 0)
        grouped = op.Reshape(input, [0, self.num_groups, -1])
        made = op.Reshape(op.InstanceNormalization(grouped, ones, zeros, epsilon=self.eps), op.Shape(input))
        if self.weight is None or self.bias is None:
            return made
        axes = list(range(1, input.rank - 1))
        return made * unsqueezed(self.weight, axes) + unsqueezed(self.bias, axes)


class _OfLastAxes(Layer):
    normalized_shape: tuple[int, ...]

    def _shape(self, normalized_shape: Sizes) -> None:
        sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        if not sizes or not all(isinstance(size, int) and size > 0 for size in sizes):
            raise BuildError(
                f"{type(self).__name__}: normalized_shape is {normalized_shape!r}, and must be sizes from 1."
            )
        self.normalized_shape = sizes

    def _check(self, input: Value) -> None:
        for axis, size in zip(range(-len(self.normalized_shape), 0), self.normalized_shape, strict=True):
            check_input(self, input, axis, size, "normalized_shape")

    def _ones(self, input: Value) -> Value:
        return constant(np.ones(self.normalized_shape, (input.dtype or data_type("float32")).numpy()))


class LayerNorm(_OfLastAxes):
    """Normalises over the last axes, whose sizes are `normalized_shape`."""

    @at_the_users_line
    def __init__(
        self,
        normalized_shape: Sizes,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Dtype | None = None,
    ) -> None:
        self._shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        made = elementwise_affine and bias
        self.weight = Parameter(self.normalized_shape, dtype=dtype, init=init.ones()) if elementwise_affine else None
        self.bias = Parameter(self.normalized_shape, dtype=dtype, init=init.zeros()) if made else None

    def forward(self, input: Value) -> Value:
        """Return the normalised input."""
        self._check(input)
        count = len(self.normalized_shape)
        if opsets()[""] >= 17:
            scale = self._ones(input) if self.weight is None else self.weight
            return op.LayerNormalization(input, scale, self.bias, axis=-count, epsilon=self.eps)
        axes = list(range(-count, 0))
        centred = input - mean(input, axes)
        made = centred / op.Sqrt(mean(centred * centred, axes) + self.eps)
        made = made if self.weight is None else made * self.weight
        return made if self.bias is None else made + self.bias


class RMSNorm(_OfLastAxes):
    """Divides by the root of the mean square over the last axes."""

    @at_the_users_line
    def __init__(
        self,
        normalized_shape: Sizes,
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Dtype | None = None,
    ) -> None:
        self._shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = Parameter(self.normalized_shape, dtype=dtype, init=init.ones()) if elementwise_affine else None

    def forward(self, input: Value) -> Value:
        """Return the normalised input."""
        self._check(input)
        eps = self.eps
        if eps is None:
            eps = float(np.finfo((input.dtype or data_type("float32")).numpy()).eps)
        axes = list(range(-len(self.normalized_shape), 0))
        made = input / op.Sqrt(mean(input * input, axes) + eps)
        return made if self.weight is None else made * self.weight
