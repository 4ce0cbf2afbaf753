"""Networks over vectors and sequences of tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16, bias=False), nn.Tanh(), nn.Linear(16, 5)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).softmax(-1)


class LSTMClassifier(nn.Module):
    def __init__(self, wide: int = 1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 12 * wide)
        self.lstm = nn.LSTM(12 * wide, 10 * wide, num_layers=2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(20 * wide, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        _, (h, _) = self.lstm(self.embedding(tokens))
        return self.fc(torch.cat([h[-2], h[-1]], dim=1))


class GRUTagger(nn.Module):
    def __init__(self, wide: int = 1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 12 * wide)
        self.gru = nn.GRU(12 * wide, 10 * wide, batch_first=True)
        self.fc = nn.Linear(10 * wide, 7)

    def forward(self, tokens: Tensor) -> Tensor:
        y, _ = self.gru(self.embedding(tokens))
        return self.fc(y).log_softmax(-1)
