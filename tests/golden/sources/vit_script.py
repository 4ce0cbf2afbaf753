"""Lifted from vit_script.onnx: 359 nodes, opset 17.

Inputs   x       float32  (batch, 3, 32, 32)
Outputs  logits  float32  (batch, 10)
Weights  vit.safetensors: 15,106 parameters
"""

import io
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors.torch import load as load_bytes, load_file
from torch import Tensor, nn


class Block(nn.Module):
    """blocks.0, blocks.1"""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(24)
        self.attn = nn.MultiheadAttention(24, 4, batch_first=True)
        self.norm2 = nn.LayerNorm(24, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Identity(), nn.Linear(48, 24))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.empty(1, 1, 24))
        self.pos_embed = nn.Parameter(torch.empty(1, 17, 24))
        self.patch_embed = nn.Conv2d(3, 24, 8, stride=8)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


WEIGHTS = Path(__file__).with_name("vit.safetensors")


def initialise(model: nn.Module) -> None:
    """Give the parameters that belong to no layer of PyTorch small random values."""
    for module in model.modules():
        if not hasattr(module, "reset_parameters"):
            for name, parameter in module.named_parameters(recurse=False):
                if not name.startswith("original"):  # a layer computes its weight from it
                    nn.init.normal_(parameter, std=0.02)


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
) -> Vit:
    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""
    with torch.device(device if path is None else "meta"):
        model = Vit()
    if path is None:
        initialise(model)
    else:
        model.load_state_dict(read_weights(path, device), assign=True)
    return model.to(dtype).eval()
