"""Lifted from mobilenet_script.onnx: 57 nodes, opset 17.

Inputs   x       float32  (batch, 3, 32, 32)
Outputs  logits  float32  (batch, 10)
Weights  mobilenet.safetensors: 3,354 parameters
"""

import io
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors.torch import load as load_bytes, load_file
from torch import Tensor, nn
from torch.nn import functional as F


class SE(nn.Module):
    """blocks.0.se, blocks.1.se, blocks.2.se"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(channels, channels // 4, 1)
        self.fc2 = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        fc2 = self.fc2(F.relu(self.fc1(x.mean((2, 3), keepdim=True))))
        return x * F.hardsigmoid(fc2)


class ResidualBlock(nn.Module):
    """blocks.0, blocks.1, blocks.2"""

    def __init__(
        self, in_channels: int, channels: int, activation: type[nn.Module], stride: int = 1
    ) -> None:
        super().__init__()
        hidden = 2 * channels
        self.residual = in_channels == channels
        self.expand = nn.Sequential(
            nn.Conv2d(in_channels, hidden, 1, bias=False), nn.BatchNorm2d(hidden), activation()
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(hidden, hidden, 3, stride, padding=1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            activation(),
        )
        self.se = SE(hidden)
        self.project = nn.Sequential(
            nn.Conv2d(hidden, channels, 1, bias=False), nn.BatchNorm2d(channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        project = self.project(self.se(self.depthwise(self.expand(x))))
        return x + project if self.residual else project


class Mobilenet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.Hardswish()
        )
        self.blocks = nn.Sequential(
            ResidualBlock(8, 8, nn.ReLU6),
            ResidualBlock(8, 12, nn.ReLU6, stride=2),
            ResidualBlock(12, 12, nn.Hardswish),
        )
        self.classifier = nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem(x)).mean((2, 3))
        return self.classifier(x)


WEIGHTS = Path(__file__).with_name("mobilenet.safetensors")


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
) -> Mobilenet:
    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""
    with torch.device(device if path is None else "meta"):
        model = Mobilenet()
    if path is not None:
        model.load_state_dict(read_weights(path, device), assign=True)
    return model.to(dtype).eval()
