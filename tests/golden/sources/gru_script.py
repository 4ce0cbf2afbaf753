"""Lifted from gru_script.onnx: 18 nodes, opset 17.

Inputs   tokens     int64    (batch, sequence)
Outputs  log_probs  float32  (batch, sequence, 7)
Weights  gru.safetensors: 1,397 parameters
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn


class Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.gru = nn.GRU(12, 10, batch_first=True)
        self.fc = nn.Linear(10, 7)

    def forward(self, tokens: Tensor) -> Tensor:
        x, _ = self.gru(self.embedding(tokens))
        return self.fc(x).log_softmax(-1)


WEIGHTS = Path(__file__).with_name("gru.safetensors")


def load(path: str | Path = WEIGHTS, device: str = "cpu", dtype: torch.dtype | None = None) -> Gru:
    """The model with its weights, ready to run; in their own type, or in `dtype`."""
    with torch.device("meta"):
        model = Gru()
    model.load_state_dict(load_file(path, device=device), assign=True)
    return model.to(dtype).eval()
