"""Pass values between two processes: NAME.json describes them, NAME.bin holds the elements.

This is not a pickle, since the process that writes the values has run untrusted code: a pickle could make us run more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

ALIGNMENT = 64


def write_values(path: Path, values: Mapping[str, Any]) -> None:
    """Write arrays (of any type, strings too), lists, dicts and None by name to PATH.json and PATH.bin."""
    with path.with_suffix(".bin").open("wb") as file:
        described = {name: _describe(value, file) for name, value in values.items()}
    path.with_suffix(".json").write_text(json.dumps(described), encoding="utf-8")


def read_values(path: Path) -> dict[str, Any]:
    """Read the values that `write_values` wrote. The arrays are mapped from the file."""
    described = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    file = path.with_suffix(".bin")
    data = np.memmap(file, np.uint8, "r") if file.stat().st_size else np.empty(0, np.uint8)
    return {name: _value(description, data) for name, description in described.items()}


def _describe(value: Any, file: BinaryIO) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {"map": [[key, _describe(item, file)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_describe(item, file) for item in value]}
    array = np.asarray(value)
    if array.dtype.kind in "OUST":
        return {"strings": [_text(item) for item in array.flat], "shape": array.shape}
    file.write(b"\0" * (-file.tell() % ALIGNMENT))
    start = file.tell()
    file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return {"dtype": array.dtype.name, "shape": array.shape, "at": [start, file.tell()]}


def _text(item: Any) -> str:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)


def _value(description: Any, data: np.ndarray[Any, Any]) -> Any:
    match description:
        case None:
            return None
        case {"map": entries}:
            return {key: _value(item, data) for key, item in entries}
        case {"list": items}:
            return [_value(item, data) for item in items]
        case {"strings": items, "shape": shape}:
            return np.array(items, dtype=object).reshape(shape)
    name, (start, end) = description["dtype"], description["at"]
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    return np.asarray(data[start:end]).view(dtype).reshape(description["shape"])
