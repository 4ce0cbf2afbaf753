"""Tensors whose bytes stay in a file or in the caller's buffer until their numbers are needed."""

from __future__ import annotations

import errno
import mmap
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxlift.errors import LoadError

MAP_FROM = 1 << 20
"""Ranges of at least this many bytes are mapped, smaller ones are read: each mapping costs a file descriptor."""

CHUNK = 1 << 20

# Windows has neither O_NONBLOCK nor O_NOFOLLOW. Without O_NONBLOCK we would hang if a FIFO had taken the file's place.
_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class DataFile:
    """A regular file as it was when the model was loaded. It is open only while it is read."""

    path: Path
    size: int
    stamp: tuple[int, int, int]
    links: int

    @classmethod
    def at(cls, path: Path) -> DataFile:
        """Return the file at `path`. Raises LoadError if there is none, or it is not a regular file."""
        try:
            resolved = path.resolve()
            status = resolved.stat()
        except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a loop of symbolic links
            raise LoadError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}.") from error
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or device"
            raise LoadError(f"{str(path)!r} is {kind}, not a file.")
        return cls(resolved, status.st_size, _stamp(status), status.st_nlink)

    def open(self) -> BinaryIO:
        """Open the file for reading. Raises LoadError if it has changed since the model was loaded."""
        try:
            file = os.fdopen(os.open(self.path, _OPEN), "rb", buffering=0)
        except OSError as error:
            raise LoadError(f"cannot read {str(self.path)!r}: {error.strerror}.") from error
        status = os.fstat(file.fileno())
        if status.st_size != self.size or _stamp(status) != self.stamp:
            file.close()
            raise LoadError(f"{str(self.path)!r} has changed since the model was loaded: load the model again.")
        return file

    def map(self) -> memoryview:
        """Map the whole file into memory."""
        if self.size == 0:
            return memoryview(b"")
        with self.open() as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def view(self, offset: int, length: int) -> memoryview:
        """Return a range of the file. A large one gets a mapping of its own, which is freed with the view."""
        if length < MAP_FROM:
            return memoryview(b"".join(self.chunks(offset, length)))
        before = offset % mmap.ALLOCATIONGRANULARITY
        with self.open() as file:
            try:
                pages = mmap.mmap(file.fileno(), before + length, access=mmap.ACCESS_READ, offset=offset - before)
            except OSError as error:
                if error.errno not in {errno.EMFILE, errno.ENFILE}:
                    raise
                return memoryview(b"".join(self.chunks(offset, length)))
        return memoryview(pages)[before:]

    def chunks(self, offset: int, length: int) -> Iterator[bytes]:
        with self.open() as file:
            file.seek(offset)
            while length > 0:
                chunk = file.read(min(length, CHUNK))
                if not chunk:
                    raise LoadError(f"{str(self.path)!r} became shorter while it was read.")
                length -= len(chunk)
                yield chunk

    def copy_to(self, target: BinaryIO, offset: int, length: int) -> None:
        """Write a range to `target`, with no more than one chunk of it in memory."""
        for chunk in self.chunks(offset, length):
            target.write(chunk)


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_dev, status.st_ino, status.st_mtime_ns


@dataclass(frozen=True)
class StoredBytes:
    """A range of a file or of a buffer."""

    source: DataFile | memoryview
    offset: int
    length: int

    @property
    def is_absent(self) -> bool:
        """Tell whether the bytes are not there, because nobody wanted external data."""
        return not isinstance(self.source, DataFile) and self.offset + self.length > len(self.source)

    def view(self) -> memoryview:
        if isinstance(self.source, DataFile):
            return self.source.view(self.offset, self.length)
        return self.source[self.offset : self.offset + self.length]


class FileTensor(ir.TensorProtocol):
    """A tensor whose bytes are a range of a file or buffer (`raw`) and are not read before they are needed.

    `numpy()` returns a read-only view of the mapped file; a copy if the tensor is small, or its elements are smaller
    than a byte and must be unpacked. Nothing is cached: the memory is freed with the array.
    """

    def __init__(
        self,
        raw: StoredBytes,
        dtype: ir.DataType,
        shape: ir.Shape,
        *,
        name: str | None = None,
        doc_string: str | None = None,
        metadata_props: dict[str, str] | None = None,
    ) -> None:
        self.raw = raw
        self.dtype = dtype
        self.shape: ir.Shape = shape
        self.name = name
        self.doc_string = doc_string
        self.metadata_props = metadata_props or {}
        self.meta: dict[str, Any] = {}
        if raw.length != self.nbytes:
            raise LoadError(size_mismatch(f"tensor {(name or '')[:200]!r}", dtype, shape.numpy(), raw.length))

    @property
    def size(self) -> int:
        return prod(self.shape.numpy())

    @property
    def nbytes(self) -> int:
        return bytes_needed(self.dtype, self.shape.numpy())

    def numpy(self) -> npt.NDArray[Any]:
        view = self.raw.view()
        if self.dtype.bitwidth < 8:
            packed = np.frombuffer(view, np.uint8)
            return ir.PackedTensor(packed, self.dtype, shape=self.shape).numpy()
        return np.frombuffer(view, self.dtype.numpy().newbyteorder("<")).reshape(self.shape.numpy())

    def tobytes(self) -> bytes:
        return bytes(self.raw.view())

    def tofile(self, file: BinaryIO) -> None:
        """Write the bytes, in ONNX's raw encoding, to an open file without holding them in memory."""
        raw = self.raw
        if isinstance(raw.source, DataFile):
            raw.source.copy_to(file, raw.offset, raw.length)
        else:
            file.write(raw.view())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = self.numpy()
        return array.astype(array.dtype if dtype is None else dtype, copy=bool(copy))

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.numpy().__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self.numpy().__dlpack_device__()

    def __repr__(self) -> str:
        return f"FileTensor<{self.dtype},{self.shape}>(name={self.name!r})"


def bytes_needed(dtype: ir.DataType, shape: tuple[int, ...]) -> int:
    """Return how many bytes ONNX's raw encoding takes. Elements that are smaller than a byte are packed."""
    return (prod(shape) * dtype.bitwidth + 7) // 8


def size_mismatch(tensor: str, dtype: ir.DataType, shape: tuple[int, ...], length: int) -> str:
    return (
        f"{tensor} of type {dtype.name} and shape {list(shape)} needs {bytes_needed(dtype, shape):,} bytes, "
        f"and the model holds {length:,} for it. The file is damaged or was changed by hand."
    )


class TensorStore:
    """The tensors of a model that are kept apart from its proto. In the proto, `raw_data` holds a ticket for each.

    A ticket begins with random bytes of this store, so that no file can contain a forged one.
    """

    def __init__(self) -> None:
        self._token = secrets.token_bytes(16)
        self._tensors: list[StoredBytes | ir.TensorProtocol] = []

    def put(self, tensor: StoredBytes | ir.TensorProtocol) -> bytes:
        """Keep a tensor, and return the ticket to write in the place of its bytes."""
        self._tensors.append(tensor)
        return self._token + (len(self._tensors) - 1).to_bytes(8, "little")

    def get(self, raw_data: bytes) -> StoredBytes | ir.TensorProtocol | None:
        """Return the tensor that a ticket stands for; None if these bytes are no ticket."""
        if len(raw_data) != 24 or not raw_data.startswith(self._token):
            return None
        return self._tensors[int.from_bytes(raw_data[16:], "little")]
