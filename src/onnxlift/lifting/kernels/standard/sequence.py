"""Lists of tensors and of string arrays."""

import numpy as np
from torch import Tensor


def without_item(items: list[Tensor], position: int) -> list[Tensor]:
    """The list without the item at `position`, which may count from the end."""
    kept = list(items)
    del kept[position]
    return kept


def take_string_pieces(strings: np.ndarray, pieces: tuple[Tensor, ...]) -> list[np.ndarray]:
    """For each piece an array of the strings at these places of the flattened array."""
    return [strings.reshape(-1)[places.cpu().numpy()] for places in pieces]


def stack_strings(arrays: list[np.ndarray], axis: int) -> np.ndarray:
    """The arrays one after the other along an axis of their own."""
    return np.stack(arrays, axis)
