"""Lifted from cnn_dynamo.onnx: 26 nodes, opset 20.

Inputs   x          float32  (batch, 3, 16, 16)
Outputs  log_probs  float32  (batch, 10)
Weights  cnn.safetensors: 6,010 parameters
"""

import io
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors.torch import load as load_bytes, load_file
from torch import Tensor, nn
from torch.nn import functional as F


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 12, 3, padding=1, bias=False),
            nn.BatchNorm2d(12),
            nn.ReLU(),
            nn.AvgPool2d(2),
        )
        self.fc1 = nn.Linear(192, 24)
        self.fc2 = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.fc1(self.features(x).flatten(1)))
        return self.fc2(x).log_softmax(-1)


WEIGHTS = Path(__file__).with_name("cnn.safetensors")


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
) -> CNN:
    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""
    with torch.device(device if path is None else "meta"):
        model = CNN()
    if path is not None:
        model.load_state_dict(read_weights(path, device), assign=True)
    return model.to(dtype).eval()
