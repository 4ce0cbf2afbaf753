"""Lifted from resnet_dynamo.onnx: 27 nodes, opset 20.

Inputs   x       float32  (batch, 3, 32, 32)
Outputs  logits  float32  (batch, 10)
Weights  resnet.safetensors: 11,962 parameters
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F


class BasicBlock(nn.Module):
    """layer1.0, layer1.1, layer2.0, layer2.1"""

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.downsample = nn.Identity()
        if in_channels != channels:
            self.downsample = nn.Sequential(nn.Conv2d(in_channels, channels, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv2(F.relu(self.conv1(x))) + self.downsample(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, stride=2, padding=3)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 8))
        self.layer2 = nn.Sequential(BasicBlock(8, 16, stride=2), BasicBlock(16, 16))
        self.fc = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer1(self.maxpool(F.relu(self.conv1(x))))
        x = self.layer2(x)
        return self.fc(x.mean((2, 3)))


WEIGHTS = Path(__file__).with_name("resnet.safetensors")


def load(
    path: str | Path = WEIGHTS, device: str = "cpu", dtype: torch.dtype | None = None
) -> ResNet:
    """The model with its weights, ready to run; in their own type, or in `dtype`."""
    with torch.device("meta"):
        model = ResNet()
    model.load_state_dict(load_file(path, device=device), assign=True)
    return model.to(dtype).eval()
