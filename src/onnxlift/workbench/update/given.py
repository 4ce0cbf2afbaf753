"""Weights as a user gives them: a module, a state dict, or a file. Each is read when it is asked for, and not kept.

A file is a stranger's: nothing in a safetensors file is believed before it is checked, and a `.pt` file is read by
torch with `weights_only=True`, so that no code runs.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from onnxlift.errors import LoadError, OnnxLiftError, quote
from onnxlift.ir.reading.tensors import DataFile
from onnxlift.lifting.ops.layers import Array
from onnxlift.lifting.text.weights import SAFETENSORS_TYPES

LONGEST_HEADER = 100_000_000
MOST_AXES = 32
INDEX = ".safetensors.index.json"
# What torch raises for a file that is none of its own, or that holds more than weights.
_UNREADABLE = (
    pickle.UnpicklingError,
    RuntimeError,
    ValueError,
    OSError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
)
PICKLED = (".pt", ".pth", ".bin", ".ckpt")


@dataclass(frozen=True)
class Header:
    """The shape and the type of a weight."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class _Weight:
    header: Header
    read: Callable[[], Array]


class Given:
    """Weights by key."""

    def __init__(self, weights: Mapping[str, _Weight], title: str) -> None:
        self._weights = weights
        self.title = title

    def __contains__(self, key: object) -> bool:
        return key in self._weights

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def header(self, key: str) -> Header:
        """Return the shape and the type of a weight."""
        return self._weights[key].header

    def array(self, key: str) -> Array:
        """Return the numbers of a weight."""
        return self._weights[key].read()


class GivenWeights(Mapping[str, Array]):
    """Some of the given weights, by the keys of the model's state dict. Each is read when it is asked for."""

    def __init__(self, given: Given, keys: Mapping[str, str]) -> None:
        self._given = given
        self._keys = keys

    def __getitem__(self, key: str) -> Array:
        return self._given.array(self._keys[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def read_weights(source: Any) -> Given:
    """Return the weights in `source`: a module, a state dict of torch or numpy, or the path of a file.

    Files are safetensors, the index of several of them (NAME.safetensors.index.json), or what torch saves (.pt)."""
    if isinstance(source, Given):
        return source
    if isinstance(source, str | os.PathLike):
        return Given(_from_path(Path(source)), str(source))
    if not isinstance(source, Mapping):
        state_dict = getattr(source, "state_dict", None)
        source = state_dict() if callable(state_dict) else state_dict
    if not isinstance(source, Mapping):
        raise OnnxLiftError("weights are a module, a state dict, or the path of a safetensors or .pt file.")
    return Given({str(key): _from_value(key, value) for key, value in source.items()}, "the state dict")


def _from_value(key: object, value: Any) -> _Weight:
    if hasattr(value, "detach"):
        from onnxlift.executing import to_numpy  # torch is there: this is one of its tensors

        small = to_numpy(value.detach().reshape(-1)[:0])  # tells the type without a copy of the numbers
        return _Weight(Header(tuple(value.shape), small.dtype), lambda: to_numpy(value))
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        return _Weight(Header(array.shape, array.dtype), lambda: array)
    raise OnnxLiftError(f"the weight {quote(str(key))} is a {type(value).__name__}, not a tensor.")


def _from_path(path: Path) -> dict[str, _Weight]:
    if path.name.endswith(INDEX):
        return _from_index(path)
    if path.suffix in PICKLED:
        return _from_torch(path)
    return _from_safetensors(path)


def _from_index(path: Path) -> dict[str, _Weight]:
    """Read the files that an index lists. They must lie beside it."""
    file = DataFile.at(path)
    listed = _json(b"".join(file.chunks(0, min(file.size, LONGEST_HEADER))), path).get("weight_map")
    names = sorted({*listed.values()}) if isinstance(listed, dict) and all(map(_is_name, listed.values())) else None
    if not names:
        raise LoadError(f"{str(path)!r} is not the index of safetensors files: it has no map of weights to files.")
    return {key: weight for name in names for key, weight in _from_safetensors(path.parent / name).items()}


def _is_name(text: object) -> bool:
    """Tell whether this is the name of a file, without a folder."""
    return isinstance(text, str) and Path(text).name == text and "\\" not in text


def _from_torch(path: Path) -> dict[str, _Weight]:
    DataFile.at(path)
    try:
        import torch
    except ImportError as error:
        raise LoadError(f"reading {path.name} takes torch: pip install torch, or save it as safetensors.") from error
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except _UNREADABLE as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)[:200]
        raise LoadError(f"torch cannot read {str(path)!r}: {first}") from error
    if not isinstance(loaded, Mapping):
        raise LoadError(f"{str(path)!r} holds a {type(loaded).__name__}, not a state dict: save model.state_dict().")
    return {str(key): _from_value(key, value) for key, value in loaded.items()}


def _from_safetensors(path: Path) -> dict[str, _Weight]:
    file = DataFile.at(path)
    start = b"".join(file.chunks(0, min(8, file.size)))
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > min(LONGEST_HEADER, file.size - 8):
        raise LoadError(f"{str(path)!r} is not a safetensors file, or a damaged one: its header does not fit into it.")
    header = _json(b"".join(file.chunks(8, length)), path)
    begin = 8 + length
    return {key: _entry(key, told, file, begin) for key, told in header.items() if key != "__metadata__"}


def _entry(key: str, told: Any, file: DataFile, begin: int) -> _Weight:
    """Return one weight of a safetensors file, whose numbers begin at byte `begin`."""
    fields = told if isinstance(told, dict) else {}
    dtype, shape, span = fields.get("dtype"), _sizes(fields.get("shape")), _sizes(fields.get("data_offsets"))
    element = SAFETENSORS_TYPES.get(dtype) if isinstance(dtype, str) else None
    if element is None or shape is None or span is None or len(span) != 2 or len(shape) > MOST_AXES:
        raise LoadError(f"{str(file.path)!r}: weight {quote(key)} has a type, shape or place that safetensors has not.")
    first, last = span
    if first > last or last - first != prod(shape) * element.itemsize or begin + last > file.size:
        raise LoadError(f"{str(file.path)!r}: weight {quote(key)} does not fit into the file, which is damaged.")

    def read() -> Array:
        view = file.view(begin + first, last - first) if last > first else memoryview(b"")
        return np.frombuffer(view, element).reshape(shape)

    return _Weight(Header(tuple(shape), element), read)


def _sizes(numbers: Any) -> list[int] | None:
    """Return the numbers if they are a list of sizes; else None."""
    is_list = isinstance(numbers, list) and all(type(each) is int and 0 <= each < 1 << 62 for each in numbers)
    return numbers if is_list else None


def _json(data: bytes, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{str(path)!r} is damaged: its header is no JSON.") from error
    if not isinstance(found, dict):
        raise LoadError(f"{str(path)!r} is damaged: its header is no table.")
    return found
