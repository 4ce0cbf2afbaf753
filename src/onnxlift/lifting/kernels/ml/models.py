"""Scores, encodings and maps of ai.onnx.ml. Strings are numpy arrays of objects, maps are dicts."""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


def probit(x: Tensor) -> Tensor:
    """The inverse of the normal distribution, by Winitzki's formula, which is what ONNX Runtime computes."""
    odd = 2 * x - 1
    log = ((1 - odd) * (1 + odd)).log()
    half = 2 / (math.pi * 0.147) + 0.5 * log
    return math.sqrt(2) * odd.sign() * ((half * half - log / 0.147).sqrt() - half).sqrt()


def softmax_zero(x: Tensor) -> Tensor:
    """Softmax over the last axis in which zeros take no part and stay (nearly) zero."""
    peak = x.amax(-1, keepdim=True)
    counts = x.abs() > 1e-7
    parts = torch.where(counts, (x - peak).exp(), x * (-peak).exp())
    return parts / (parts * counts).sum(-1, keepdim=True)


def divide_by_max(x: Tensor) -> Tensor:
    """Each row divided by its largest element, unless that is zero."""
    largest = x.amax(-1, keepdim=True)
    return x / largest.masked_fill(largest == 0, 1)


def rbf(x: Tensor, vectors: Tensor, gamma: float) -> Tensor:
    """exp(-gamma * d^2) for the distance d of each row to each vector."""
    distance = torch.cdist(x, vectors, compute_mode="donot_use_mm_for_euclid_dist")
    return (-gamma * distance.square()).exp()


def count_votes(scores: Tensor, first: Tensor, second: Tensor, classes: int) -> Tensor:
    """Count the pairs that each class wins: a score above zero is for the first class of its pair."""
    winners = torch.where(scores > 0, first, second)
    return F.one_hot(winners, classes).sum(1)


def pairwise_probabilities(scores: Tensor, first: Tensor, second: Tensor, classes: int) -> Tensor:
    """The probabilities of the classes from the (negated) logits of the pairs, coupled by the method of Wu, Lin and
    Weng (2004), stopped as early as ONNX Runtime stops."""
    wins = scores.neg().sigmoid().clamp(1e-7, 1 - 1e-7)
    r = scores.new_zeros(scores.shape[0], classes, classes)
    r[:, first, second] = wins
    r[:, second, first] = 1 - wins
    q = -r * r.mT
    q = q + torch.diag_embed(r.square().sum(1))
    p = scores.new_full((scores.shape[0], classes), 1 / classes)
    unit = torch.eye(classes, dtype=p.dtype, device=p.device)
    for _ in range(100):
        qp = (q @ p.unsqueeze(-1)).squeeze(-1)
        pqp = (p * qp).sum(-1, keepdim=True)
        running = (qp - pqp).abs().amax(-1, keepdim=True) >= 0.005 / classes
        if not torch.compiler.is_compiling() and not running.any():
            break
        refined = p
        for t in range(classes):
            step = (pqp - qp[:, t : t + 1]) / q[:, t, t : t + 1]
            pqp = (pqp + step * (step * q[:, t, t : t + 1] + 2 * qp[:, t : t + 1])) / (1 + step).square()
            qp = (qp + step * q[:, t]) / (1 + step)
            refined = (refined + step * unit[t]) / (1 + step)
        p = torch.where(running, refined, p)
    return p


def find_numbers(x: Tensor, keys: Tensor) -> Tensor:
    """The place of each number in the ascending `keys`; one behind the last for those that are not there."""
    place = torch.searchsorted(keys, x.contiguous())
    found = keys[place.clamp(max=len(keys) - 1)] == x
    return torch.where(found, place, len(keys))


def find_strings(strings: np.ndarray, keys: tuple[str, ...]) -> Tensor:
    """The place of each string in `keys`; one behind the last for those that are not there."""
    places = {key: place for place, key in enumerate(keys)}
    found = [places.get(text, len(keys)) for text in strings.reshape(-1).tolist()]
    return torch.tensor(found, dtype=torch.int64).reshape(strings.shape)


def all_known(matches: Tensor) -> Tensor:
    """`matches` as numbers, after making sure that every element is of some category."""
    if not matches.any(-1).all():
        raise ValueError("an element is of none of the categories")
    return matches.float()


def zip_map(x: Tensor, keys: tuple) -> list[dict]:
    """For each row the map from `keys` to its elements."""
    return [dict(zip(keys, row, strict=True)) for row in x.reshape(-1, len(keys)).tolist()]


def map_to_strings(entries: dict, keys: range | None = None) -> np.ndarray:
    """The values of a map as one row of strings: those of `keys`, or in ascending order of all keys."""
    texts = {key: value if isinstance(value, str) else f"{value:f}" for key, value in entries.items()}
    row = [texts[key] for key in sorted(texts)] if keys is None else [texts.get(key, "0.f") for key in keys]
    return np.array([row], dtype=object)


def map_to_tensor(entries: dict, dtype: torch.dtype, keys: range | None = None) -> Tensor:
    """The values of a map as one row of numbers: those of `keys`, or in ascending order of all keys."""
    number = float if dtype.is_floating_point else int
    values = {key: number(value) for key, value in entries.items()}
    row = [values[key] for key in sorted(values)] if keys is None else [values.get(key, 0) for key in keys]
    return torch.tensor([row], dtype=dtype)


def vectorize_map(entries: dict, vocabulary: tuple, dtype: torch.dtype) -> Tensor:
    """The values that a map has for the words of a vocabulary, as one row; zero for those that it lacks."""
    return torch.tensor([[entries.get(word, 0) for word in vocabulary]], dtype=dtype)


def vectorize_string_map(entries: dict, vocabulary: tuple) -> np.ndarray:
    """The strings that a map has for the words of a vocabulary, as one row; empty for those that it lacks."""
    return np.array([[entries.get(word, "") for word in vocabulary]], dtype=object)
