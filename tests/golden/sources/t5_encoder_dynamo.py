"""Lifted from t5_encoder_dynamo.onnx: 145 nodes, opset 20.

Inputs   input_ids          int64    (batch, sequence)
         attention_mask     int64    (batch, sequence)
Outputs  last_hidden_state  float32  (batch, sequence, 32)
Weights  t5_encoder.safetensors: 16,224 parameters
"""

import io
import math
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors.torch import load as load_bytes, load_file
from torch import Tensor, nn
from torch.nn import functional as F


class T5Attention(nn.Module):
    """encoder.block.*.layer.*.SelfAttention"""

    def __init__(self, relative_attention_bias: bool = False) -> None:
        super().__init__()
        self.q = nn.Linear(32, 32, bias=False)
        self.k = nn.Linear(32, 32, bias=False)
        self.v = nn.Linear(32, 32, bias=False)
        self.o = nn.Linear(32, 32, bias=False)
        self.relative_attention_bias = nn.Embedding(32, 4) if relative_attention_bias else None

    def forward(self, x: Tensor, mask: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        q = self.q(x).unflatten(-1, (4, 8)).transpose(1, 2)
        k = self.k(x).unflatten(-1, (4, 8)).transpose(1, 2)
        v = self.v(x).unflatten(-1, (4, 8)).transpose(1, 2)
        if self.relative_attention_bias is not None:
            bias = self.relative_attention_bias(index).permute(2, 0, 1)
            mask = torch.where(mask, bias, torch.finfo(torch.float32).min)
        attn = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)
        return self.o(attn.transpose(1, 2).flatten(2)), mask


class T5LayerSelfAttention(nn.Module):
    """encoder.block.0.layer.0, encoder.block.1.layer.0"""

    def __init__(self, relative_attention_bias: bool = False) -> None:
        super().__init__()
        self.SelfAttention = T5Attention(relative_attention_bias)
        self.layer_norm = nn.RMSNorm(32, eps=1e-6)

    def forward(self, x: Tensor, mask: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        attn, mask = self.SelfAttention(self.layer_norm(x), mask, index)
        return x + attn, mask


class T5DenseActDense(nn.Module):
    """encoder.block.*.layer.*.DenseReluDense"""

    def __init__(self) -> None:
        super().__init__()
        self.wi = nn.Linear(32, 48, bias=False)
        self.wo = nn.Linear(48, 32, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.wo(F.relu(self.wi(x)))


class T5LayerFF(nn.Module):
    """encoder.block.0.layer.1, encoder.block.1.layer.1"""

    def __init__(self) -> None:
        super().__init__()
        self.DenseReluDense = T5DenseActDense()
        self.layer_norm = nn.RMSNorm(32, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.DenseReluDense(self.layer_norm(x))


class T5Block(nn.Module):
    """encoder.block.0, encoder.block.1"""

    def __init__(self, relative_attention_bias: bool = False) -> None:
        super().__init__()
        self.layer = nn.ModuleList([T5LayerSelfAttention(relative_attention_bias), T5LayerFF()])

    def forward(self, x: Tensor, mask: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        x, mask = self.layer[0](x, mask, index)
        return self.layer[1](x), mask


class T5Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(50, 32)
        self.block = nn.ModuleList([T5Block(relative_attention_bias=True), T5Block()])
        self.final_layer_norm = nn.RMSNorm(32, eps=1e-6)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embed_tokens(input_ids)
        mask = attention_mask.bool()[:, None, None]
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        offsets = positions - positions.unsqueeze(1)
        distance = offsets.abs()
        y = (((distance.float() / 8).log() / math.log(16) * 8).long() + 8).clamp(max=15)
        index = (offsets > 0).long() * 16 + torch.where(distance < 8, distance, y)
        for block in self.block:
            x, mask = block(x, mask, index)
        return self.final_layer_norm(x)


class T5Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Embedding(50, 32)
        self.encoder = T5Stack()
        self.tie_weights()

    def tie_weights(self) -> None:
        self.encoder.embed_tokens.weight = self.shared.weight

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.encoder(input_ids, attention_mask)


WEIGHTS = Path(__file__).with_name("t5_encoder.safetensors")


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


def under_all_names(weights: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The weights, and those that are one under each of their names: files hold them once."""
    names = dict(model.named_parameters(remove_duplicate=False))
    held = {names[name]: weights[name] for name in weights if name in names}
    return weights | {
        name: held[parameter] for name, parameter in names.items() if parameter in held
    }


def load(
    path: str | Path | bytes | BinaryIO | dict[str, Tensor] | None = WEIGHTS,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
) -> T5Encoder:
    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""
    with torch.device(device if path is None else "meta"):
        model = T5Encoder()
    if path is not None:
        model.load_state_dict(under_all_names(read_weights(path, device), model), assign=True)
        model.tie_weights()
    return model.to(dtype).eval()
