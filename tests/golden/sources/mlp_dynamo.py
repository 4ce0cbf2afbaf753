"""Lifted from mlp_dynamo.onnx: 6 nodes, opset 20.

Inputs   x      float32  (batch, 12)
Outputs  probs  float32  (batch, 5)
Weights  mlp.safetensors: 1,013 parameters
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
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


def load(path: str | Path = WEIGHTS, device: str = "cpu", dtype: torch.dtype | None = None) -> MLP:
    """The model with its weights, ready to run; in their own type, or in `dtype`."""
    with torch.device("meta"):
        model = MLP()
    model.load_state_dict(load_file(path, device=device), assign=True)
    return model.to(dtype).eval()
