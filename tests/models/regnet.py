"""A RegNet after torchvision's, with keys like `trunk_output.block1.block1-0.f.a.0.weight`."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn


class ConvNormActivation(nn.Sequential):
    def __init__(
        self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1, active: bool = True
    ) -> None:
        layers: list[nn.Module] = [
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        super().__init__(*layers, *([nn.ReLU()] if active else []))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation = nn.ReLU()
        self.scale_activation = nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        scale = self.activation(self.fc1(self.avgpool(x)))
        return self.scale_activation(self.fc2(scale)) * x


class BottleneckTransform(nn.Sequential):
    """A 1x1, a grouped 3x3, a squeeze and excitation, and a 1x1 again."""

    def __init__(self, inputs: int, outputs: int, stride: int, group_width: int) -> None:
        super().__init__(
            OrderedDict(
                a=ConvNormActivation(inputs, outputs, 1),
                b=ConvNormActivation(outputs, outputs, 3, stride, outputs // group_width),
                se=SqueezeExcitation(outputs, inputs // 4),
                c=ConvNormActivation(outputs, outputs, 1, active=False),
            )
        )


class ResBottleneckBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, group_width: int) -> None:
        super().__init__()
        self.proj = None
        if inputs != outputs or stride != 1:
            self.proj = ConvNormActivation(inputs, outputs, 1, stride, active=False)
        self.f = BottleneckTransform(inputs, outputs, stride, group_width)
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.proj is None else self.proj(x)
        return self.activation(shortcut + self.f(x))


class AnyStage(nn.Sequential):
    """Blocks of one width, of which the first halves the image."""

    def __init__(self, inputs: int, outputs: int, depth: int, group_width: int, number: int) -> None:
        super().__init__()
        for i in range(depth):
            block = ResBottleneckBlock(inputs if i == 0 else outputs, outputs, 2 if i == 0 else 1, group_width)
            self.add_module(f"block{number}-{i}", block)


class RegNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNormActivation(3, 8, 3, 2)
        stages, width = [], 8
        for number, (outputs, depth) in enumerate([(8, 1), (16, 2), (24, 4)], 1):
            stages.append((f"block{number}", AnyStage(width, outputs, depth, 4, number)))
            width = outputs
        self.trunk_output = nn.Sequential(OrderedDict(stages))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.trunk_output(self.stem(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))
