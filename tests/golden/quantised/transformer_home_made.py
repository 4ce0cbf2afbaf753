"""Lifted from transformer_home_made.onnx: 304 nodes, opset 17.

Inputs   input_ids          int64    (batch, sequence)
         attention_mask     int64    (batch, sequence)
Outputs  last_hidden_state  float32  (batch, sequence, 32)
Weights  transformer_home_made.safetensors: 3,424 parameters
"""

import io
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors.torch import load as load_bytes, load_file
from torch import Tensor, nn
from torch.nn import functional as F


def store_integers(
    layer: nn.Module, shape: tuple[int, ...], steps: tuple[int, ...], signed: bool
) -> None:
    """Give a layer a weight of integers, each of which stands for `(weight - zero_point) * scale`.
    Scale and zero point have the shape `steps`."""
    dtype = torch.int8 if signed else torch.uint8
    layer.register_buffer("weight", torch.empty(shape, dtype=dtype))
    layer.register_buffer("scale", torch.empty(steps))
    layer.register_buffer("zero_point", torch.empty(steps, dtype=dtype))


class IntegerLinear(nn.Module):
    """The members of an nn.Linear with a weight of integers."""

    weight: Tensor
    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        per_channel: bool = False,
        signed: bool = True,
    ) -> None:
        super().__init__()
        store_integers(
            self, (out_features, in_features), (out_features if per_channel else 1, 1), signed
        )
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None


def dequantize(x: Tensor, scale: Tensor | float, zero_point: Tensor | int) -> Tensor:
    """`(x - zero_point) * scale`"""
    return (x.float() - zero_point) * scale


class QuantizedLinear(IntegerLinear):
    """nn.Linear with a weight of integers, which are turned into numbers first."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, dequantize(self.weight, self.scale, self.zero_point), self.bias)


class Embeddings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(50, 32)
        self.position_embeddings = nn.Embedding(32, 32)
        self.token_type_embeddings = nn.Embedding(2, 32)
        self.LayerNorm = nn.LayerNorm(32, eps=1e-12)

    def forward(self, input_ids: Tensor) -> Tensor:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        x = self.token_type_embeddings(torch.zeros_like(input_ids))
        x = self.word_embeddings(input_ids) + x + self.position_embeddings(positions)
        return self.LayerNorm(x)


class SelfAttention(nn.Module):
    """encoder.layer.0.attention.self, encoder.layer.1.attention.self"""

    def __init__(self) -> None:
        super().__init__()
        self.query = QuantizedLinear(32, 32, per_channel=True)
        self.key = QuantizedLinear(32, 32, per_channel=True)
        self.value = QuantizedLinear(32, 32, per_channel=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query = self.query(x).unflatten(-1, (4, 8)).transpose(1, 2)
        key = self.key(x).unflatten(-1, (4, 8)).transpose(1, 2)
        value = self.value(x).unflatten(-1, (4, 8)).transpose(1, 2)
        attn = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return attn.transpose(1, 2).flatten(2)


class Output(nn.Module):
    """encoder.layer.*.attention.output, encoder.layer.*.output"""

    def __init__(self, in_dim: int) -> None:
        super().__init__()
        self.dense = QuantizedLinear(in_dim, 32, per_channel=True)
        self.LayerNorm = nn.LayerNorm(32, eps=1e-12)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(x) + residual)


class Attention(nn.Module):
    """encoder.layer.0.attention, encoder.layer.1.attention"""

    def __init__(self) -> None:
        super().__init__()
        self.self = SelfAttention()
        self.output = Output(32)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.output(self.self(x, mask), x)


class Intermediate(nn.Module):
    """encoder.layer.0.intermediate, encoder.layer.1.intermediate"""

    def __init__(self) -> None:
        super().__init__()
        self.dense = QuantizedLinear(32, 48, per_channel=True)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.dense(x))


class EncoderLayer(nn.Module):
    """encoder.layer.0, encoder.layer.1"""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.intermediate = Intermediate()
        self.output = Output(48)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.ModuleList(EncoderLayer() for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layer:
            x = layer(x, mask)
        return x


class TransformerHomeMade(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embeddings = Embeddings()
        self.encoder = Encoder()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embeddings(input_ids)
        return self.encoder(x, attention_mask.bool()[:, None, None])


WEIGHTS = Path(__file__).with_name("transformer_home_made.safetensors")


def keep_buffers(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Give a model the buffers that are no statistics: tables, masks, and weights of integers."""
    for name, tensor in weights.items():
        owner, _, buffer = name.rpartition(".")
        module = model.get_submodule(owner)
        is_buffer = buffer in dict(module.named_buffers(recurse=False))
        if is_buffer and not hasattr(module, "reset_parameters"):
            module.register_buffer(buffer, tensor)


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
) -> TransformerHomeMade:
    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""
    with torch.device(device if path is None else "meta"):
        model = TransformerHomeMade()
    if path is None:
        keep_buffers(model, read_weights(WEIGHTS, device))
    else:
        model.load_state_dict(read_weights(path, device), assign=True)
    return model.to(dtype).eval()
