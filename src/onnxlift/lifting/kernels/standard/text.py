"""Strings, which are numpy arrays of objects."""

import re

import numpy as np
import torch
from torch import Tensor


def join_strings(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Each string of `a` with that of `b` behind it."""
    return np.asarray(a + b, dtype=object)


def match_strings(strings: np.ndarray, pattern: str) -> Tensor:
    """Tell which strings the pattern matches as a whole."""
    found = [re.fullmatch(pattern, text) is not None for text in strings.flat]
    return torch.tensor(found, dtype=torch.bool).reshape(strings.shape)


def split_strings(strings: np.ndarray, delimiter: str | None = None, most: int = -1) -> tuple[np.ndarray, Tensor]:
    """The parts of each string along a new last axis, filled up with empty strings, and how many parts there are.
    Split at every delimiter, or only at the first `most`; at white space if there is no delimiter."""
    parts = [text.split(delimiter, most) for text in strings.flat]
    counts = [len(own) for own in parts]
    longest = max(counts, default=0)
    filled = [text for own in parts for text in own + [""] * (longest - len(own))]
    result = np.array(filled, dtype=object).reshape(*strings.shape, longest)
    return result, torch.tensor(counts, dtype=torch.int64).reshape(strings.shape)


def normalize_strings(
    strings: np.ndarray, stopwords: tuple[str, ...] = (), case_sensitive: bool = False, case: str = "NONE"
) -> np.ndarray:
    """A row of strings without the stop words, all lower or upper case if `case` says so. If nothing is left, one
    empty string."""
    unwanted = set(stopwords) if case_sensitive else {word.lower() for word in stopwords}
    kept = [text for text in strings.flat if (text if case_sensitive else text.lower()) not in unwanted]
    if case != "NONE":
        kept = [text.lower() if case == "LOWER" else text.upper() for text in kept]
    return np.array(kept or [""], dtype=object).reshape(*strings.shape[:-1], -1)


def count_ngrams(
    items: Tensor | np.ndarray,
    pool: list[tuple[object, ...]],
    lengths: list[int],
    most_skipped: int,
    device: torch.device,
) -> Tensor:
    """For each row of items (or for the only one) how often each n-gram of the pool occurs. The items of an n-gram
    follow one another at equal distances, with up to `most_skipped` others in between."""
    place = {ngram: i for i, ngram in enumerate(pool)}
    rows = items.tolist() if items.ndim == 2 else [items.tolist()]
    counts = torch.zeros(len(rows), len(pool), device=device)
    for number, row in enumerate(rows):
        for length in lengths:
            # Single items are the same at every distance.
            for step in range(1, min(most_skipped + 1, len(row)) + 1 if length > 1 else 2):
                for start in range(len(row) - (length - 1) * step):
                    found = place.get(tuple(row[start : start + (length - 1) * step + 1 : step]))
                    if found is not None:
                        counts[number, found] += 1
    return counts if items.ndim == 2 else counts[0]


def add_at(x: Tensor, places: list[int], size: int) -> Tensor:
    """The numbers of `x` added up at `places` of a last axis of `size`."""
    return x.new_zeros(*x.shape[:-1], size).index_add(-1, torch.tensor(places, device=x.device), x)
