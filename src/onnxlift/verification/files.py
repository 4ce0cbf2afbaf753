"""Read inputs from files: .npy (one input), .npz (inputs by name), .pb (a TensorProto, as in ONNX's test data)."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import numpy_helper

from onnxlift.errors import VerifyError


def read_inputs(paths: Sequence[Path]) -> dict[str, Any] | list[Any]:
    """Return the values in the files: by name if the files have names, else in the order of the files."""
    files = [file for path in paths for file in _expand(path)]
    named: dict[str, Any] = {}
    ordered: list[Any] = []
    for path in files:
        try:
            _read(path, named, ordered)
        except (OSError, ValueError, DecodeError, zipfile.BadZipFile) as error:
            reason = getattr(error, "strerror", None) or error
            raise VerifyError(f"cannot read inputs from {str(path)!r}: {reason}.") from error
    if named and ordered:
        raise VerifyError("some of the input files say what input they are for, and some do not: use one .npz file.")
    return named or ordered


def _read(path: Path, named: dict[str, Any], ordered: list[Any]) -> None:
    match path.suffix.lower():
        case ".npy":
            with path.open("rb") as file:
                if file.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
                    raise ValueError("it is no .npy file, or a damaged one")  # numpy would advise to unpickle it
            ordered.append(np.load(path, allow_pickle=False))
        case ".npz":
            with path.open("rb") as file:
                if not zipfile.is_zipfile(file):
                    raise ValueError("it is no .npz file, or a damaged one")
            with np.load(path, allow_pickle=False) as archive:
                named.update({name: archive[name] for name in archive.files})
        case ".pb":
            tensor = onnx.TensorProto()
            tensor.ParseFromString(path.read_bytes())
            # A tensor must not refer to another file.
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                raise ValueError("the tensor lies in another file")
            array = numpy_helper.to_array(tensor)
            if tensor.name:
                named[tensor.name] = array
            else:
                ordered.append(array)
        case _:
            raise VerifyError(f"inputs are read from .npy, .npz and .pb files, not from {str(path)!r}.")


def _expand(path: Path) -> list[Path]:
    """Return the files input_0.pb, input_1.pb, ... of a folder in the order of their numbers; a file as it is."""
    if not path.is_dir():
        return [path]
    numbered = {
        int(found[1]): file for file in path.iterdir() if (found := re.fullmatch(r"input_(\d+)\.pb", file.name))
    }
    if not numbered:
        raise VerifyError(f"{str(path)!r} is a folder without input_0.pb.")
    return [numbered[number] for number in sorted(numbered)]
