"""Lifted from llama_script.onnx: 568 nodes, opset 17.

Inputs   input_ids       int64    (batch, sequence)
         attention_mask  int64    (batch, sequence)
Outputs  logits          float32  (batch, sequence, 50)
Weights  llama.safetensors: 18,720 parameters
"""

import io
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors.torch import load as load_bytes, load_file
from torch import Tensor, nn
from torch.nn import functional as F


def rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Features turned by the angles of their positions, the first half with the second."""
    return x * cos + rotate_half(x) * sin


class RotaryEmbedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inv_freq", torch.empty(4), persistent=False)

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        x = positions[None, :, None].float() * self.inv_freq
        x = torch.cat((x, x), -1)
        return x.cos(), x.sin()


class SelfAttention(nn.Module):
    """model.layers.0.self_attn, model.layers.1.self_attn"""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(32, 32, bias=False)
        self.k_proj = nn.Linear(32, 16, bias=False)
        self.v_proj = nn.Linear(32, 16, bias=False)
        self.o_proj = nn.Linear(32, 32, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        q = self.q_proj(x).unflatten(-1, (4, 8)).transpose(1, 2)
        k = self.k_proj(x).unflatten(-1, (2, 8)).transpose(1, 2)
        v = self.v_proj(x).unflatten(-1, (2, 8)).transpose(1, 2)
        q = apply_rotary(q, cos, sin)
        k = apply_rotary(k, cos, sin)
        attn = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.o_proj(attn.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """model.layers.0.mlp, model.layers.1.mlp"""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(32, 48, bias=False)
        self.up_proj = nn.Linear(32, 48, bias=False)
        self.down_proj = nn.Linear(48, 32, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """model.layers.0, model.layers.1"""

    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(32, eps=1e-6)
        self.self_attn = SelfAttention()
        self.post_attention_layernorm = nn.RMSNorm(32, eps=1e-6)
        self.mlp = MLP()

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(50, 32)
        self.rotary_emb = RotaryEmbedding()
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm = nn.RMSNorm(32, eps=1e-6)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embed_tokens(input_ids)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        mask = (positions <= positions.unsqueeze(1)) & attention_mask.bool()[:, None, None]
        cos, sin = self.rotary_emb(positions)
        cos = cos.unsqueeze(1)
        sin = sin.unsqueeze(1)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.norm(x)


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.lm_head = nn.Linear(32, 50, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.model(input_ids, attention_mask)
        return self.lm_head(x)


WEIGHTS = Path(__file__).with_name("llama.safetensors")
CONSTANTS = Path(__file__).with_name("llama.constants.safetensors")


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
) -> Llama:
    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""
    with torch.device(device if path is None else "meta"):
        model = Llama()
    if path is not None:
        model.load_state_dict(read_weights(path, device), assign=True)
    for name, constant in load_file(CONSTANTS, device=device).items():
        owner, _, buffer = name.rpartition(".")
        model.get_submodule(owner).register_buffer(buffer, constant, persistent=False)
    return model.to(dtype).eval()
