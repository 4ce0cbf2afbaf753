"""Lifted from cnn_qoperator.onnx: 20 nodes, opset 17.

Inputs   x       float32  (batch, 3, 32, 32)
Outputs  logits  float32  (batch, 10)
Weights  cnn_qoperator.safetensors: 0 parameters
"""

import io
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors.torch import load as load_bytes, load_file
from torch import Tensor, nn
from torch.nn import functional as F


class Steps(nn.Module):
    """What integers stand for: `(x - zero_point) * scale`."""

    scale: Tensor
    zero_point: Tensor

    def __init__(self, signed: bool = False, bits: int = 8) -> None:
        super().__init__()
        narrow, wide = (torch.int8, torch.int16) if signed else (torch.uint8, torch.uint16)
        self.register_buffer("scale", torch.empty(()))
        self.register_buffer("zero_point", torch.empty((), dtype=narrow if bits == 8 else wide))


def dequantize(x: Tensor, scale: Tensor | float, zero_point: Tensor | int) -> Tensor:
    """`(x - zero_point) * scale`"""
    return (x.float() - zero_point) * scale


class Dequantize(Steps):
    """The numbers that integers stand for."""

    def forward(self, x: Tensor) -> Tensor:
        return dequantize(x, self.scale, self.zero_point.float())


def to_integer(
    x: Tensor, zero_point: Tensor | int = 0, dtype: torch.dtype = torch.uint8, bits: int = 0
) -> Tensor:
    """`x` rounded (halves to even), moved by `zero_point`, and limited to the numbers of `dtype`,
    or of fewer bits."""
    x = x.round().float() + torch.as_tensor(zero_point, dtype=torch.float32, device=x.device)
    limits = torch.iinfo(dtype)
    unused = limits.bits - bits if bits else 0
    return x.clamp(limits.min >> unused, limits.max >> unused).to(dtype)


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
        return to_integer(
            total.float() * scale, self.output_zero_point, self.output_zero_point.dtype
        )


def store_ends(layer: nn.Module, signed_input: bool, signed_output: bool) -> None:
    """Give a layer what the integers stand for that it takes and gives: `(x - zero_point) *
    scale`."""
    for end, signed in (("input", signed_input), ("output", signed_output)):
        layer.register_buffer(f"{end}_scale", torch.empty(()))
        layer.register_buffer(
            f"{end}_zero_point", torch.empty((), dtype=torch.int8 if signed else torch.uint8)
        )


def store_integers(
    layer: nn.Module, shape: tuple[int, ...], steps: tuple[int, ...], signed: bool
) -> None:
    """Give a layer a weight of integers, each of which stands for `(weight - zero_point) * scale`.
    Scale and zero point have the shape `steps`."""
    dtype = torch.int8 if signed else torch.uint8
    layer.register_buffer("weight", torch.empty(shape, dtype=dtype))
    layer.register_buffer("scale", torch.empty(steps))
    layer.register_buffer("zero_point", torch.empty(steps, dtype=dtype))


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
        store_integers(
            self, (out_features, in_features), (out_features if per_channel else 1, 1), signed
        )
        store_ends(self, signed_input, signed_output)
        self.register_buffer("bias", torch.empty(out_features, dtype=torch.int32) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.double() - self.zero_point
        bias = None if self.bias is None else self.bias.double()
        return self.to_output(
            F.linear(x.double() - self.input_zero_point, weight, bias), self.scale.flatten()
        )


def quantize(
    x: Tensor,
    scale: Tensor | float,
    zero_point: Tensor | int = 0,
    dtype: torch.dtype = torch.uint8,
    bits: int = 0,
) -> Tensor:
    """`x / scale + zero_point`, rounded (halves to even) and limited to the numbers of `dtype`, or
    to those of fewer bits. Divided by a tensor, as a number would be inverted first on some
    devices."""
    return to_integer(
        x / torch.as_tensor(scale, dtype=x.dtype, device=x.device), zero_point, dtype, bits
    )


class IntegerFunction(nn.Module):
    """A function of the numbers that integers stand for, `(x - zero_point) * scale`, which gives
    integers."""

    input_scale: Tensor
    input_zero_point: Tensor
    output_scale: Tensor
    output_zero_point: Tensor

    def __init__(self, inputs: int, signed: bool) -> None:
        super().__init__()
        dtype = torch.int8 if signed else torch.uint8
        self.register_buffer("input_scale", torch.empty(inputs))
        self.register_buffer("input_zero_point", torch.empty(inputs, dtype=dtype))
        self.register_buffer("output_scale", torch.empty(()))
        self.register_buffer("output_zero_point", torch.empty((), dtype=dtype))

    def numbers(self, *inputs: Tensor | int) -> list[Tensor]:
        steps = zip(inputs, self.input_scale, self.input_zero_point, strict=True)
        return [dequantize(torch.as_tensor(x), scale, zero_point) for x, scale, zero_point in steps]

    def integers(self, x: Tensor) -> Tensor:
        return quantize(x, self.output_scale, self.output_zero_point, self.output_zero_point.dtype)


class QLinearAdd(IntegerFunction):
    """The sum of two tensors of integers."""

    def __init__(self, signed: bool = False) -> None:
        super().__init__(2, signed)

    def forward(self, a: Tensor | int, b: Tensor | int) -> Tensor:
        return self.integers(torch.add(*self.numbers(a, b)))


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
        store_integers(
            self, shape, (out_channels if per_channel else 1, *(1 for _ in shape[1:])), signed
        )
        store_ends(self, signed_input, signed_output)
        self.register_buffer("bias", torch.empty(out_channels, dtype=torch.int32) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.double() - self.zero_point
        bias = None if self.bias is None else self.bias.double()
        x = x.double() - self.input_zero_point
        conv = F.conv1d if weight.ndim == 3 else F.conv2d
        x = conv(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        return self.to_output(x, self.scale.squeeze(1))


class QLinearConv2d(IntegerConvEnds):
    """nn.Conv2d from integers to integers."""


class QLinearGlobalAvgPool(IntegerFunction):
    """The mean of each channel of integers."""

    def __init__(self, signed: bool = False) -> None:
        super().__init__(1, signed)

    def forward(self, x: Tensor) -> Tensor:
        return self.integers(self.numbers(x)[0].mean(tuple(range(2, x.ndim)), keepdim=True))


class Quantize(Steps):
    """The integers that stand for numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return quantize(x, self.scale, self.zero_point, self.zero_point.dtype)


class Layer(nn.Module):
    """layer1.0, layer1.1, layer2.0, layer2.1"""

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = QLinearConv2d(in_channels, channels, 3, stride, padding=1, per_channel=True)
        self.conv2 = QLinearConv2d(channels, channels, 3, padding=1, per_channel=True)
        self.downsample = nn.Identity()
        if in_channels != channels:
            self.downsample = nn.Sequential(
                QLinearConv2d(in_channels, channels, 1, stride, per_channel=True)
            )
        self.add = QLinearAdd()

    def forward(self, x: Tensor) -> Tensor:
        downsample = self.downsample(x)
        return self.add(self.conv2(self.conv1(x)), downsample)


class CnnQoperator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant = Quantize()
        self.conv1 = QLinearConv2d(3, 8, 7, stride=2, padding=3, per_channel=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(Layer(8, 8), Layer(8, 8))
        self.layer2 = nn.Sequential(Layer(8, 16, stride=2), Layer(16, 16))
        self.avgpool = QLinearGlobalAvgPool()
        self.fc = QLinear(16, 10, per_channel=True)
        self.dequant = Dequantize()

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.conv1(self.quant(x)).float()).to(torch.uint8)
        x = self.layer1(x)
        x = self.layer2(x)
        return self.dequant(self.fc(self.avgpool(x).flatten(1)))


WEIGHTS = Path(__file__).with_name("cnn_qoperator.safetensors")


def keep_buffers(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Give a model the buffers that are no statistics: tables, masks, and weights of integers."""
    for name, tensor in weights.items():
        owner, _, buffer = name.rpartition(".")
        module = model.get_submodule(owner)
        is_buffer = buffer in dict(module.named_buffers(recurse=False))
        if is_buffer and not hasattr(module, "reset_parameters"):
            module.register_buffer(buffer, tensor)


def read_weights(
    source: str | Path | bytes | BinaryIO | dict[str, Tensor], device: str
) -> dict[str, Tensor]:
    """The tensors of a safetensors or .pt file (its path, its bytes, or open), or of a dict."""
    if isinstance(source, dict):
        return {name: tensor.to(device, copy=True) for name, tensor in source.items()}
    if isinstance(source, str | Path) and str(source).endswith(".safetensors"):
        return load_file(source, device=device)
    if isinstance(source, str | Path):
        source = Path(source).read_bytes()
    data = source if isinstance(source, bytes) else source.read()
    if data[8:9] == b"{":  # safetensors; a .pt file begins otherwise
        return {name: tensor.to(device) for name, tensor in load_bytes(data).items()}
    return torch.load(io.BytesIO(data), map_location=device, weights_only=True)


def load(
    path: str | Path | bytes | BinaryIO | dict[str, Tensor] | None = WEIGHTS,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
) -> CnnQoperator:
    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""
    with torch.device(device if path is None else "meta"):
        model = CnnQoperator()
    if path is None:
        keep_buffers(model, read_weights(WEIGHTS, device))
    else:
        model.load_state_dict(read_weights(path, device), assign=True)
    return model.to(dtype).eval()
