"""Put new numbers into a file: nothing else of it changes.

Tensors keep their places and their form (raw bytes, lists of numbers, a file beside the model). If nothing has changed,
the bytes are those of the original.
"""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper

from onnxlift.ir.building.spelling import name_nodes
from onnxlift.ir.reading.draft import Skeleton, unwrapped
from onnxlift.ir.reading.parse import skeleton_of
from onnxlift.ir.reading.protos import all_nodes
from onnxlift.ir.reading.structure import DEFAULTS_SINCE
from onnxlift.ir.reading.tensors import TensorStore
from onnxlift.ir.reading.weights import detach_weights, each_tensor, tensor_of
from onnxlift.ir.writing.files import write_parts
from onnxlift.ir.writing.proto import Stored
from onnxlift.ir.writing.stream import Progress, write_stream
from onnxlift.saving import save_files

from .solving import NewTensor
from .traced import Array

INLINE = 1024
"""Tensors of fewer bytes stand in the proto itself."""

# The fields that hold numbers in another form than raw bytes, and the type in which each takes them.
_FIELDS = {
    "float_data": np.float32,
    "double_data": np.float64,
    "int64_data": np.int64,
    "uint64_data": np.uint64,
}


@dataclass
class ModelFile:
    """An ONNX file: its proto without the large tensors, and what its bytes are as long as nothing changes."""

    proto: onnx.ModelProto
    store: TensorStore
    original: Path | bytes | None
    """The file, or its bytes; None if the model has never been one."""
    locations: dict[int, str]
    """The files beside the model, by the number of the tensor that is in it."""
    source: Skeleton
    """The model as it is in the file, with its external tensors."""
    initialisers: int = 0
    """The number of initialisers that the main graph has in the file."""
    is_changed: bool = False
    added: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, source: Any) -> ModelFile:
        """Read the model in `source`: all that `lift` takes."""
        source = unwrapped(source)
        if hasattr(source, "read"):
            source = source.read()
        if isinstance(source, onnx.ModelProto):
            source = source.SerializeToString()
        original: Path | bytes | None = None
        if isinstance(source, str | os.PathLike):
            original = Path(source)
        elif isinstance(source, bytes | bytearray | memoryview):
            original = source = bytes(source)
        found = skeleton_of(source)
        locations = {
            number: next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
            for number, tensor in enumerate(each_tensor(found.proto))
            if tensor.data_location == TensorProto.EXTERNAL
        }
        proto = onnx.ModelProto()
        proto.CopyFrom(found.proto)
        detach_weights(proto, found.store, found.folder)
        return cls(proto, found.store, original, locations, found, len(proto.graph.initializer))

    @property
    def skeleton(self) -> Skeleton:
        """The model as it is now, for `lift` and `load`."""
        return Skeleton(self.proto, self.store, self.source.folder)

    def put(self, numbers: dict[int, Callable[[], Array]]) -> list[str]:
        """Give tensors new numbers, by their place among the tensors of the file; return their names."""
        names = []
        for number, tensor in enumerate(each_tensor(self.proto)):
            if number in numbers:
                self._fill(tensor, numbers[number], number in self.locations)
                names.append(tensor.name)
        self.is_changed |= bool(numbers)
        return names

    def _fill(self, tensor: TensorProto, array: Callable[[], Array], is_outside: bool) -> None:
        dtype, shape = ir.DataType(tensor.data_type), tuple(tensor.dims)
        for name, kind in _FIELDS.items():
            if getattr(tensor, name):
                tensor.ClearField(name)
                getattr(tensor, name).extend(np.asarray(array()).reshape(-1).astype(kind).tolist())
                return
        tensor.ClearField("int32_data")
        tensor.raw_data = self._raw(array, dtype, shape, is_outside)

    def _raw(
        self, array: Callable[[], Array], dtype: ir.DataType, shape: tuple[int, ...], is_outside: bool = False
    ) -> bytes:
        """Return the bytes of a small tensor, or the ticket for a large one, which is computed when it is written."""

        def numbers() -> ir.TensorProtocol:
            return ir.Tensor(np.ascontiguousarray(array()).reshape(shape).astype(dtype.numpy(), copy=False), dtype)

        lazy = ir.LazyTensor(numbers, dtype, ir.Shape(shape))
        return lazy.tobytes() if lazy.nbytes < INLINE and not is_outside else self.store.put(lazy)

    def add(self, new: NewTensor) -> str | None:
        """Let nodes of the main graph read a new tensor, and return its name; None if a node is not in the file."""
        nodes = self._nodes()
        readers = [(nodes.get(name), op_type, place) for name, op_type, place in new.readers]
        if any(node is None or node.op_type != op_type for node, op_type, _ in readers):
            return None
        graph = self.proto.graph
        base = _base(new, readers)
        taken = {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
        taken |= {name for node in all_nodes(graph.node) for name in (*node.input, *node.output)}
        name = next(each for each in (base, *(f"{base}_{n}" for n in range(1, len(taken) + 2))) if each not in taken)
        shape = np.shape(new.array())
        tensor = graph.initializer.add(name=name, dims=shape, data_type=int(new.dtype))
        tensor.raw_data = self._raw(new.array, new.dtype, shape)
        if self.proto.ir_version < DEFAULTS_SINCE:
            graph.input.append(helper.make_tensor_value_info(name, int(new.dtype), shape))
        for node, _, place in readers:
            assert node is not None
            node.input.extend([""] * (place + 1 - len(node.input)))
            node.input[place] = name
        self.is_changed = True
        self.added.append(name)
        return name

    def _nodes(self) -> dict[str, onnx.NodeProto]:
        """Return the nodes of the main graph by the names that they have in a loaded model."""
        named = onnx.GraphProto()
        named.node.extend(self.proto.graph.node)
        name_nodes(all_nodes(named.node))
        return {copy.name: node for copy, node in zip(named.node, self.proto.graph.node, strict=True)}

    # ---------------------------------------------------------------------------------------------------------- write

    def to_bytes(self) -> bytes:
        """Return the file as bytes, with all tensors in it."""
        if not self.is_changed and not self.locations and self.original is not None:
            return self.original if isinstance(self.original, bytes) else self.original.read_bytes()
        file = io.BytesIO()
        write_stream(*self._parts(), file)
        return file.getvalue()

    def save(
        self, path: Path, *, external_data: str = "auto", force: bool = False, on_progress: Progress | None = None
    ) -> list[Path]:
        """Write the file to `path`; return the files that were written, the model first.

        With "auto", tensors that are in files beside the model go to one file beside the new one. If nothing has
        changed, all files are copied as they are, unless the model's own files would be replaced."""
        if not self.is_changed and external_data == "auto" and self.original is not None:
            copied = self._copy(path, self.original, force)
            if copied is not None:
                return copied
        proto, tensors = self._parts()
        outside = [number for number in self.locations if number < self.initialisers]
        return write_parts(
            proto,
            tensors,
            path,
            external_data=external_data,
            were_outside=outside,
            force=force,
            on_progress=on_progress,
        )

    def _copy(self, path: Path, original: Path | bytes, force: bool) -> list[Path] | None:
        """Copy the files of the original; None if they cannot be at their places beside the new file."""
        folder = self.source.folder
        files = {location: folder.file(location) for location in self.locations.values() if location}
        if any(Path(location).name != location for location in files):
            return None
        if any((path.parent / location).resolve() == file.path for location, file in files.items()):
            return None

        def write(target: Path) -> list[Path]:
            written = [target / path.name, *(target / location for location in files)]
            if isinstance(original, bytes):
                written[0].write_bytes(original)
            else:
                shutil.copyfile(original, written[0])
            for copy, file in zip(written[1:], files.values(), strict=True):
                with copy.open("wb") as opened:
                    file.copy_to(opened, 0, file.size)
            return written

        names = [path.name, *files]
        if len({*names}) < len(names):
            return None
        ours = re.compile("|".join(map(re.escape, names)))
        return save_files(path.parent, path.name, write, ours=ours, last=path.name, force=force)

    def _parts(self) -> tuple[onnx.ModelProto, list[Stored]]:
        """Return the proto without the numbers of its initialisers, and these numbers."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        tensors: list[Stored] = []
        inside = len(proto.graph.initializer)
        for number, tensor in enumerate(each_tensor(proto)):
            if tensor.data_type == TensorProto.STRING or self.store.get(tensor.raw_data) is None:
                continue
            kept = TensorProto()
            kept.CopyFrom(tensor)
            held = tensor_of(kept, self.store)
            if number < inside:
                tensor.ClearField("raw_data")
                tensors.append(Stored(number, held))
            else:
                tensor.raw_data = held.tobytes()
        return proto, tensors


def _base(new: NewTensor, readers: list[tuple[onnx.NodeProto | None, str, int]]) -> str:
    """Return what to call a new tensor: by its own name, as what its first reader has read, or after the reader."""
    node, _, place = readers[0]
    assert node is not None
    read = node.input[place] if place < len(node.input) else ""
    return new.name or read or f"{node.name or node.op_type}_{place}"
