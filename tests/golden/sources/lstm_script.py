"""Lifted from lstm_script.onnx: 39 nodes, opset 17.

Inputs   tokens  int64    (batch, sequence)
Outputs  logits  float32  (batch, 4)
Weights  lstm.safetensors: 5,164 parameters
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.lstm = nn.LSTM(12, 10, num_layers=2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(20, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        _, (h, _) = self.lstm(self.embedding(tokens))
        return self.fc(torch.cat((h[-2], h[-1]), 1))


WEIGHTS = Path(__file__).with_name("lstm.safetensors")


def load(path: str | Path = WEIGHTS, device: str = "cpu", dtype: torch.dtype | None = None) -> Lstm:
    """The model with its weights, ready to run; in their own type, or in `dtype`."""
    with torch.device("meta"):
        model = Lstm()
    model.load_state_dict(load_file(path, device=device), assign=True)
    return model.to(dtype).eval()
