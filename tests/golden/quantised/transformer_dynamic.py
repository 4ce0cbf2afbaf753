"""Lifted from transformer_dynamic.onnx: 139 nodes, opset 17.

Inputs   input_ids          int64    (batch, sequence)
         attention_mask     int64    (batch, sequence)
Outputs  last_hidden_state  float32  (batch, sequence, 32)
Weights  transformer_dynamic.safetensors: 736 parameters
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


def to_integer(
    x: Tensor, zero_point: Tensor | int = 0, dtype: torch.dtype = torch.uint8, bits: int = 0
) -> Tensor:
    """`x` rounded (halves to even), moved by `zero_point`, and limited to the numbers of `dtype`,
    or of fewer bits."""
    x = x.round().float() + torch.as_tensor(zero_point, dtype=torch.float32, device=x.device)
    limits = torch.iinfo(dtype)
    unused = limits.bits - bits if bits else 0
    return x.clamp(limits.min >> unused, limits.max >> unused).to(dtype)


def dynamic_quantize(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`x` in uint8, with the scale and the zero point that just cover its range and zero."""
    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = torch.where(high > low, (high - low) / 255, 1.0)
    zero_point = (-low / scale).clamp(0, 255).round()
    return to_integer(x / scale, zero_point), scale, zero_point.to(torch.uint8)


def matmul_integer(
    a: Tensor, b: Tensor, a_zero: Tensor | int = 0, b_zero: Tensor | int = 0
) -> Tensor:
    """The product of 8-bit integers in int32. It is computed in float64, where it is exact, and
    which every device multiplies fast."""
    return ((a.double() - a_zero) @ (b.double() - b_zero)).to(torch.int32)


class DynamicQuantizedLinear(IntegerLinear):
    """nn.Linear that multiplies integers: its input is quantised to the range that it has."""

    def forward(self, x: Tensor) -> Tensor:
        x, scale, zero_point = dynamic_quantize(x)
        x = matmul_integer(x, self.weight.T, zero_point, self.zero_point.flatten())
        x = x.float() * (scale * self.scale.flatten())
        return x if self.bias is None else x + self.bias


def dequantize(x: Tensor, scale: Tensor | float, zero_point: Tensor | int) -> Tensor:
    """`(x - zero_point) * scale`"""
    return (x.float() - zero_point) * scale


class QuantizedEmbedding(nn.Module):
    """nn.Embedding with a table of integers."""

    weight: Tensor
    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        per_channel: bool = False,
        signed: bool = True,
    ) -> None:
        super().__init__()
        self.per_channel = per_channel  # a scale for each row
        store_integers(
            self,
            (num_embeddings, embedding_dim),
            (num_embeddings, 1) if per_channel else (),
            signed,
        )

    def forward(self, indices: Tensor) -> Tensor:
        steps = (self.scale, self.zero_point)
        scale, zero_point = (step[indices] for step in steps) if self.per_channel else steps
        return dequantize(self.weight[indices], scale, zero_point)


class Embeddings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.LayerNorm = nn.LayerNorm(32, eps=1e-12)
        self.word_embeddings = QuantizedEmbedding(50, 32, signed=False)
        self.token_type_embeddings = QuantizedEmbedding(2, 32, signed=False)
        self.position_embeddings = QuantizedEmbedding(32, 32, signed=False)

    def forward(self, input_ids: Tensor) -> Tensor:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        x = self.token_type_embeddings(torch.zeros_like(input_ids))
        x = self.word_embeddings(input_ids) + x + self.position_embeddings(positions)
        return self.LayerNorm(x)


class SelfAttention(nn.Module):
    """encoder.layer.0.attention.self, encoder.layer.1.attention.self"""

    def __init__(self) -> None:
        super().__init__()
        self.query = DynamicQuantizedLinear(32, 32, per_channel=True)
        self.key = DynamicQuantizedLinear(32, 32, per_channel=True)
        self.value = DynamicQuantizedLinear(32, 32, per_channel=True)

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
        self.dense = DynamicQuantizedLinear(in_dim, 32, per_channel=True)
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
        self.dense = DynamicQuantizedLinear(32, 48, per_channel=True)

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


class TransformerDynamic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embeddings = Embeddings()
        self.encoder = Encoder()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embeddings(input_ids)
        return self.encoder(x, attention_mask.bool()[:, None, None])


WEIGHTS = Path(__file__).with_name("transformer_dynamic.safetensors")


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
) -> TransformerDynamic:
    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""
    with torch.device(device if path is None else "meta"):
        model = TransformerDynamic()
    if path is None:
        keep_buffers(model, read_weights(WEIGHTS, device))
    else:
        model.load_state_dict(read_weights(path, device), assign=True)
    return model.to(dtype).eval()
