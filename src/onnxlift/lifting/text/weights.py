"""Write the weights of a lifted model as safetensors files, a few tensors at a time.

The safetensors package wants all tensors in memory before it writes the first. Here, a weight that is stored as the
ONNX model has it goes from file to file without passing through memory. A weight that is changed on the way
(transposed, unpacked) is made when its turn comes, and dropped after. The place of each weight is known beforehand, so
several threads write side by side. The bytes depend on nothing but the weights.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx_ir as ir
from ml_dtypes import bfloat16, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu
from onnx_ir import DataType

from onnxlift.errors import OutputError
from onnxlift.lifting.modules.module import Entry
from onnxlift.lifting.ops.layers import Array

Progress = Callable[[int, int], None]
"""A function that is called with the number of bytes written so far, and the number of all bytes."""

THREADS = min(4, os.cpu_count() or 1)
BATCH = 4 << 20  # the least number of bytes that a thread writes before it is given more
BAND, GROUP = 128, 8  # the rows of a transposed matrix made at a time, and the neighbours that stay together
MAX_SHARD_SIZE = 5 * 10**9
"""Weights of more bytes than this are spread over several files, as Hugging Face does it."""

# The stored type for each element type, as safetensors calls it and as numpy does. Types that torch lacks are stored in
# the type in which lifted code carries them (see `run.to_torch`).
_STORED: dict[DataType, tuple[str, np.dtype[np.generic]]] = {
    element: (name, np.dtype(dtype))
    for element, name, dtype in (
        (DataType.FLOAT, "F32", np.float32),
        (DataType.DOUBLE, "F64", np.float64),
        (DataType.FLOAT16, "F16", np.float16),
        (DataType.BFLOAT16, "BF16", bfloat16),
        (DataType.FLOAT8E4M3FN, "F8_E4M3", float8_e4m3fn),
        (DataType.FLOAT8E4M3FNUZ, "F8_E4M3FNUZ", float8_e4m3fnuz),
        (DataType.FLOAT8E5M2, "F8_E5M2", float8_e5m2),
        (DataType.FLOAT8E5M2FNUZ, "F8_E5M2FNUZ", float8_e5m2fnuz),
        (DataType.FLOAT8E8M0, "F8_E8M0", float8_e8m0fnu),
        (DataType.FLOAT6E2M3, "F32", np.float32),
        (DataType.FLOAT6E3M2, "F32", np.float32),
        (DataType.FLOAT4E2M1, "F32", np.float32),
        (DataType.INT64, "I64", np.int64),
        (DataType.INT32, "I32", np.int32),
        (DataType.INT16, "I16", np.int16),
        (DataType.INT8, "I8", np.int8),
        (DataType.INT4, "I8", np.int8),
        (DataType.INT2, "I8", np.int8),
        (DataType.UINT64, "U64", np.uint64),
        (DataType.UINT32, "U32", np.uint32),
        (DataType.UINT16, "U16", np.uint16),
        (DataType.UINT8, "U8", np.uint8),
        (DataType.UINT4, "U8", np.uint8),
        (DataType.UINT2, "U8", np.uint8),
        (DataType.BOOL, "BOOL", np.bool_),
        (DataType.COMPLEX64, "C64", np.complex64),
    )
}
SAFETENSORS_TYPES = dict(_STORED.values())
"""The types of safetensors, as numpy has them."""
# Types whose bytes in ONNX are not those of the stored type: packed ones, and bools, since any byte but 0 means True in
# ONNX.
_REWRITTEN = frozenset(
    {
        DataType.INT4,
        DataType.INT2,
        DataType.UINT4,
        DataType.UINT2,
        DataType.FLOAT6E2M3,
        DataType.FLOAT6E3M2,
        DataType.FLOAT4E2M1,
        DataType.BOOL,
    }
)


def write_weights(
    entries: Mapping[str, Entry], folder: Path, name: str, max_shard_size: int, on_progress: Progress | None = None
) -> list[Path]:
    """Write the weights, and return the files: NAME.safetensors, or the shards and NAME.safetensors.index.json, or none
    without weights."""
    shards = plan_shards(entries, max_shard_size)
    if len(shards) < 2:
        files = [folder / f"{name}.safetensors" for _ in shards]
    else:
        files = [folder / f"{name}-{i:05}-of-{len(shards):05}.safetensors" for i in range(1, len(shards) + 1)]
    total = sum(map(stored_bytes, entries.values()))
    done = 0
    for path, keys in zip(files, shards, strict=True):
        for size in _write_file(path, {key: entries[key] for key in keys}):
            done += size
            if on_progress is not None:
                on_progress(done, total)
    if len(shards) > 1:
        files.append(folder / index_name(name))
        files[-1].write_text(_index(entries, files, shards), encoding="utf-8")
    return files


def index_name(name: str) -> str:
    """Return the name of the file that lists the shards."""
    return f"{name}.safetensors.index.json"


def constants_name(name: str) -> str:
    """Return the name, without suffix, of the file for buffers that are not in the state dict."""
    return f"{name}.constants"


def stored_dtype(element: DataType) -> np.dtype[np.generic]:
    """Return the type in which lifted code holds an element type: its own, or a wider one where torch has none."""
    return _STORED[element][1] if element in _STORED else np.dtype(element.numpy())


def stored_bytes(entry: Entry) -> int:
    """Return the number of bytes that the tensor takes in the file."""
    _, dtype = _STORED.get(_tensor(entry).dtype, ("", np.dtype(np.complex128)))  # no type of ONNX is wider
    return prod(entry.weight.shape) * dtype.itemsize


def plan_shards(entries: Mapping[str, Entry], max_shard_size: int) -> list[list[str]]:
    """Return the keys of each file, in the order of the modules. A tensor is never split, so a file may exceed the
    size."""
    shards: list[list[str]] = []
    room = 0
    for key, entry in entries.items():
        size = stored_bytes(entry)
        if not shards or (size > room and shards[-1]):
            shards.append([])
            room = max_shard_size
        shards[-1].append(key)
        room -= size
    return shards


def _write_file(path: Path, entries: Mapping[str, Entry]) -> Iterator[int]:
    """Write a file, and yield the sizes of its parts as they are written."""
    # The widest types first, so that every tensor starts at a multiple of its element size.
    ordered = sorted(entries, key=lambda key: -_stored_type(entries[key])[1].itemsize)
    header: dict[str, object] = {}
    batches: list[tuple[int, list[Entry]]] = []  # where each begins among the tensors
    end = 0
    for key in ordered:
        assert key != "__metadata__", "safetensors keeps this key for itself"
        start, end = end, end + stored_bytes(entries[key])
        shape = list(entries[key].weight.shape)
        header[key] = {"dtype": _stored_type(entries[key])[0], "shape": shape, "data_offsets": [start, end]}
        if not batches or start - batches[-1][0] >= BATCH:
            batches.append((start, []))
        batches[-1][1].append(entries[key])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.flush()
        _reserve(file, 8 + len(text) + end)
    pool = ThreadPoolExecutor(THREADS)
    try:
        batches_written = [pool.submit(_write_batch, path, 8 + len(text) + start, batch) for start, batch in batches]
        for written in as_completed(batches_written):
            yield written.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _reserve(file: BinaryIO, size: int) -> None:
    """Take the room for the whole file at once. Writing is faster then, and an error for a full disk comes at the
    start."""
    if not hasattr(os, "posix_fallocate"):  # macOS, Windows
        return
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # file systems that cannot
            raise


def _write_batch(path: Path, offset: int, entries: Sequence[Entry]) -> int:
    """Write tensors one after the other from `offset` on, and return the number of bytes written."""
    with path.open("r+b") as file:
        file.seek(offset)
        for entry in entries:
            before = file.tell()
            _write_tensor(file, entry)
            written = file.tell() - before
            assert written == stored_bytes(entry), f"{entry.weight.value.name}: wrote {written} bytes"
        return file.tell() - offset


def _write_tensor(file: BinaryIO, entry: Entry) -> None:
    weight, tensor = entry.weight, _tensor(entry)
    if weight.transform is None and tensor.dtype not in _REWRITTEN and hasattr(tensor, "tofile"):
        tensor.tofile(file)
        return
    array = tensor.numpy() if weight.transform is None else weight.transform(tensor.numpy())
    assert array.shape == weight.shape, f"{weight.value.name}: {array.shape} is not {weight.shape}"
    if tensor.dtype == DataType.BOOL:
        array = np.ascontiguousarray(array).view(np.uint8) != 0
    dtype = _stored_type(entry)[1].newbyteorder("<")
    for part in _parts(array):
        file.write(np.ascontiguousarray(part.astype(dtype, copy=False)).reshape(-1).view(np.uint8).data)


def _parts(array: Array) -> Iterator[Array]:
    """Yield the array in the order of its elements, in parts. Each part must be used before the next is asked for.

    A transposed matrix is turned in two steps, a band of rows at a time: first groups of neighbours as if each were one
    element, then the elements within the groups. If it were turned row by row, every element would come from another
    line of the cache. And with parts as large as these, threads do not wait for one another.
    """
    source = array.T
    if array.ndim != 2 or array.flags.c_contiguous or not source.flags.c_contiguous or array.size < BAND * BAND:
        yield array
        return
    rows, columns = array.shape
    whole = rows - rows % GROUP
    groups = np.empty((BAND // GROUP, columns), f"V{GROUP * array.itemsize}")
    band = np.empty((BAND // GROUP, GROUP, columns), array.dtype)
    for top in range(0, whole, BAND):
        found = source[:, top : min(top + BAND, whole)].view(groups.dtype).T
        groups[: len(found)] = found
        band[: len(found)] = groups[: len(found)].view(array.dtype).reshape(-1, columns, GROUP).transpose(0, 2, 1)
        yield band[: len(found)]
    yield array[whole:]


def _stored_type(entry: Entry) -> tuple[str, np.dtype[np.generic]]:
    tensor = _tensor(entry)
    stored = _STORED.get(tensor.dtype)
    if stored is None:
        raise OutputError(
            f"constant {entry.weight.value.name!r} is of type {tensor.dtype.name.lower()}, which safetensors cannot "
            "hold: cast it to another type in the ONNX model."
        )
    return stored


def _tensor(entry: Entry) -> ir.TensorProtocol:
    tensor = entry.weight.value.const_value
    assert tensor is not None
    return tensor


def _index(entries: Mapping[str, Entry], files: Sequence[Path], shards: Sequence[Sequence[str]]) -> str:
    total = sum(stored_bytes(entry) for entry in entries.values())
    homes = {key: path.name for path, keys in zip(files, shards, strict=False) for key in keys}
    return json.dumps({"metadata": {"total_size": total}, "weight_map": homes}, indent=2, sort_keys=True) + "\n"
