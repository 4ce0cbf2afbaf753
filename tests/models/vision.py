"""Image networks as people write them, small enough to export and run in a moment unless asked to be wider."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 12, 3, padding=1, bias=False),
            nn.BatchNorm2d(12),
            nn.ReLU(),
            nn.AvgPool2d(2),
        )
        self.dropout = nn.Dropout(0.5)
        self.fc1 = nn.Linear(12 * 4 * 4, 24)
        self.fc2 = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x).flatten(1)
        x = self.dropout(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


class BasicBlock(nn.Module):
    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or in_channels != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_channels, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + identity)


class ResNet(nn.Module):
    def __init__(self, narrow: int = 8, broad: int = 16) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, narrow, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(narrow)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(BasicBlock(narrow, narrow), BasicBlock(narrow, narrow))
        self.layer2 = nn.Sequential(BasicBlock(narrow, broad, stride=2), BasicBlock(broad, broad))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(broad, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = F.relu(self.fc1(self.avgpool(x)))
        return x * F.hardsigmoid(self.fc2(scale))


class InvertedResidual(nn.Module):
    def __init__(self, in_channels: int, channels: int, stride: int, expand: int, activation: type[nn.Module]) -> None:
        super().__init__()
        hidden = in_channels * expand
        self.expand = nn.Sequential(nn.Conv2d(in_channels, hidden, 1, bias=False), nn.BatchNorm2d(hidden), activation())
        self.depthwise = nn.Sequential(
            nn.Conv2d(hidden, hidden, 3, stride, padding=1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            activation(),
        )
        self.se = SqueezeExcite(hidden, hidden // 4)
        self.project = nn.Sequential(nn.Conv2d(hidden, channels, 1, bias=False), nn.BatchNorm2d(channels))
        self.use_residual = stride == 1 and in_channels == channels

    def forward(self, x: Tensor) -> Tensor:
        out = self.project(self.se(self.depthwise(self.expand(x))))
        return x + out if self.use_residual else out


class MobileNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.Hardswish()
        )
        self.blocks = nn.Sequential(
            InvertedResidual(8, 8, 1, 2, nn.ReLU6),
            InvertedResidual(8, 12, 2, 3, nn.ReLU6),
            InvertedResidual(12, 12, 1, 2, nn.Hardswish),
        )
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem(x)).mean((2, 3))
        return self.classifier(self.dropout(x))


class DoubleConv(nn.Sequential):
    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__(
            nn.Conv2d(in_channels, channels, 3, padding=1),
            nn.GroupNorm(2, channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.LeakyReLU(0.1),
        )


class UNet(nn.Module):
    """One upsampling step is learned, the other interpolates; height and width are free multiples of four."""

    def __init__(self, narrow: int = 8, middle: int = 12, broad: int = 16) -> None:
        super().__init__()
        self.down1 = DoubleConv(3, narrow)
        self.down2 = DoubleConv(narrow, middle)
        self.pool = nn.MaxPool2d(2)
        self.bottleneck = DoubleConv(middle, broad)
        self.up2 = nn.ConvTranspose2d(broad, middle, 2, stride=2)
        self.conv2 = DoubleConv(2 * middle, middle)
        self.conv1 = DoubleConv(middle + narrow, narrow)
        self.head = nn.Conv2d(narrow, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip1 = self.down1(x)
        skip2 = self.down2(self.pool(skip1))
        x = self.bottleneck(self.pool(skip2))
        x = self.conv2(torch.cat([self.up2(x), skip2], dim=1))
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = self.conv1(torch.cat([x, skip1], dim=1))
        return torch.sigmoid(self.head(x))


class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width, patches = 24, 16
        self.patch_embed = nn.Conv2d(3, width, 8, stride=8)
        self.cls_token = nn.Parameter(torch.empty(1, 1, width))
        self.pos_embed = nn.Parameter(torch.empty(1, patches + 1, width))
        self.blocks = nn.ModuleList(EncoderLayer(width, 4) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])
