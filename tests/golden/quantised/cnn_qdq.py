"""Lifted from cnn_qdq.onnx: 105 nodes, opset 17.

Inputs   x       float32  (batch, 3, 32, 32)
Outputs  logits  float32  (batch, 10)
Weights  cnn_qdq.safetensors: 130 parameters
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


def to_integer(
    x: Tensor, zero_point: Tensor | int = 0, dtype: torch.dtype = torch.uint8, bits: int = 0
) -> Tensor:
    """`x` rounded (halves to even), moved by `zero_point`, and limited to the numbers of `dtype`,
    or of fewer bits."""
    x = x.round().float() + torch.as_tensor(zero_point, dtype=torch.float32, device=x.device)
    limits = torch.iinfo(dtype)
    unused = limits.bits - bits if bits else 0
    return x.clamp(limits.min >> unused, limits.max >> unused).to(dtype)


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


def fake_quantize(
    x: Tensor,
    scale: Tensor | float,
    zero_point: Tensor | int = 0,
    dtype: torch.dtype = torch.uint8,
    bits: int = 0,
) -> Tensor:
    """`x` in whole steps of `scale`, as far as the numbers of `dtype` go: what is left of it once
    quantised."""
    return dequantize(quantize(x, scale, zero_point, dtype, bits), scale, zero_point)


class FakeQuantize(Steps):
    """What is left of numbers once they are quantised: whole steps."""

    def forward(self, x: Tensor) -> Tensor:
        return fake_quantize(x, self.scale, self.zero_point.float(), self.zero_point.dtype)


def store_integers(
    layer: nn.Module, shape: tuple[int, ...], steps: tuple[int, ...], signed: bool
) -> None:
    """Give a layer a weight of integers, each of which stands for `(weight - zero_point) * scale`.
    Scale and zero point have the shape `steps`."""
    dtype = torch.int8 if signed else torch.uint8
    layer.register_buffer("weight", torch.empty(shape, dtype=dtype))
    layer.register_buffer("scale", torch.empty(steps))
    layer.register_buffer("zero_point", torch.empty(steps, dtype=dtype))


class IntegerConv(nn.Module):
    """The members of an nn.Conv2d, or of an nn.Conv1d with a kernel of `(size,)`, with a weight of
    integers."""

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
        store_integers(
            self, shape, (out_channels if per_channel else 1, *(1 for _ in shape[1:])), signed
        )
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None


class QuantizedConv2d(IntegerConv):
    """nn.Conv2d with a weight of integers, which are turned into numbers first."""

    def forward(self, x: Tensor) -> Tensor:
        weight = dequantize(self.weight, self.scale, self.zero_point)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class IntegerLinear(nn.Module):
    """The members of an nn.Linear with a weight of integers."""

    weight: Tensor
    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        per_channel: bool = False,
        signed: bool = True,
    ) -> None:
        super().__init__()
        store_integers(
            self, (out_features, in_features), (out_features if per_channel else 1, 1), signed
        )
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None


class QuantizedLinear(IntegerLinear):
    """nn.Linear with a weight of integers, which are turned into numbers first."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, dequantize(self.weight, self.scale, self.zero_point), self.bias)


class Layer(nn.Module):
    """layer1.0, layer1.1, layer2.1"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = QuantizedConv2d(channels, channels, 3, padding=1, per_channel=True)
        self.quant = FakeQuantize()
        self.conv2 = QuantizedConv2d(channels, channels, 3, padding=1, per_channel=True)
        self.quant_1 = FakeQuantize()
        self.quant_2 = FakeQuantize()

    def forward(self, x: Tensor) -> Tensor:
        conv2 = self.conv2(F.relu(self.quant(self.conv1(x))))
        return F.relu(self.quant_2(self.quant_1(conv2) + x))


class DownsampleLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = QuantizedConv2d(8, 16, 3, stride=2, padding=1, per_channel=True)
        self.quant_1 = FakeQuantize()
        self.conv2 = QuantizedConv2d(16, 16, 3, padding=1, per_channel=True)
        self.quant_2 = FakeQuantize()
        self.downsample = nn.ModuleList([QuantizedConv2d(8, 16, 1, stride=2, per_channel=True)])
        self.quant = FakeQuantize()
        self.quant_3 = FakeQuantize()

    def forward(self, x: Tensor) -> Tensor:
        conv2 = self.conv2(F.relu(self.quant_1(self.conv1(x))))
        x = self.quant_3(self.quant_2(conv2) + self.quant(self.downsample[0](x)))
        return F.relu(x)


class CnnQdq(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant = FakeQuantize()
        self.conv1 = QuantizedConv2d(3, 8, 7, stride=2, padding=3, per_channel=True)
        self.quant_1 = FakeQuantize()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.quant_2 = FakeQuantize()
        self.layer1 = nn.Sequential(Layer(8), Layer(8))
        self.layer2 = nn.Sequential(DownsampleLayer(), Layer(16))
        self.quant_3 = FakeQuantize()
        self.fc = QuantizedLinear(16, 10, per_channel=True)
        self.quant_4 = FakeQuantize()

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.quant_1(self.conv1(self.quant(x))))
        x = self.layer1(self.quant_2(self.maxpool(x)))
        x = self.layer2(x)
        x = self.fc(self.quant_3(x.mean((2, 3), keepdim=True)).flatten(1))
        return self.quant_4(x)


WEIGHTS = Path(__file__).with_name("cnn_qdq.safetensors")


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
) -> CnnQdq:
    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""
    with torch.device(device if path is None else "meta"):
        model = CnnQdq()
    if path is None:
        keep_buffers(model, read_weights(WEIGHTS, device))
    else:
        model.load_state_dict(read_weights(path, device), assign=True)
    return model.to(dtype).eval()
