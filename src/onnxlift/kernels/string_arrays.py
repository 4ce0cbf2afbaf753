"""Kernels that move strings, which are numpy arrays of objects."""

from typing import Any

import torch
from torch import Tensor


def positions(strings: Any) -> Tensor:
    """For each string its place in the flattened array."""
    return torch.arange(strings.size).reshape(strings.shape)


def take_strings(strings: Any, places: Tensor) -> Any:
    """The strings at `places` of the flattened array, in the shape of `places`."""
    return strings.reshape(-1)[places.reshape(-1).numpy()].reshape(tuple(places.shape))
