"""Write the outputs of a model to a file: `.npz` by name, `.npy` if there is one, or `.json`."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnxlift.errors import OutputError
from onnxlift.saving import save_files

FORMATS = (".npz", ".npy", ".json")
_MEMBER_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of all members of a .npz file, so that the same outputs give the same bytes."""

Array = np.ndarray[Any, Any]


def known_format(path: Path) -> str:
    """Return the suffix of a file for outputs. Raises an OutputError if there is no such format."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise OutputError(f"outputs are written as {', '.join(FORMATS)}, and not as {str(path)!r}.")
    return suffix


def save_values(values: Mapping[str, Any], path: Path, *, force: bool = False) -> list[Path]:
    """Write values to a file in the format that its suffix tells, and return its path in a list."""
    content = encode(values, known_format(path))

    def write(folder: Path) -> list[Path]:
        (folder / path.name).write_bytes(content)
        return [folder / path.name]

    ours = re.compile(re.escape(path.name))
    return save_files(path.parent, path.name, write, ours=ours, last=path.name, force=force)


def encode(values: Mapping[str, Any], suffix: str) -> bytes:
    """Return values as the bytes of a file."""
    if suffix == ".json":
        return (json.dumps({name: _plain(value) for name, value in values.items()}, indent=1) + "\n").encode()
    arrays = flat_arrays(values)
    file = io.BytesIO()
    if suffix == ".npy":
        if len(arrays) != 1:
            raise OutputError(
                f"a .npy file holds one array, and there are {len(arrays)}: write .npz, or use --outputs."
            )
        np.lib.format.write_array(file, next(iter(arrays.values())), allow_pickle=False)
        return file.getvalue()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", _MEMBER_DATE)
            with archive.open(member, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)
    return file.getvalue()


def flat_arrays(values: Mapping[str, Any]) -> dict[str, Array]:
    """Return arrays by name. The elements of a sequence are `name.0`, `name.1`; a map is `name.keys`, `name.values`.

    Types that numpy lacks become wider ones that hold the same numbers: bfloat16 float32, int4 int8."""
    arrays: dict[str, Array] = {}
    for name, value in values.items():
        if value is None:
            continue
        if isinstance(value, list | tuple):
            arrays |= flat_arrays({f"{name}.{number}": item for number, item in enumerate(value)})
        elif isinstance(value, Mapping):
            arrays |= flat_arrays(
                {f"{name}.keys": np.array(list(value)), f"{name}.values": np.array([*value.values()])}
            )
        else:
            arrays[name] = _storable(np.asarray(value))
    return arrays


def _storable(array: Array) -> Array:
    if array.dtype.kind == "O":
        return np.array([str(item) for item in array.flat], dtype=np.str_).reshape(array.shape)
    if array.dtype.isbuiltin == 1 or array.dtype.kind == "U":
        return array
    is_integer = "int" in array.dtype.name
    return array.astype((np.uint8 if "uint" in array.dtype.name else np.int8) if is_integer else np.float32)


def _plain(value: Any) -> Any:
    """Return a value as what JSON holds. Numbers that JSON lacks (NaN, infinities) are texts."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    array = _storable(np.asarray(value))
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        shown = array.astype(object)
        shown[~np.isfinite(array)] = [str(number) for number in array[~np.isfinite(array)]]
        return shown.tolist()
    return array.tolist()
