"""Kernels that move strings, which are numpy arrays of objects."""

import numpy as np
import torch
from torch import Tensor

from .sort import unique_with_places


def string_places(strings: np.ndarray, *before: np.ndarray) -> Tensor:
    """For each string its place in the flattened array, which comes after those `before`."""
    start = sum(other.size for other in before)
    return torch.arange(start, start + strings.size).reshape(strings.shape)


def all_strings(*arrays: np.ndarray) -> np.ndarray:
    """The strings of all the arrays in a row."""
    return np.concatenate([strings.reshape(-1) for strings in arrays])


def take_strings(strings: np.ndarray, places: Tensor) -> np.ndarray:
    """The strings at `places` of the flattened array, in the shape of `places`."""
    taken: np.ndarray = strings.reshape(-1)[places.reshape(-1).cpu().numpy()]
    return taken.reshape(tuple(places.shape))


def take_strings_or_empty(strings: np.ndarray, places: Tensor) -> np.ndarray:
    """The strings at `places` of the flattened array, counted from 1; an empty one where the place is 0."""
    return take_strings(np.concatenate([[""], strings.reshape(-1)]), places)


def concatenate_strings(arrays: tuple[np.ndarray, ...], axis: int) -> np.ndarray:
    """The arrays one after the other along `axis`."""
    return np.concatenate(arrays, axis)


def unique_strings(strings: np.ndarray, ordered: bool = True) -> tuple[np.ndarray, Tensor, Tensor, Tensor]:
    """The distinct strings, where each occurs first, which of them each string is, and how often each occurs: in
    ascending order, or in that of first occurrence."""
    words = strings.reshape(-1).tolist()
    first: dict[str, int] = {}
    for place, word in enumerate(words):
        first.setdefault(word, place)
    distinct = sorted(first) if ordered else list(first)
    number = {word: i for i, word in enumerate(distinct)}
    inverse = torch.tensor([number[word] for word in words], dtype=torch.int64)
    places = torch.tensor([first[word] for word in distinct], dtype=torch.int64)
    return np.array(distinct, dtype=object), places, inverse, inverse.bincount(minlength=len(distinct))


def unique_string_slices(
    strings: np.ndarray, axis: int, ordered: bool = True
) -> tuple[np.ndarray, Tensor, Tensor, Tensor]:
    """The same of the slices along `axis`, compared string by string."""
    words, _, numbers, _ = unique_strings(strings)
    slices, first, inverse, counts = unique_with_places(numbers.reshape(strings.shape), axis, ordered)
    return take_strings(words, slices), first, inverse, counts
