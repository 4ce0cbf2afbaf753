"""Lifted from vit.onnx: 105 nodes, opset 20.

Inputs   x       float32  (batch, 3, 32, 32)
Outputs  logits  float32  (batch, 10)
Weights  vit.safetensors: 15,106 parameters
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F


class MultiheadAttention(nn.Module):
    """blocks.0.attn, blocks.1.attn"""

    def __init__(self) -> None:
        super().__init__()
        self.in_proj = nn.Linear(24, 72)
        self.out_proj = nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        x = self.in_proj(x.transpose(0, 1)).unflatten(-1, (3, 24)).unsqueeze(0)
        x = x.transpose(0, 3).squeeze(3)
        q = x[0].reshape(17, -1, 6).transpose(0, 1).unflatten(0, (-1, 4))
        k = x[1].reshape(17, -1, 6).transpose(0, 1).unflatten(0, (-1, 4))
        v = x[2].reshape(17, -1, 6).transpose(0, 1).unflatten(0, (-1, 4))
        attn = F.scaled_dot_product_attention(q, k, v).permute(2, 0, 1, 3)
        return self.out_proj(attn.flatten(2)).transpose(0, 1)


class EncoderLayer(nn.Module):
    """blocks.0, blocks.1"""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(24)
        self.attn = MultiheadAttention()
        self.norm2 = nn.LayerNorm(24, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Identity(), nn.Linear(48, 24))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.empty(1, 1, 24))
        self.pos_embed = nn.Parameter(torch.empty(1, 17, 24))
        self.patch_embed = nn.Conv2d(3, 24, 8, stride=8)
        self.blocks = nn.ModuleList(EncoderLayer() for _ in range(2))
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        patch_embed = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), patch_embed), 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


WEIGHTS = Path(__file__).with_name("vit.safetensors")


def load(path: str | Path = WEIGHTS, device: str = "cpu") -> ViT:
    """The model with its weights, ready to run."""
    with torch.device("meta"):
        model = ViT()
    model.load_state_dict(load_file(path, device=device), assign=True)
    return model.eval()
