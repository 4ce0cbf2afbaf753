"""More image networks in the style of those that people use, small enough to export and run in a moment."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    expansion = 2

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        out_channels = channels * self.expansion
        self.conv1 = nn.Conv2d(in_channels, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or in_channels != out_channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.relu(self.bn3(self.conv3(out)) + identity)


class BottleneckResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(Bottleneck(8, 6), Bottleneck(12, 6), Bottleneck(12, 6))
        self.layer2 = nn.Sequential(Bottleneck(12, 10, 2), Bottleneck(20, 10))
        self.layer3 = nn.Sequential(Bottleneck(20, 14, 2), Bottleneck(28, 14), Bottleneck(28, 14))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(28, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(self.avgpool(x).flatten(1))


class DenseLayer(nn.Module):
    def __init__(self, in_channels: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(in_channels)
        self.conv1 = nn.Conv2d(in_channels, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, features: list[Tensor]) -> Tensor:
        x = self.conv1(F.relu(self.norm1(torch.cat(features, 1))))
        return self.conv2(F.relu(self.norm2(x)))


class DenseBlock(nn.ModuleDict):
    def __init__(self, layers: int, in_channels: int, growth: int) -> None:
        super().__init__()
        for i in range(layers):
            self[f"denselayer{i + 1}"] = DenseLayer(in_channels + i * growth, growth)

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, 1)


class Transition(nn.Sequential):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(in_channels)
        self.relu = nn.ReLU()
        self.conv = nn.Conv2d(in_channels, out_channels, 1, bias=False)
        self.pool = nn.AvgPool2d(2, stride=2)


class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential()
        self.features.conv0 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.features.norm0 = nn.BatchNorm2d(8)
        self.features.relu0 = nn.ReLU()
        self.features.denseblock1 = DenseBlock(3, 8, 4)
        self.features.transition1 = Transition(20, 10)
        self.features.denseblock2 = DenseBlock(4, 10, 4)
        self.features.norm5 = nn.BatchNorm2d(26)
        self.classifier = nn.Linear(26, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.features(x))
        return self.classifier(F.adaptive_avg_pool2d(x, 1).flatten(1))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = F.silu(self.fc1(x.mean((2, 3), keepdim=True)))
        return x * torch.sigmoid(self.fc2(scale))


class ConvNormAct(nn.Sequential):
    def __init__(self, in_channels: int, channels: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> None:
        padding = kernel // 2
        super().__init__(
            nn.Conv2d(in_channels, channels, kernel, stride, padding, groups=groups, bias=False),
            nn.BatchNorm2d(channels, eps=1e-3),
            nn.SiLU(),
        )


class MBConv(nn.Module):
    def __init__(self, in_channels: int, channels: int, kernel: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = in_channels * expand
        self.expand = ConvNormAct(in_channels, hidden) if expand != 1 else nn.Identity()
        self.depthwise = ConvNormAct(hidden, hidden, kernel, stride, groups=hidden)
        self.se = SqueezeExcitation(hidden, in_channels // 2)
        self.project = nn.Conv2d(hidden, channels, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels, eps=1e-3)
        self.use_residual = stride == 1 and in_channels == channels

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm(self.project(self.se(self.depthwise(self.expand(x)))))
        return x + out if self.use_residual else out


class EfficientNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNormAct(3, 8, 3, stride=2)
        self.stages = nn.Sequential(
            nn.Sequential(MBConv(8, 6, 3, 1, 1)),
            nn.Sequential(MBConv(6, 10, 3, 2, 4), MBConv(10, 10, 3, 1, 4)),
            nn.Sequential(MBConv(10, 14, 5, 2, 4), MBConv(14, 14, 5, 1, 4), MBConv(14, 14, 5, 1, 4)),
        )
        self.head = ConvNormAct(14, 32)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(self.stages(self.stem(x)))
        return self.classifier(self.dropout(x.mean((2, 3))))


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        x = F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(1e-6 * torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self, wide: int = 1) -> None:
        super().__init__()
        widths, depths = (8 * wide, 12 * wide, 16 * wide), (2, 2, 3)
        self.downsample_layers = nn.ModuleList(
            [nn.Sequential(nn.Conv2d(3, widths[0], 4, stride=4), LayerNorm2d(widths[0], eps=1e-6))]
        )
        for before, after in pairwise(widths):
            self.downsample_layers.append(
                nn.Sequential(LayerNorm2d(before, eps=1e-6), nn.Conv2d(before, after, 2, stride=2))
            )
        self.stages = nn.ModuleList(
            nn.Sequential(*(ConvNeXtBlock(width) for _ in range(depth)))
            for width, depth in zip(widths, depths, strict=True)
        )
        self.norm = nn.LayerNorm(widths[-1], eps=1e-6)
        self.head = nn.Linear(widths[-1], 10)

    def forward(self, x: Tensor) -> Tensor:
        for downsample, stage in zip(self.downsample_layers, self.stages, strict=True):
            x = stage(downsample(x))
        return self.head(self.norm(x.mean((2, 3))))


class WindowAttention(nn.Module):
    def __init__(self, dim: int, window: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        axis = torch.arange(window)
        place = torch.stack(torch.meshgrid(axis, axis, indexing="ij")).flatten(1)
        offset = (place[:, :, None] - place[:, None, :]) + window - 1
        self.register_buffer("relative_position_index", offset[0] * (2 * window - 1) + offset[1])
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        windows, length, dim = x.shape
        q, k, v = self.qkv(x).reshape(windows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.flatten()]
        attn = attn + bias.view(length, length, -1).permute(2, 0, 1)
        if mask is not None:
            attn = attn.view(-1, len(mask), self.heads, length, length) + mask[:, None]
            attn = attn.view(-1, self.heads, length, length)
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(windows, length, dim))


class SwinBlock(nn.Module):
    def __init__(self, dim: int, size: int, window: int, shift: int, heads: int) -> None:
        super().__init__()
        self.window, self.shift = window, shift
        self.norm1 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        mask = None
        if shift:
            region = torch.zeros(1, size, size, 1)
            parts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
            for number, (rows, columns) in enumerate((rows, columns) for rows in parts for columns in parts):
                region[:, rows, columns] = number
            region = self.cut(region).squeeze(-1)
            mask = (region[:, None] - region[:, :, None]).ne(0).float() * -100.0
        self.register_buffer("attn_mask", mask)

    def cut(self, x: Tensor) -> Tensor:
        batch, height, width, dim = x.shape
        x = x.view(batch, height // self.window, self.window, width // self.window, self.window, dim)
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, self.window * self.window, dim)

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, dim = x.shape
        y = self.norm1(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), dims=(1, 2))
        y = self.attn(self.cut(y), self.attn_mask)
        y = y.view(batch, height // self.window, width // self.window, self.window, self.window, dim)
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(batch, height, width, dim)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), dims=(1, 2))
        x = x + y
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * dim)
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.reduction(self.norm(x))


class Swin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 12, 4, stride=4)
        self.layers = nn.ModuleList(
            [
                nn.Sequential(SwinBlock(12, 8, 4, 0, 2), SwinBlock(12, 8, 4, 2, 2), PatchMerging(12)),
                nn.Sequential(SwinBlock(24, 4, 2, 0, 4), SwinBlock(24, 4, 2, 1, 4)),
            ]
        )
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x).permute(0, 2, 3, 1)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean((1, 2)))
