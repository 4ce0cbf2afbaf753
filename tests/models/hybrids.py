"""Image networks between convolutions and transformers, with learned scales and biases, written as timm writes them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _places(height: int, width: int, stride: int = 1) -> Tensor:
    """The rows and columns of all places of a window, (2, places)."""
    rows, columns = torch.arange(0, height, stride), torch.arange(0, width, stride)
    return torch.stack(torch.meshgrid(rows, columns, indexing="ij")).flatten(1)


def _bias_indices(resolution: int, stride: int = 1) -> Tensor:
    """For each query and key, the bias of their distance in rows and columns."""
    queries, keys = _places(resolution, resolution, stride), _places(resolution, resolution)
    distance = (queries[..., :, None] - keys[..., None, :]).abs()
    return distance[0] * resolution + distance[1]


class Mlp(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = nn.GELU()
        self.drop1 = nn.Dropout(0.0)
        self.fc2 = nn.Linear(hidden, dim)
        self.drop2 = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        x = self.act(x)
        x = self.drop1(x)
        x = self.fc2(x)
        return self.drop2(x)


# EfficientFormer


class Stem4(nn.Sequential):
    def __init__(self, in_chs: int, out_chs: int) -> None:
        super().__init__()
        self.add_module("conv1", nn.Conv2d(in_chs, out_chs // 2, 3, stride=2, padding=1))
        self.add_module("norm1", nn.BatchNorm2d(out_chs // 2))
        self.add_module("act1", nn.ReLU())
        self.add_module("conv2", nn.Conv2d(out_chs // 2, out_chs, 3, stride=2, padding=1))
        self.add_module("norm2", nn.BatchNorm2d(out_chs))
        self.add_module("act2", nn.ReLU())


class Downsample(nn.Module):
    def __init__(self, in_chs: int, out_chs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_chs, out_chs, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(out_chs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return self.norm(x)


class Flat(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).transpose(1, 2)


class Pooling(nn.Module):
    def __init__(self, pool_size: int = 3) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(pool_size, stride=1, padding=pool_size // 2, count_include_pad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(x) - x


class BiasedAttention(nn.Module):
    """Attention with a bias for each distance between two places, which is looked up once in evaluation."""

    def __init__(
        self, dim: int, key_dim: int = 4, num_heads: int = 2, attn_ratio: int = 4, resolution: int = 4
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.scale = key_dim**-0.5
        self.key_dim = key_dim
        self.key_attn_dim = key_dim * num_heads
        self.val_dim = attn_ratio * key_dim
        self.val_attn_dim = self.val_dim * num_heads
        self.qkv = nn.Linear(dim, self.key_attn_dim * 2 + self.val_attn_dim)
        self.proj = nn.Linear(self.val_attn_dim, dim)
        self.attention_biases = nn.Parameter(torch.zeros(num_heads, resolution * resolution))
        self.register_buffer("attention_bias_idxs", _bias_indices(resolution))
        self.attention_bias_cache: dict[str, Tensor] = {}

    @torch.no_grad()
    def train(self, mode: bool = True) -> nn.Module:
        super().train(mode)
        if mode and self.attention_bias_cache:
            self.attention_bias_cache = {}
        return self

    def get_attention_biases(self, device: torch.device) -> Tensor:
        if torch.jit.is_tracing() or self.training:
            return self.attention_biases[:, self.attention_bias_idxs]
        key = str(device)
        if key not in self.attention_bias_cache:
            self.attention_bias_cache[key] = self.attention_biases[:, self.attention_bias_idxs]
        return self.attention_bias_cache[key]

    def forward(self, x: Tensor) -> Tensor:
        B, N, _ = x.shape
        qkv = self.qkv(x)
        qkv = qkv.reshape(B, N, self.num_heads, -1).permute(0, 2, 1, 3)
        q, k, v = qkv.split([self.key_dim, self.key_dim, self.val_dim], dim=3)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn + self.get_attention_biases(x.device)
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(B, N, self.val_attn_dim)
        return self.proj(x)


class ConvMlpWithNorm(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(dim, hidden, 1)
        self.norm1 = nn.BatchNorm2d(hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Conv2d(hidden, dim, 1)
        self.norm2 = nn.BatchNorm2d(dim)
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        x = self.norm1(x)
        x = self.act(x)
        x = self.drop(x)
        x = self.fc2(x)
        x = self.norm2(x)
        return self.drop(x)


class LayerScale(nn.Module):
    def __init__(self, dim: int, init_values: float = 1e-5) -> None:
        super().__init__()
        self.gamma = nn.Parameter(init_values * torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class LayerScale2d(nn.Module):
    def __init__(self, dim: int, init_values: float = 1e-5) -> None:
        super().__init__()
        self.gamma = nn.Parameter(init_values * torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        gamma = self.gamma.view(1, -1, 1, 1)
        return x * gamma


class MetaBlock1d(nn.Module):
    def __init__(self, dim: int, mlp_ratio: int = 3) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.token_mixer = BiasedAttention(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, dim * mlp_ratio)
        self.drop_path = nn.Identity()
        self.ls1 = LayerScale(dim)
        self.ls2 = LayerScale(dim)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self.ls1(self.token_mixer(self.norm1(x))))
        return x + self.drop_path(self.ls2(self.mlp(self.norm2(x))))


class MetaBlock2d(nn.Module):
    def __init__(self, dim: int, mlp_ratio: int = 3) -> None:
        super().__init__()
        self.token_mixer = Pooling()
        self.ls1 = LayerScale2d(dim)
        self.drop_path1 = nn.Identity()
        self.mlp = ConvMlpWithNorm(dim, dim * mlp_ratio)
        self.ls2 = LayerScale2d(dim)
        self.drop_path2 = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path1(self.ls1(self.token_mixer(x)))
        return x + self.drop_path2(self.ls2(self.mlp(x)))


class EfficientFormerStage(nn.Module):
    def __init__(self, dim: int, dim_out: int, depth: int, downsample: bool = True, num_vit: int = 0) -> None:
        super().__init__()
        if downsample:
            self.downsample: nn.Module = Downsample(dim, dim_out)
        else:
            self.downsample = nn.Identity()
        blocks: list[nn.Module] = []
        if num_vit and num_vit >= depth:
            blocks.append(Flat())
        for block_idx in range(depth):
            remain_idx = depth - block_idx - 1
            if num_vit and num_vit > remain_idx:
                blocks.append(MetaBlock1d(dim_out))
            else:
                blocks.append(MetaBlock2d(dim_out))
                if num_vit and num_vit == remain_idx:
                    blocks.append(Flat())
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        x = self.downsample(x)
        return self.blocks(x)


class EfficientFormer(nn.Module):
    def __init__(self, embed_dims: Sequence[int] = (8, 16, 24), depths: Sequence[int] = (2, 2, 4)) -> None:
        super().__init__()
        self.stem = Stem4(3, embed_dims[0])
        prev_dim = embed_dims[0]
        stages = []
        for i, (dim, depth) in enumerate(zip(embed_dims, depths, strict=True)):
            num_vit = 2 if i == len(depths) - 1 else 0
            stages.append(EfficientFormerStage(prev_dim, dim, depth, downsample=i > 0, num_vit=num_vit))
            prev_dim = dim
        self.stages = nn.Sequential(*stages)
        self.norm = nn.LayerNorm(embed_dims[-1])
        self.head_drop = nn.Dropout(0.0)
        self.head = nn.Linear(embed_dims[-1], 10)
        self.head_dist = nn.Linear(embed_dims[-1], 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.stages(x)
        x = self.norm(x)
        x = x.mean(dim=1)
        x = self.head_drop(x)
        return (self.head(x) + self.head_dist(x)) / 2


# PoolFormer


class GroupNorm1(nn.GroupNorm):
    def __init__(self, num_channels: int) -> None:
        super().__init__(1, num_channels)


class PatchStem(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 7, stride=4, padding=2)
        self.norm = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return self.norm(x)


class Downsampling(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.norm = nn.Identity()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        return self.conv(x)


class Scale(nn.Module):
    """Scale by a vector, with the channels in front of the places or behind them."""

    def __init__(self, dim: int, init_value: float = 1.0, use_nchw: bool = True) -> None:
        super().__init__()
        self.shape = (dim, 1, 1) if use_nchw else (dim,)
        self.scale = nn.Parameter(init_value * torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale.view(self.shape)


class ConvMlp(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(dim, hidden, 1)
        self.act = nn.GELU()
        self.drop1 = nn.Dropout(0.0)
        self.fc2 = nn.Conv2d(hidden, dim, 1)
        self.drop2 = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        x = self.act(x)
        x = self.drop1(x)
        x = self.fc2(x)
        return self.drop2(x)


class MetaFormerBlock(nn.Module):
    def __init__(self, dim: int, has_res_scale: bool = False) -> None:
        super().__init__()
        scale = partial(Scale, dim=dim) if has_res_scale else nn.Identity
        self.norm1 = GroupNorm1(dim)
        self.token_mixer = Pooling()
        self.drop_path1 = nn.Identity()
        self.layer_scale1 = Scale(dim, 1e-5)
        self.res_scale1 = scale()
        self.norm2 = GroupNorm1(dim)
        self.mlp = ConvMlp(dim, 4 * dim)
        self.drop_path2 = nn.Identity()
        self.layer_scale2 = Scale(dim, 1e-5)
        self.res_scale2 = scale()

    def forward(self, x: Tensor) -> Tensor:
        x = self.res_scale1(x) + self.layer_scale1(self.drop_path1(self.token_mixer(self.norm1(x))))
        return self.res_scale2(x) + self.layer_scale2(self.drop_path2(self.mlp(self.norm2(x))))


class MetaFormerStage(nn.Module):
    def __init__(self, in_chs: int, out_chs: int, depth: int, has_res_scale: bool) -> None:
        super().__init__()
        self.downsample = nn.Identity() if in_chs == out_chs else Downsampling(in_chs, out_chs)
        self.blocks = nn.Sequential(*[MetaFormerBlock(out_chs, has_res_scale) for _ in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.downsample(x)
        return self.blocks(x)


class PoolFormer(nn.Module):
    """Of timm's MetaFormers: the last stage scales its residuals too."""

    def __init__(self, dims: Sequence[int] = (8, 12, 16), depths: Sequence[int] = (2, 3, 2)) -> None:
        super().__init__()
        self.stem = PatchStem(3, dims[0])
        stages = []
        prev_dim = dims[0]
        for i, (dim, depth) in enumerate(zip(dims, depths, strict=True)):
            stages.append(MetaFormerStage(prev_dim, dim, depth, has_res_scale=i == len(dims) - 1))
            prev_dim = dim
        self.stages = nn.Sequential(*stages)
        self.head = nn.Sequential(
            OrderedDict(
                [
                    ("global_pool", nn.AdaptiveAvgPool2d(1)),
                    ("norm", GroupNorm1(dims[-1])),
                    ("flatten", nn.Flatten(1)),
                    ("drop", nn.Dropout(0.0)),
                    ("fc", nn.Linear(dims[-1], 10)),
                ]
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.stages(x)
        return self.head(x)


# LeViT


class ConvNorm(nn.Module):
    def __init__(self, in_chs: int, out_chs: int, kernel_size: int = 1, stride: int = 1, padding: int = 0) -> None:
        super().__init__()
        self.linear = nn.Conv2d(in_chs, out_chs, kernel_size, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(out_chs)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn(self.linear(x))


class LinearNorm(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=False)
        self.bn = nn.BatchNorm1d(out_features)

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        return self.bn(x.flatten(0, 1)).reshape_as(x)


class NormLinear(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm1d(in_features)
        self.drop = nn.Dropout(0.0)
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.drop(self.bn(x)))


class Stem8(nn.Sequential):
    def __init__(self, in_chs: int, out_chs: int) -> None:
        super().__init__()
        self.add_module("conv1", ConvNorm(in_chs, out_chs // 4, 3, stride=2, padding=1))
        self.add_module("act1", nn.Hardswish())
        self.add_module("conv2", ConvNorm(out_chs // 4, out_chs // 2, 3, stride=2, padding=1))
        self.add_module("act2", nn.Hardswish())
        self.add_module("conv3", ConvNorm(out_chs // 2, out_chs, 3, stride=2, padding=1))


class Subsample(nn.Module):
    def __init__(self, stride: int, resolution: int) -> None:
        super().__init__()
        self.stride = stride
        self.resolution = resolution

    def forward(self, x: Tensor) -> Tensor:
        B, _, C = x.shape
        x = x.view(B, self.resolution, self.resolution, C)
        x = x[:, :: self.stride, :: self.stride]
        return x.reshape(B, -1, C)


class CachedBiases(nn.Module):
    """The biases of an attention by distance. In evaluation they are looked up once, without gradients."""

    def __init__(self, num_heads: int, resolution: int, stride: int = 1) -> None:
        super().__init__()
        self.attention_biases = nn.Parameter(torch.zeros(num_heads, resolution * resolution))
        self.register_buffer("attention_bias_idxs", _bias_indices(resolution, stride), persistent=False)
        self.attention_bias_cache: dict[str, Tensor] = {}

    @torch.no_grad()
    def train(self, mode: bool = True) -> nn.Module:
        super().train(mode)
        if mode and self.attention_bias_cache:
            self.attention_bias_cache = {}
        return self

    def get_attention_biases(self, device: torch.device) -> Tensor:
        if torch.jit.is_tracing() or self.training:
            return self.attention_biases[:, self.attention_bias_idxs]
        key = str(device)
        if key not in self.attention_bias_cache:
            self.attention_bias_cache[key] = self.attention_biases[:, self.attention_bias_idxs]
        return self.attention_bias_cache[key]


class LevitAttention(CachedBiases):
    def __init__(self, dim: int, key_dim: int, num_heads: int, attn_ratio: int, resolution: int) -> None:
        super().__init__(num_heads, resolution)
        self.num_heads = num_heads
        self.scale = key_dim**-0.5
        self.key_dim = key_dim
        self.val_dim = attn_ratio * key_dim
        self.val_attn_dim = self.val_dim * num_heads
        self.qkv = LinearNorm(dim, self.val_attn_dim + 2 * key_dim * num_heads)
        self.proj = nn.Sequential(OrderedDict([("act", nn.Hardswish()), ("ln", LinearNorm(self.val_attn_dim, dim))]))

    def forward(self, x: Tensor) -> Tensor:
        B, N, _ = x.shape
        q, k, v = self.qkv(x).view(B, N, self.num_heads, -1).split([self.key_dim, self.key_dim, self.val_dim], dim=3)
        q = q.permute(0, 2, 1, 3)
        k = k.permute(0, 2, 3, 1)
        v = v.permute(0, 2, 1, 3)
        attn = q @ k * self.scale + self.get_attention_biases(x.device)
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(B, N, self.val_attn_dim)
        return self.proj(x)


class AttentionDownsample(CachedBiases):
    def __init__(
        self, in_dim: int, out_dim: int, key_dim: int, num_heads: int, attn_ratio: int, stride: int, resolution: int
    ) -> None:
        super().__init__(num_heads, resolution, stride)
        self.num_heads = num_heads
        self.scale = key_dim**-0.5
        self.key_dim = key_dim
        self.val_dim = attn_ratio * key_dim
        self.val_attn_dim = self.val_dim * num_heads
        self.kv = LinearNorm(in_dim, self.val_attn_dim + key_dim * num_heads)
        self.q = nn.Sequential(
            OrderedDict([("down", Subsample(stride, resolution)), ("ln", LinearNorm(in_dim, key_dim * num_heads))])
        )
        self.proj = nn.Sequential(
            OrderedDict([("act", nn.Hardswish()), ("ln", LinearNorm(self.val_attn_dim, out_dim))])
        )

    def forward(self, x: Tensor) -> Tensor:
        B, N, _ = x.shape
        k, v = self.kv(x).view(B, N, self.num_heads, -1).split([self.key_dim, self.val_dim], dim=3)
        k = k.permute(0, 2, 3, 1)
        v = v.permute(0, 2, 1, 3)
        q = self.q(x).view(B, -1, self.num_heads, self.key_dim).permute(0, 2, 1, 3)
        attn = q @ k * self.scale + self.get_attention_biases(x.device)
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(B, -1, self.val_attn_dim)
        return self.proj(x)


class LevitMlp(nn.Module):
    def __init__(self, in_features: int, hidden_features: int) -> None:
        super().__init__()
        self.ln1 = LinearNorm(in_features, hidden_features)
        self.act = nn.Hardswish()
        self.drop = nn.Dropout(0.0)
        self.ln2 = LinearNorm(hidden_features, in_features)

    def forward(self, x: Tensor) -> Tensor:
        x = self.ln1(x)
        x = self.act(x)
        x = self.drop(x)
        return self.ln2(x)


class LevitDownsample(nn.Module):
    def __init__(self, in_dim: int, out_dim: int, key_dim: int, num_heads: int, resolution: int) -> None:
        super().__init__()
        self.attn_downsample = AttentionDownsample(in_dim, out_dim, key_dim, num_heads, 4, 2, resolution)
        self.mlp = LevitMlp(out_dim, 2 * out_dim)
        self.drop_path = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = self.attn_downsample(x)
        return x + self.drop_path(self.mlp(x))


class LevitBlock(nn.Module):
    def __init__(self, dim: int, key_dim: int, num_heads: int, resolution: int) -> None:
        super().__init__()
        self.attn = LevitAttention(dim, key_dim, num_heads, 2, resolution)
        self.drop_path1 = nn.Identity()
        self.mlp = LevitMlp(dim, 2 * dim)
        self.drop_path2 = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path1(self.attn(x))
        return x + self.drop_path2(self.mlp(x))


class LevitStage(nn.Module):
    def __init__(
        self, in_dim: int, out_dim: int, key_dim: int, depth: int, num_heads: int, resolution: int, downsample: bool
    ) -> None:
        super().__init__()
        if downsample:
            self.downsample: nn.Module = LevitDownsample(in_dim, out_dim, key_dim, in_dim // key_dim, resolution)
            resolution = (resolution - 1) // 2 + 1
        else:
            self.downsample = nn.Identity()
        self.blocks = nn.Sequential(*[LevitBlock(out_dim, key_dim, num_heads, resolution) for _ in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.downsample(x)
        return self.blocks(x)


class Levit(nn.Module):
    """With the depths of LeViT-128S."""

    def __init__(self, dims: Sequence[int] = (16, 24, 32), depths: Sequence[int] = (2, 3, 4)) -> None:
        super().__init__()
        self.stem = Stem8(3, dims[0])
        resolution, prev_dim = 8, dims[0]
        stages = []
        for i, (dim, depth) in enumerate(zip(dims, depths, strict=True)):
            stages.append(LevitStage(prev_dim, dim, 8, depth, dim // 8, resolution, downsample=i > 0))
            resolution = (resolution - 1) // 2 + 1 if i > 0 else resolution
            prev_dim = dim
        self.stages = nn.Sequential(*stages)
        self.head = NormLinear(dims[-1], 10)
        self.head_dist = NormLinear(dims[-1], 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x.flatten(2).transpose(1, 2)
        x = self.stages(x)
        x = x.mean(dim=1)
        return (self.head(x) + self.head_dist(x)) / 2


# BEiT


def _relative_positions(window: tuple[int, int]) -> Tensor:
    """For each two tokens the row of the table of biases. Its last three rows are for the class token."""
    rows = (2 * window[0] - 1) * (2 * window[1] - 1) + 3
    area = window[0] * window[1]
    places = _places(*window)
    offset = (places[:, :, None] - places[:, None, :]).permute(1, 2, 0).contiguous()
    offset[:, :, 0] += window[0] - 1
    offset[:, :, 1] += window[1] - 1
    offset[:, :, 0] *= 2 * window[1] - 1
    index = torch.zeros((area + 1,) * 2, dtype=offset.dtype)
    index[1:, 1:] = offset.sum(-1)
    index[0, 0:], index[0:, 0], index[0, 0] = rows - 3, rows - 2, rows - 1
    return index


class BeitAttention(nn.Module):
    def __init__(self, dim: int, num_heads: int, window_size: tuple[int, int]) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("k_bias", torch.zeros(dim), persistent=False)
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.window_size = window_size
        self.num_relative_distance = (2 * window_size[0] - 1) * (2 * window_size[1] - 1) + 3
        self.relative_position_bias_table = nn.Parameter(torch.zeros(self.num_relative_distance, num_heads))
        self.register_buffer("relative_position_index", _relative_positions(window_size), persistent=False)
        self.attn_drop = nn.Dropout(0.0)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(0.0)

    def _get_rel_pos_bias(self) -> Tensor:
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        area = self.window_size[0] * self.window_size[1] + 1
        bias = bias.view(area, area, -1).permute(2, 0, 1).contiguous()
        return bias.unsqueeze(0)

    def forward(self, x: Tensor) -> Tensor:
        B, N, C = x.shape
        qkv_bias = torch.cat((self.q_bias, self.k_bias, self.v_bias))
        qkv = F.linear(input=x, weight=self.qkv.weight, bias=qkv_bias)
        qkv = qkv.reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=self._get_rel_pos_bias())
        x = x.transpose(1, 2).reshape(B, N, C)
        x = self.proj(x)
        return self.proj_drop(x)


class BeitBlock(nn.Module):
    def __init__(self, dim: int, num_heads: int, window_size: tuple[int, int]) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = BeitAttention(dim, num_heads, window_size)
        self.drop_path1 = nn.Identity()
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, 4 * dim)
        self.drop_path2 = nn.Identity()
        self.gamma_1 = nn.Parameter(0.1 * torch.ones(dim))
        self.gamma_2 = nn.Parameter(0.1 * torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path1(self.gamma_1 * self.attn(self.norm1(x)))
        return x + self.drop_path2(self.gamma_2 * self.mlp(self.norm2(x)))


class PatchEmbed(nn.Module):
    def __init__(self, patch_size: int, embed_dim: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, embed_dim, patch_size, patch_size)
        self.norm = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = self.proj(x)
        x = x.flatten(2).transpose(1, 2)
        return self.norm(x)


class Beit(nn.Module):
    def __init__(self, embed_dim: int = 24, depth: int = 3, num_heads: int = 4) -> None:
        super().__init__()
        self.patch_embed = PatchEmbed(8, embed_dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_drop = nn.Dropout(0.0)
        self.blocks = nn.ModuleList([BeitBlock(embed_dim, num_heads, (4, 4)) for _ in range(depth)])
        self.norm = nn.Identity()
        self.fc_norm = nn.LayerNorm(embed_dim)
        self.head_drop = nn.Dropout(0.0)
        self.head = nn.Linear(embed_dim, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1)
        x = self.pos_drop(x)
        for blk in self.blocks:
            x = blk(x)
        x = self.norm(x)
        x = x[:, 1:].mean(dim=1)
        x = self.fc_norm(x)
        return self.head(self.head_drop(x))
