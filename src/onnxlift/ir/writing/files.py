"""Write a model as a file; beyond 2 GiB, or if asked for, with its weights in a second file beside it.

Small tensors stay in the model's own file: runtimes read sizes and axes from there. In the file of weights, large
tensors begin at whole pages, so that they can be mapped.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

import onnx
import onnx_ir as ir
from onnx import TensorProto

from onnxlift.errors import OutputError
from onnxlift.saving import save_files

from .proto import LARGEST_PROTO, Stored, skeleton
from .stream import Progress, write_raw, write_stream

SMALLEST_OUTSIDE = 1024
"""Tensors of fewer bytes stay in the model's own file."""
PAGE = 4096
SLACK = 64 << 20
"""How far below the limit a single file stays, so that tools which add to it can still write it."""


def write_model(
    model: ir.Model,
    path: Path,
    *,
    external_data: str = "auto",
    force: bool = False,
    on_progress: Progress | None = None,
) -> list[Path]:
    """Write the model to `path`, and return the files that were written, the model first.

    `external_data` is "never", the name of a file for the weights, or "auto": a single file if it can hold the model,
    else the weights go to the file of the same name with `.data` added. The files appear whole or not at all; those
    that are there already are replaced only with `force`."""
    return write_parts(*skeleton(model), path, external_data=external_data, force=force, on_progress=on_progress)


def write_parts(
    proto: onnx.ModelProto,
    tensors: list[Stored],
    path: Path,
    *,
    external_data: str = "auto",
    were_outside: Collection[int] = (),
    force: bool = False,
    on_progress: Progress | None = None,
) -> list[Path]:
    """Write a proto, which is used up, and the numbers of its initialisers, as `write_model` does.

    `were_outside` are the indices of the initialisers that are in a file of their own, if anything is."""
    size = proto.ByteSize() + sum(each.tensor.nbytes for each in tensors)
    data = _data_name(path, external_data, size)
    if data is None and were_outside and external_data == "auto":
        data = f"{path.name}.data"

    def write(folder: Path) -> list[Path]:
        written = [folder / path.name]
        inside = tensors
        if data is not None:
            apart = {each.index for each in tensors if each.tensor.nbytes >= SMALLEST_OUTSIDE}
            if were_outside and external_data == "auto":
                apart = set(were_outside)
            inside = [each for each in tensors if each.index not in apart]
            outside = [each for each in tensors if each.index in apart]
            if outside:
                written.append(folder / data)
                with (folder / data).open("wb") as file:
                    _write_data(proto, outside, data, file, on_progress)
        with (folder / path.name).open("wb") as file:
            write_stream(proto, inside, file, on_progress if data is None else None)
        return written

    names = [path.name] if data is None else [path.name, data]
    ours = re.compile("|".join(map(re.escape, names)))
    return save_files(path.parent, path.name, write, ours=ours, last=path.name, force=force)


def _data_name(path: Path, external_data: str, size: int) -> str | None:
    """Return the name of the file for the weights; None if they are in the model's own file."""
    if external_data == "never":
        return None
    if external_data == "auto":
        return f"{path.name}.data" if size > LARGEST_PROTO - SLACK else None
    if Path(external_data).name != external_data or external_data in {path.name, ".", ".."}:
        raise OutputError(
            f"{external_data!r} cannot be the file for the weights: it lies beside the model, so give the name of a "
            "file without a folder, other than the model's."
        )
    return external_data


def _write_data(
    proto: onnx.ModelProto, tensors: list[Stored], name: str, file: BinaryIO, on_progress: Progress | None
) -> None:
    """Write the numbers of the tensors to the file called `name`, and note in the proto where they are."""
    total = sum(each.tensor.nbytes for each in tensors)
    done = 0
    for each in tensors:
        offset = file.tell()
        if each.tensor.nbytes >= PAGE and offset % PAGE:
            file.write(bytes(PAGE - offset % PAGE))
            offset = file.tell()
        write_raw(each.tensor, file)
        done += each.tensor.nbytes
        initialiser = proto.graph.initializer[each.index]
        initialiser.data_location = TensorProto.EXTERNAL
        for key, value in (("location", name), ("offset", offset), ("length", each.tensor.nbytes)):
            initialiser.external_data.add(key=key, value=str(value))
        if on_progress is not None:
            on_progress(done, total)
