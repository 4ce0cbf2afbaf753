"""Provide the ONNX model as a file that ONNX Runtime takes."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
from onnx import TensorProto

from onnxlift.errors import VerifyError
from onnxlift.ir.reading.draft import unwrapped
from onnxlift.ir.reading.weights import each_tensor
from onnxlift.ir.writing.files import write_model


@dataclass(frozen=True)
class ModelFile:
    """A model, and the folder to which the locations of its external data are relative."""

    path: Path
    folder: Path


def model_file(source: Any, data_files: Collection[Path], job: Path, name: str = "model") -> ModelFile:
    """Return the user's own file if there is one, so that nothing large is copied. Else write NAME.onnx to `job`.

    `data_files` are the files in which `load` has found the model's data, with all links followed. If some lie outside
    the model's folder, a copy of the model without its data is written to `job`."""
    source = unwrapped(source)
    if isinstance(source, str | os.PathLike):
        path = Path(source).absolute()
        outside = [file for file in data_files if file != path.resolve() and not file.is_relative_to(path.parent)]
        return _follow_links(path, job / f"{name}.onnx") if outside else ModelFile(path, path.parent)
    path = job / f"{name}.onnx"
    if isinstance(source, ir.Model):
        write_model(source, path, force=True)
    elif isinstance(source, onnx.ModelProto):
        path.write_bytes(source.SerializeToString())
    elif isinstance(source, bytes | bytearray | memoryview):
        path.write_bytes(source)
    else:
        raise VerifyError("a model to verify is a path, bytes, a ModelProto or an onnx_ir.Model.")
    return ModelFile(path, job)


def _follow_links(path: Path, copy: Path) -> ModelFile:
    """Write a copy of the model to the file `copy` that names the real files of its external data.

    A Hugging Face cache holds links to files elsewhere. `load` has checked that these belong to the model, but onnx and
    ONNX Runtime refuse every link that leads out of the folder."""
    model = onnx.load(path, load_external_data=False)
    entries = [
        entry
        for tensor in each_tensor(model)
        if tensor.data_location == TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    ]
    real = {entry.value: (path.parent / entry.value).resolve() for entry in entries}
    folder = Path(os.path.commonpath([file.parent for file in real.values()]))
    for entry in entries:
        entry.value = real[entry.value].relative_to(folder).as_posix()
    copy.write_bytes(model.SerializeToString())
    return ModelFile(copy, folder)
