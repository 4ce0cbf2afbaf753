"""Find the file that an external tensor names, and decide whether it may be read.

The path comes from the model, so we judge the *resolved* path, never the string. It must lie below the folder in which
the model was found, or below the folder in which the model really lies. (A Hugging Face cache links both `model.onnx`
and `model.onnx_data` to files in `blobs/`.) It must be a regular file with one name only: a file with a second hard
link may really belong anywhere.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
import onnx_ir as ir

from onnxlift.errors import LoadError, quote

from .tensors import DataFile, StoredBytes, bytes_needed

NO_FOLDER = "a model without a path has no folder to look in: pass the path of the .onnx file instead"


class DataFolder:
    """The folders in which the external data of a model may lie; none if the model was not loaded from a file."""

    def __init__(self, *folders: Path) -> None:
        self._folders = tuple(dict.fromkeys(folder.absolute() for folder in folders))
        self._roots = tuple(dict.fromkeys(folder.resolve() for folder in folders))
        self._files: dict[str, DataFile] = {}

    @classmethod
    def of_model(cls, path: Path) -> DataFolder:
        """Return the folder of `path` and, if it is a symbolic link, the folder of the file that it leads to."""
        return cls(path.parent, path.resolve().parent)

    def file(self, location: str) -> DataFile:
        """Return the file that `location` names. Raises LoadError unless it is a regular file inside the folders."""
        if location not in self._files:
            self._files[location] = self._find(location)
        return self._files[location]

    def _find(self, location: str) -> DataFile:
        if not location or len(location) > 1000 or "\0" in location:
            raise LoadError("its location is not a path.")
        if PurePosixPath(location).is_absolute() or PureWindowsPath(location).drive:
            raise LoadError("its location is an absolute path; ONNX wants one relative to the model.")
        if not self._folders:
            raise LoadError(f"{NO_FOLDER}.")
        candidates = [folder / location for folder in self._folders]
        # Comes before every other check, so that no error message tells whether a file outside exists.
        inside = [candidate for candidate in candidates if self._is_inside(candidate)]
        if not inside:
            raise LoadError("it lies outside the model's folder. Copy the file there, and correct its location.")
        file = DataFile.at(next((candidate for candidate in inside if os.path.lexists(candidate)), inside[0]))
        if file.links > 1:
            raise LoadError(f"it is a hard link (one of {file.links} names of that file). Replace it by a copy.")
        return file

    def _is_inside(self, path: Path) -> bool:
        try:
            resolved = path.resolve()
        except (OSError, RuntimeError):  # a loop of symbolic links leads nowhere
            return False
        return any(resolved != root and resolved.is_relative_to(root) for root in self._roots)


def stored_data(tensor: onnx.TensorProto, folder: DataFolder) -> StoredBytes:
    """Return where the bytes of an external tensor lie. Raises LoadError if they must not or cannot be read."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    needed = bytes_needed(ir.DataType(tensor.data_type), tuple(tensor.dims))
    try:
        if isinstance(location, bytes):
            raise LoadError("its location is not valid UTF-8.")
        offset = _count(entries.get("offset", "0"), "offset")
        length = _count(entries.get("length", str(needed)), "length")
        if length == 0:
            return StoredBytes(memoryview(b""), 0, 0)
        file = folder.file(location)
        if offset + length > file.size:
            raise LoadError(
                f"bytes {offset:,} to {offset + length:,} are wanted, and the file has {file.size:,}. "
                "It is truncated, or belongs to another model."
            )
        return StoredBytes(file, offset, length)
    except LoadError as error:
        raise LoadError(f"external data {quote(location)} of tensor {quote(tensor.name)}: {error}") from error


def _count(text: str, what: str) -> int:
    # int() would also take signs, spaces, underscores, digits of other scripts, and texts of any length.
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 20):
        raise LoadError(f"its {what} is {quote(text)}, which is not a number of bytes.")
    return int(text)
