"""Lifted from transformer_4_bits.onnx: 92 nodes, opset 17.

Inputs   input_ids          int64    (batch, sequence)
         attention_mask     int64    (batch, sequence)
Outputs  last_hidden_state  float32  (batch, sequence, 32)
Weights  transformer_4_bits.safetensors: 3,424 parameters
"""

import io
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors.torch import load as load_bytes, load_file
from torch import Tensor, nn
from torch.nn import functional as F


def unpack_bits(packed: Tensor, bits: int) -> Tensor:
    """The numbers of so many bits in each byte of the last axis, the lowest bits first."""
    if bits == 8:
        return packed
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8, device=packed.device)
    return (packed[..., None] >> shifts & 2**bits - 1).flatten(-2)


def dequantize_blocks(
    packed: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    bits: int = 4,
    features: int | None = None,
) -> Tensor:
    """The weight of a linear layer, of shape (outputs, features), from (outputs, blocks, bytes):
    each block of a row has a scale and a zero point of its own."""
    numbers = unpack_bits(packed, bits)
    rows, blocks = packed.shape[:2]
    zero: Tensor | int = 2 ** (bits - 1)
    if zero_points is not None and zero_points.dtype == torch.uint8:
        zero = unpack_bits(zero_points.reshape(rows, -1), bits)[:, :blocks, None]
    elif zero_points is not None:
        zero = zero_points.reshape(rows, blocks, 1)
    return ((numbers.to(scales.dtype) - zero) * scales.reshape(rows, blocks, 1)).flatten(1)[
        :, :features
    ]


class BlockQuantizedLinear(nn.Module):
    """nn.Linear with a weight of a few bits, packed into bytes. Each block of a row has a scale of
    its own, and perhaps a zero point."""

    weight: Tensor
    scales: Tensor
    zero_points: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        block_size: int = 32,
        bits: int = 4,
        zero_points: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.in_features, self.bits = in_features, bits
        blocks = -(-in_features // block_size)
        packed = -(-blocks * bits // 8)
        self.register_buffer(
            "weight", torch.empty(out_features, blocks, block_size * bits // 8, dtype=torch.uint8)
        )
        self.register_buffer("scales", torch.empty(out_features, blocks))
        zeros = torch.empty(out_features, packed, dtype=torch.uint8) if zero_points else None
        self.register_buffer("zero_points", zeros)
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        weight = dequantize_blocks(
            self.weight, self.scales, self.zero_points, self.bits, self.in_features
        )
        return F.linear(x, weight, self.bias)


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
        self.query = BlockQuantizedLinear(32, 32, zero_points=True, bias=True)
        self.key = BlockQuantizedLinear(32, 32, zero_points=True, bias=True)
        self.value = BlockQuantizedLinear(32, 32, zero_points=True, bias=True)

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
        self.dense = BlockQuantizedLinear(in_dim, 32, zero_points=True, bias=True)
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
        self.dense = BlockQuantizedLinear(32, 48, zero_points=True, bias=True)

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


class Transformer4Bits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embeddings = Embeddings()
        self.encoder = Encoder()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embeddings(input_ids)
        return self.encoder(x, attention_mask.bool()[:, None, None])


WEIGHTS = Path(__file__).with_name("transformer_4_bits.safetensors")


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
) -> Transformer4Bits:
    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""
    with torch.device(device if path is None else "meta"):
        model = Transformer4Bits()
    if path is None:
        keep_buffers(model, read_weights(WEIGHTS, device))
    else:
        model.load_state_dict(read_weights(path, device), assign=True)
    return model.to(dtype).eval()
