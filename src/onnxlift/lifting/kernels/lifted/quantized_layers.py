"""Layers whose weights are stored as small integers."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onnxlift.lifting.kernels.microsoft.quant import dequantize_blocks
from onnxlift.lifting.kernels.standard.linalg import matmul_integer
from onnxlift.lifting.kernels.standard.quant import dequantize, dynamic_quantize, to_integer


def store_integers(layer: nn.Module, shape: tuple[int, ...], steps: tuple[int, ...], signed: bool) -> None:
    """Give a layer a weight of integers, each of which stands for `(weight - zero_point) * scale`. Scale and zero point
    have the shape `steps`."""
    dtype = torch.int8 if signed else torch.uint8
    layer.register_buffer("weight", torch.empty(shape, dtype=dtype))
    layer.register_buffer("scale", torch.empty(steps))
    layer.register_buffer("zero_point", torch.empty(steps, dtype=dtype))


class IntegerLinear(nn.Module):
    """The members of an nn.Linear with a weight of integers."""

    weight: Tensor
    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, per_channel: bool = False, signed: bool = True
    ) -> None:
        super().__init__()
        store_integers(self, (out_features, in_features), (out_features if per_channel else 1, 1), signed)
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None


class QuantizedLinear(IntegerLinear):
    """nn.Linear with a weight of integers, which are turned into numbers first."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, dequantize(self.weight, self.scale, self.zero_point), self.bias)


class DynamicQuantizedLinear(IntegerLinear):
    """nn.Linear that multiplies integers: its input is quantised to the range that it has."""

    def forward(self, x: Tensor) -> Tensor:
        x, scale, zero_point = dynamic_quantize(x)
        x = matmul_integer(x, self.weight.T, zero_point, self.zero_point.flatten())
        x = x.float() * (scale * self.scale.flatten())
        return x if self.bias is None else x + self.bias


class BlockQuantizedLinear(nn.Module):
    """nn.Linear with a weight of a few bits, packed into bytes. Each block of a row has a scale of its own, and perhaps
    a zero point."""

    weight: Tensor
    scales: Tensor
    zero_points: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        block_size: int = 32,
        bits: int = 4,
        zero_points: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.in_features, self.bits = in_features, bits
        blocks = -(-in_features // block_size)
        packed = -(-blocks * bits // 8)
        self.register_buffer("weight", torch.empty(out_features, blocks, block_size * bits // 8, dtype=torch.uint8))
        self.register_buffer("scales", torch.empty(out_features, blocks))
        zeros = torch.empty(out_features, packed, dtype=torch.uint8) if zero_points else None
        self.register_buffer("zero_points", zeros)
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        weight = dequantize_blocks(self.weight, self.scales, self.zero_points, self.bits, self.in_features)
        return F.linear(x, weight, self.bias)


class IntegerConv(nn.Module):
    """The members of an nn.Conv2d, or of an nn.Conv1d with a kernel of `(size,)`, with a weight of integers."""

    weight: Tensor
    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        per_channel: bool = False,
        signed: bool = True,
    ) -> None:
        super().__init__()
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        size = kernel_size if isinstance(kernel_size, tuple) else (kernel_size, kernel_size)
        shape = (out_channels, in_channels // groups, *size)
        store_integers(self, shape, (out_channels if per_channel else 1, *(1 for _ in shape[1:])), signed)
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None


class QuantizedConv2d(IntegerConv):
    """nn.Conv2d with a weight of integers, which are turned into numbers first."""

    def forward(self, x: Tensor) -> Tensor:
        weight = dequantize(self.weight, self.scale, self.zero_point)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class QuantizedConv1d(IntegerConv):
    """nn.Conv1d with a weight of integers, which are turned into numbers first."""

    def forward(self, x: Tensor) -> Tensor:
        weight = dequantize(self.weight, self.scale, self.zero_point)
        return F.conv1d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


def conv_in_steps(layer: IntegerConv, x: Tensor) -> tuple[Tensor, Tensor]:
    """The convolution of integers, which is exact in float64, and what a step of it stands for. The input is quantised
    to the range that it has."""
    x, scale, zero_point = dynamic_quantize(x)
    weight = layer.weight.double() - layer.zero_point
    conv = F.conv1d if weight.ndim == 3 else F.conv2d
    x = conv(x.double() - zero_point, weight, None, layer.stride, layer.padding, layer.dilation, layer.groups)
    return x, scale * layer.scale.squeeze(1)


class DynamicQuantizedConv2d(IntegerConv):
    """nn.Conv2d that multiplies integers."""

    def forward(self, x: Tensor) -> Tensor:
        x, scale = conv_in_steps(self, x)
        x = x.float() * scale
        return x if self.bias is None else x + self.bias.view(-1, 1, 1)


class DynamicQuantizedConv1d(IntegerConv):
    """nn.Conv1d that multiplies integers."""

    def forward(self, x: Tensor) -> Tensor:
        x, scale = conv_in_steps(self, x)
        x = x.float() * scale
        return x if self.bias is None else x + self.bias.view(-1, 1)


class RoundedBiasConv2d(IntegerConv):
    """nn.Conv2d that multiplies integers, and adds its bias as an integer, too."""

    def forward(self, x: Tensor) -> Tensor:
        x, scale = conv_in_steps(self, x)
        bias = 0 if self.bias is None else (self.bias.view(-1, 1, 1) / scale).floor()
        return (x + bias).float() * scale


def store_ends(layer: nn.Module, signed_input: bool, signed_output: bool) -> None:
    """Give a layer what the integers stand for that it takes and gives: `(x - zero_point) * scale`."""
    for end, signed in (("input", signed_input), ("output", signed_output)):
        layer.register_buffer(f"{end}_scale", torch.empty(()))
        layer.register_buffer(f"{end}_zero_point", torch.empty((), dtype=torch.int8 if signed else torch.uint8))


class IntegerEnds(nn.Module):
    """The members of a layer that takes and gives integers."""

    weight: Tensor
    scale: Tensor
    zero_point: Tensor
    input_scale: Tensor
    input_zero_point: Tensor
    output_scale: Tensor
    output_zero_point: Tensor

    def to_output(self, total: Tensor, scale: Tensor) -> Tensor:
        """Sums of products, which are exact in float64, in steps of the output."""
        scale = self.input_scale * scale / self.output_scale
        return to_integer(total.float() * scale, self.output_zero_point, self.output_zero_point.dtype)


class QLinear(IntegerEnds):
    """nn.Linear from integers to integers."""

    bias: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        per_channel: bool = False,
        signed: bool = True,
        signed_input: bool = False,
        signed_output: bool = False,
    ) -> None:
        super().__init__()
        store_integers(self, (out_features, in_features), (out_features if per_channel else 1, 1), signed)
        store_ends(self, signed_input, signed_output)
        self.register_buffer("bias", torch.empty(out_features, dtype=torch.int32) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.double() - self.zero_point
        bias = None if self.bias is None else self.bias.double()
        return self.to_output(F.linear(x.double() - self.input_zero_point, weight, bias), self.scale.flatten())


class IntegerConvEnds(IntegerEnds):
    """The members and the code of a convolution from integers to integers."""

    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        per_channel: bool = False,
        signed: bool = True,
        signed_input: bool = False,
        signed_output: bool = False,
    ) -> None:
        super().__init__()
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        size = kernel_size if isinstance(kernel_size, tuple) else (kernel_size, kernel_size)
        shape = (out_channels, in_channels // groups, *size)
        store_integers(self, shape, (out_channels if per_channel else 1, *(1 for _ in shape[1:])), signed)
        store_ends(self, signed_input, signed_output)
        self.register_buffer("bias", torch.empty(out_channels, dtype=torch.int32) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.double() - self.zero_point
        bias = None if self.bias is None else self.bias.double()
        x = x.double() - self.input_zero_point
        conv = F.conv1d if weight.ndim == 3 else F.conv2d
        x = conv(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        return self.to_output(x, self.scale.squeeze(1))


class QLinearConv1d(IntegerConvEnds):
    """nn.Conv1d from integers to integers. The size of its kernel is given as `(size,)`."""


class QLinearConv2d(IntegerConvEnds):
    """nn.Conv2d from integers to integers."""


class QuantizedEmbedding(nn.Module):
    """nn.Embedding with a table of integers."""

    weight: Tensor
    scale: Tensor
    zero_point: Tensor

    def __init__(self, num_embeddings: int, embedding_dim: int, per_channel: bool = False, signed: bool = True) -> None:
        super().__init__()
        self.per_channel = per_channel  # a scale for each row
        store_integers(self, (num_embeddings, embedding_dim), (num_embeddings, 1) if per_channel else (), signed)

    def forward(self, indices: Tensor) -> Tensor:
        steps = (self.scale, self.zero_point)
        scale, zero_point = (step[indices] for step in steps) if self.per_channel else steps
        return dequantize(self.weight[indices], scale, zero_point)
