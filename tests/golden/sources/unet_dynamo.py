"""Lifted from unet_dynamo.onnx: 63 nodes, opset 20.

Inputs   x     float32  (batch, 3, height, width)
Outputs  mask  float32  (batch, 2, 4*(height//4), 4*(width//4))
Weights  unet.safetensors: 13,910 parameters
"""

import io
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors.torch import load as load_bytes, load_file
from torch import Tensor, nn
from torch.nn import functional as F


class DoubleConv(nn.Sequential):
    """down1, down2, bottleneck, conv2, conv1"""

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__(
            nn.Conv2d(in_channels, channels, 3, padding=1),
            nn.GroupNorm(2, channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.Identity(),
            nn.LeakyReLU(0.1),
        )


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1 = DoubleConv(3, 8)
        self.pool = nn.MaxPool2d(2)
        self.down2 = DoubleConv(8, 12)
        self.bottleneck = DoubleConv(12, 16)
        self.up2 = nn.ConvTranspose2d(16, 12, 2, stride=2)
        self.conv2 = DoubleConv(24, 12)
        self.conv1 = DoubleConv(20, 8)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        down1 = self.down1(x)
        down2 = self.down2(self.pool(down1))
        x = self.up2(self.bottleneck(self.pool(down2)))
        x = self.conv2(torch.cat((x, down2), 1))
        x = F.interpolate(x, scale_factor=2, mode="bilinear")
        x = self.head(self.conv1(torch.cat((x, down1), 1)))
        return x.sigmoid()


WEIGHTS = Path(__file__).with_name("unet.safetensors")


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
) -> UNet:
    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""
    with torch.device(device if path is None else "meta"):
        model = UNet()
    if path is not None:
        model.load_state_dict(read_weights(path, device), assign=True)
    return model.to(dtype).eval()
