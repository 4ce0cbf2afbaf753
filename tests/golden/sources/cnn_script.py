"""Lifted from cnn_script.onnx: 13 nodes, opset 17.

Inputs   x          float32  (batch, 3, 16, 16)
Outputs  log_probs  float32  (batch, 10)
Weights  cnn.safetensors: 6,010 parameters
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F


class Cnn(nn.Module):
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


def load(path: str | Path = WEIGHTS, device: str = "cpu", dtype: torch.dtype | None = None) -> Cnn:
    """The model with its weights, ready to run; in their own type, or in `dtype`."""
    with torch.device("meta"):
        model = Cnn()
    model.load_state_dict(load_file(path, device=device), assign=True)
    return model.to(dtype).eval()
