"""Lifted from mobilenet.onnx: 127 nodes, opset 20.

Inputs   x       float32  (batch, 3, 32, 32)
Outputs  logits  float32  (batch, 10)
Weights  mobilenet.safetensors: 3,354 parameters
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F


class SqueezeExcite(nn.Module):
    """blocks.0.se, blocks.1.se, blocks.2.se"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(channels, channels // 4, 1)
        self.fc2 = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        fc2 = self.fc2(F.relu(self.fc1(x.mean((2, 3), keepdim=True))))
        return x * F.hardsigmoid(fc2)


class InvertedResidual(nn.Module):
    """blocks.0, blocks.1"""

    def __init__(self, channels: int, stride: int = 1, residual: bool = False) -> None:
        super().__init__()
        self.residual = residual
        self.expand = nn.Sequential(
            nn.Conv2d(8, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU6()
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(channels, channels, 3, stride=stride, padding=1, groups=channels, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU6(),
        )
        self.se = SqueezeExcite(channels)
        self.project = nn.Sequential(
            nn.Conv2d(channels, channels // 2, 1, bias=False), nn.BatchNorm2d(channels // 2)
        )

    def forward(self, x: Tensor) -> Tensor:
        project = self.project(self.se(self.depthwise(self.expand(x))))
        return x + project if self.residual else project


class InvertedResidual2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.expand = nn.Sequential(
            nn.Conv2d(12, 24, 1, bias=False), nn.BatchNorm2d(24), nn.Hardswish()
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(24, 24, 3, padding=1, groups=24, bias=False),
            nn.BatchNorm2d(24),
            nn.Hardswish(),
        )
        self.se = SqueezeExcite(24)
        self.project = nn.Sequential(nn.Conv2d(24, 12, 1, bias=False), nn.BatchNorm2d(12))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.project(self.se(self.depthwise(self.expand(x))))


class MobileNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.Hardswish()
        )
        self.blocks = nn.Sequential(
            InvertedResidual(16, residual=True), InvertedResidual(24, stride=2), InvertedResidual2()
        )
        self.classifier = nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem(x)).mean((2, 3))
        return self.classifier(x)


WEIGHTS = Path(__file__).with_name("mobilenet.safetensors")


def load(path: str | Path = WEIGHTS, device: str = "cpu") -> MobileNet:
    """The model with its weights, ready to run."""
    with torch.device("meta"):
        model = MobileNet()
    model.load_state_dict(load_file(path, device=device), assign=True)
    return model.eval()
