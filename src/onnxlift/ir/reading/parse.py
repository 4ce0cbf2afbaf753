"""Parse a model from a path, bytes, an open file or an object, without copying its large tensors.

The store remembers where the large tensors lie, and the proto has tickets in their place.
"""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]

from onnxlift.errors import LoadError, SourceTypeError
from onnxlift.stages import step

from .draft import Draft, Skeleton, Source, unwrapped
from .external import DataFolder
from .sniff import looks_like
from .structure import structure_of
from .tensors import DataFile, StoredBytes, TensorStore
from .wire import WireError, cut_weights


@step("parse", optional=False)
def run(draft: Draft) -> int:
    """Parse the model, and note where its external files may lie."""
    source = unwrapped(draft.source)
    found = source if isinstance(source, Skeleton) else skeleton_of(source)
    draft.proto, draft.store, draft.folder = found.proto, found.store, found.folder
    if found is source:  # the steps after this one change the proto
        draft.proto = onnx.ModelProto()
        draft.proto.CopyFrom(found.proto)
    return 0


def skeleton_of(source: Source) -> Skeleton:
    """Return the model in `source` as the file has it, without its large tensors."""
    store = TensorStore()
    proto, folder = _read(unwrapped(source), store)
    return Skeleton(proto, store, folder)


def _read(source: Source, store: TensorStore) -> tuple[onnx.ModelProto, DataFolder]:
    """Return the proto without its large tensors, which go to the store, and the folders for its external files."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        file = DataFile.at(path)
        return _parse(file.map(), file, store, f"{str(path)!r}"), DataFolder.of_model(path)
    if isinstance(source, ir.Model):
        return structure_of(source, store)
    if isinstance(source, onnx.ModelProto):
        try:
            data = source.SerializeToString()
        except (EncodeError, ValueError) as error:
            raise LoadError(
                "the ModelProto cannot be serialised, as it exceeds 2 GiB or lacks a part: save it with external data, "
                "and pass the path."
            ) from error
    elif isinstance(source, bytes | bytearray | memoryview):
        data = source if isinstance(source, bytes) else bytes(source)  # a copy, since the caller may change the buffer
    elif hasattr(source, "read"):
        data = source.read()
    else:
        raise SourceTypeError(
            f"a model is a path, bytes, an open file, a ModelProto or an onnx_ir.Model, not {type(source)}."
        )
    if not isinstance(data, bytes):
        raise LoadError("the file is open in text mode: open it with mode 'rb'.")
    return _parse(memoryview(data), memoryview(data), store, "the data"), DataFolder()


def _parse(data: memoryview, source: DataFile | memoryview, store: TensorStore, title: str) -> onnx.ModelProto:
    """Return the parsed model, with tickets in the place of large tensors."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(cut_weights(data, lambda offset, length: store.put(StoredBytes(source, offset, length))))
        problem = "" if model.HasField("graph") else "it holds no graph"
    except (WireError, DecodeError, UnicodeDecodeError) as error:  # the last if protobuf runs as plain Python
        problem = "subgraphs are nested too deeply" if "MaxDepth" in str(error) else str(error)
    if problem:
        guess = looks_like(bytes(data[:512]))
        raise LoadError(f"{title} is not an ONNX model, or a damaged one: {guess or problem}.")
    return model
