"""A Swin Transformer in the style of torchvision's: its windows are padded, and each forward builds their mask."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PatchMerging(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = nn.LayerNorm(4 * dim)

    def forward(self, x: Tensor) -> Tensor:
        height, width, _ = x.shape[-3:]
        x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
        parts = [x[..., row::2, column::2, :] for column in (0, 1) for row in (0, 1)]
        return self.reduction(self.norm(torch.cat(parts, -1)))


class ShiftedWindowAttention(nn.Module):
    def __init__(self, dim: int, window_size: list[int], shift_size: list[int], num_heads: int) -> None:
        super().__init__()
        self.window_size, self.shift_size, self.num_heads = window_size, shift_size, num_heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        rows, columns = window_size
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * rows - 1) * (2 * columns - 1), num_heads))
        places = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")).flatten(1)
        offsets = (places[:, :, None] - places[:, None, :]).permute(1, 2, 0).contiguous()
        offsets[:, :, 0] += rows - 1
        offsets[:, :, 1] += columns - 1
        offsets[:, :, 0] *= 2 * columns - 1
        self.register_buffer("relative_position_index", offsets.sum(-1).flatten())
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def get_relative_position_bias(self) -> Tensor:
        places = self.window_size[0] * self.window_size[1]
        bias = self.relative_position_bias_table[self.relative_position_index].view(places, places, -1)
        return bias.permute(2, 0, 1).contiguous().unsqueeze(0)

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        rows, columns = self.window_size
        x = F.pad(x, (0, 0, 0, (columns - width % columns) % columns, 0, (rows - height % rows) % rows))
        _, padded_height, padded_width, _ = x.shape
        shift = [*self.shift_size]
        if rows >= padded_height:
            shift[0] = 0
        if columns >= padded_width:
            shift[1] = 0
        if sum(shift) > 0:
            x = torch.roll(x, shifts=(-shift[0], -shift[1]), dims=(1, 2))
        windows = (padded_height // rows) * (padded_width // columns)
        x = x.view(batch, padded_height // rows, rows, padded_width // columns, columns, channels)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(batch * windows, rows * columns, channels)

        qkv = F.linear(x, self.qkv.weight, self.qkv.bias)
        qkv = qkv.reshape(x.size(0), x.size(1), 3, self.num_heads, channels // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        q = q * (channels // self.num_heads) ** -0.5
        attn = q.matmul(k.transpose(-2, -1)) + self.get_relative_position_bias()
        if sum(shift) > 0:
            mask = self.mask(x, padded_height, padded_width, shift)
            attn = attn.view(x.size(0) // windows, windows, self.num_heads, x.size(1), x.size(1))
            attn = attn + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, x.size(1), x.size(1))
        attn = F.dropout(F.softmax(attn, dim=-1), p=0.0)
        x = attn.matmul(v).transpose(1, 2).reshape(x.size(0), x.size(1), channels)
        x = F.dropout(F.linear(x, self.proj.weight, self.proj.bias), p=0.0)

        x = x.view(batch, padded_height // rows, padded_width // columns, rows, columns, channels)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(batch, padded_height, padded_width, channels)
        if sum(shift) > 0:
            x = torch.roll(x, shifts=(shift[0], shift[1]), dims=(1, 2))
        return x[:, :height, :width, :].contiguous()

    def mask(self, x: Tensor, height: int, width: int, shift: list[int]) -> Tensor:
        """What the places of a window see of each other: a shifted window holds parts of several regions."""
        (rows, columns), region = self.window_size, 0
        mask = x.new_zeros((height, width))
        for top, bottom in ((0, -rows), (-rows, -shift[0]), (-shift[0], None)):
            for left, right in ((0, -columns), (-columns, -shift[1]), (-shift[1], None)):
                mask[top:bottom, left:right] = region
                region += 1
        mask = mask.view(height // rows, rows, width // columns, columns)
        mask = mask.permute(0, 2, 1, 3).reshape((height // rows) * (width // columns), rows * columns)
        mask = mask.unsqueeze(1) - mask.unsqueeze(2)
        return mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)


class MLP(nn.Sequential):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__(nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(0.0), nn.Linear(hidden, dim), nn.Dropout(0.0))


class SwinTransformerBlock(nn.Module):
    def __init__(self, dim: int, num_heads: int, window_size: list[int], shift_size: list[int]) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-5)
        self.attn = ShiftedWindowAttention(dim, window_size, shift_size, num_heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-5)
        self.mlp = MLP(dim, 4 * dim)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Permute(nn.Module):
    def __init__(self, dims: list[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        return torch.permute(x, self.dims)


class SwinTransformer(nn.Module):
    """For images of 92 x 96, the blocks of one stage pad what they cut, and those of the last have a single window."""

    def __init__(
        self,
        window_size: tuple[int, int] = (6, 6),
        embed_dim: int = 8,
        depths: tuple[int, ...] = (2, 2, 2),
        num_heads: tuple[int, ...] = (2, 4, 4),
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Sequential(
                nn.Conv2d(3, embed_dim, kernel_size=4, stride=4), Permute([0, 2, 3, 1]), nn.LayerNorm(embed_dim)
            )
        ]
        for i, (depth, heads) in enumerate(zip(depths, num_heads, strict=True)):
            dim, window = embed_dim * 2**i, [*window_size]
            shifts = [[0 if j % 2 == 0 else size // 2 for size in window] for j in range(depth)]
            layers.append(nn.Sequential(*(SwinTransformerBlock(dim, heads, window, shift) for shift in shifts)))
            if i < len(depths) - 1:
                layers.append(PatchMerging(dim))
        self.features = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(dim)
        self.permute = Permute([0, 3, 1, 2])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten(1)
        self.head = nn.Linear(dim, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.permute(self.norm(self.features(x)))
        return self.head(self.flatten(self.avgpool(x)))
