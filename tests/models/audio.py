"""A network that separates voices, in the style of Conv-TasNet: dilations double from block to block, three times."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ConvBlock(nn.Module):
    def __init__(self, channels: int, hidden: int, kernel_size: int, dilation: int, has_residual: bool) -> None:
        super().__init__()
        padding = dilation * (kernel_size - 1) // 2
        self.conv_layers = nn.Sequential(
            nn.Conv1d(channels, hidden, kernel_size=1),
            nn.PReLU(),
            nn.GroupNorm(num_groups=1, num_channels=hidden, eps=1e-8),
            nn.Conv1d(hidden, hidden, kernel_size, padding=padding, dilation=dilation, groups=hidden),
            nn.PReLU(),
            nn.GroupNorm(num_groups=1, num_channels=hidden, eps=1e-8),
        )
        self.res_out = nn.Conv1d(hidden, channels, kernel_size=1) if has_residual else None
        self.skip_out = nn.Conv1d(hidden, channels, kernel_size=1)

    def forward(self, x: Tensor) -> tuple[Tensor | None, Tensor]:
        features = self.conv_layers(x)
        residual = None if self.res_out is None else self.res_out(features)
        return residual, self.skip_out(features)


class MaskGenerator(nn.Module):
    def __init__(self, dim: int, sources: int, channels: int, hidden: int, layers: int, stacks: int) -> None:
        super().__init__()
        self.dim, self.sources = dim, sources
        self.input_norm = nn.GroupNorm(num_groups=1, num_channels=dim, eps=1e-8)
        self.input_conv = nn.Conv1d(dim, channels, kernel_size=1)
        self.conv_layers = nn.ModuleList([])
        for stack in range(stacks):
            for layer in range(layers):
                is_last = stack == stacks - 1 and layer == layers - 1
                self.conv_layers.append(ConvBlock(channels, hidden, 3, 2**layer, has_residual=not is_last))
        self.output_prelu = nn.PReLU()
        self.output_conv = nn.Conv1d(channels, dim * sources, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        batch = x.shape[0]
        features = self.input_conv(self.input_norm(x))
        output = 0.0
        for layer in self.conv_layers:
            residual, skip = layer(features)
            if residual is not None:
                features = features + residual
            output = output + skip
        output = torch.sigmoid(self.output_conv(self.output_prelu(output)))
        return output.view(batch, self.sources, self.dim, -1)


class ConvTasNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sources, self.dim, self.stride = 2, 12, 4
        self.encoder = nn.Conv1d(1, self.dim, 2 * self.stride, stride=self.stride, padding=self.stride, bias=False)
        self.mask_generator = MaskGenerator(self.dim, self.sources, channels=8, hidden=16, layers=8, stacks=3)
        self.decoder = nn.ConvTranspose1d(
            self.dim, 1, 2 * self.stride, stride=self.stride, padding=self.stride, bias=False
        )

    def forward(self, waveform: Tensor) -> Tensor:
        batch, _, frames = waveform.shape
        padded = F.pad(waveform, (0, -frames % self.stride))
        features = self.encoder(padded)
        masked = self.mask_generator(features) * features.unsqueeze(1)
        decoded = self.decoder(masked.view(batch * self.sources, self.dim, -1))
        return decoded.view(batch, self.sources, -1)[..., :frames]
