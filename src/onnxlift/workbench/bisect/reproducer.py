"""A small folder that shows a difference by itself: the part of the model, its inputs, and a script that runs it."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxlift.errors import OutputError
from onnxlift.saving import save_files
from onnxlift.verification.compare import Tolerance

from .script import script

NAMES = ("model.onnx", "other.onnx", "inputs.npz", "found.npz", "reproduce.py")


@dataclass(frozen=True)
class Reproducer:
    """The parts of both models, as files of ONNX, and what to run them on.

    `feeds` has, for either part, which array each of its inputs is. `found` is what the second side gave, where it
    cannot be run by itself."""

    model: bytes
    other: bytes | None
    inputs: Mapping[str, Any]
    feeds: tuple[Mapping[str, str], Mapping[str, str]]
    runtimes: tuple[str, str]
    node: str
    nodes: int
    """The number of nodes of the larger part, without constants."""
    tolerance: Tolerance
    found: Any = None

    def files(self) -> dict[str, bytes]:
        """Return the files of the folder by name."""
        files = {"model.onnx": self.model, "inputs.npz": _npz(self.inputs)}
        if self.other is not None:
            files["other.onnx"] = self.other
        if self.found is not None:
            files["found.npz"] = _npz({"found": self.found})
        text = script(
            self.feeds,
            self.runtimes,
            self.node,
            self.tolerance,
            has_other=self.other is not None,
            has_found=self.found is not None,
        )
        return {**files, "reproduce.py": text.encode()}

    def save(self, folder: Path, *, force: bool = False) -> list[Path]:
        """Write the folder: whole, or not at all."""
        files = self.files()
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{str(folder)!r} is a file: name a folder for the reproducer.")

        def write(target: Path) -> list[Path]:
            for name, data in files.items():
                (target / name).write_bytes(data)
            return [target / name for name in files]

        ours = re.compile("|".join(map(re.escape, NAMES)))
        return save_files(folder, "reproduce", write, ours=ours, last="reproduce.py", force=force)

    def to_dict(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "files": list(self.files()), "runtimes": list(self.runtimes)}


def can_be_stored(value: Any) -> bool:
    """Tell whether a file of numpy can hold a value: arrays of types that numpy itself has, and strings."""
    return isinstance(value, np.ndarray) and (value.dtype.kind in "biufcOUS")


def keys_of(names: Iterable[str]) -> dict[str, str]:
    """Return the key of each array in the file: its name, unless that is no harmless name of a file."""
    found: dict[str, str] = {}
    for place, name in enumerate(names):
        harmless = name.isprintable() and len(name) <= 200 and ".." not in name and "\\" not in name
        found[name] = name if harmless else f"input_{place}"
    return found


def _npz(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays as the bytes of an .npz file. (`numpy.savez` takes names for arguments of its own.)"""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                plain = array.astype(np.str_) if array.dtype.kind == "O" else array
                np.lib.format.write_array(entry, np.asarray(plain), allow_pickle=False)
    return file.getvalue()
