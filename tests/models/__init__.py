"""Models for the tests, built on the spot: nothing is downloaded and nothing is stored.

`handmade` builds with `onnx.helper`, `torch_models` exports torch modules. No weight of any of them is trivially zero
or one, since a lost bias or a skipped norm would then go unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

Inputs = dict[str, np.ndarray]


BATCHES = (1, 3, 5)
"""The batch sizes of the samples. Exporters are shown another one, so that a size baked in on the way is noticed."""


@dataclass(frozen=True)
class Example:
    """A model, how to build it, and what to feed it."""

    model: str
    build: Callable[[], onnx.ModelProto]
    samples: Callable[[], tuple[Inputs, ...]]
    exporter: str = ""
    data_dependent: bool = False
    """Its values decide which code runs, which no single graph of torch can hold."""
    recurrent: bool = False
    """Its sequences are (batch, time) and go through a layer that torch.export unrolls, so time is fixed by it."""

    @property
    def name(self) -> str:
        return f"{self.model}_{self.exporter}" if self.exporter else self.model

    def __str__(self) -> str:
        return self.name
