"""Lifted from mlp_dynamo.onnx: 6 nodes, opset 20.

Inputs   x      float32  (batch, 12)
Outputs  probs  float32  (batch, 5)
Weights  mlp.safetensors: 1,013 parameters
"""

import io
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors.torch import load as load_bytes, load_file
from torch import Tensor, nn


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16, bias=False), nn.Tanh(), nn.Linear(16, 5)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).softmax(-1)


WEIGHTS = Path(__file__).with_name("mlp.safetensors")


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
) -> MLP:
    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""
    with torch.device(device if path is None else "meta"):
        model = MLP()
    if path is not None:
        model.load_state_dict(read_weights(path, device), assign=True)
    return model.to(dtype).eval()
