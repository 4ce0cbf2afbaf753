"""Write a model to an open file piece by piece, with no more than one tensor in memory.

protobuf holds a whole message in memory, twice, to write it. But a message is only its fields one after the other, each
with its length in front. So the small parts are serialised by protobuf, and the weights are copied in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import BinaryIO

import onnx
import onnx_ir as ir

from onnxlift.errors import OutputError

from .proto import LARGEST_PROTO, Stored

Progress = Callable[[int, int], None]
"""Called with the bytes of weights that are written, and with all there are."""

_GRAPH, _INITIALIZER, _RAW_DATA = (7 << 3) | 2, (5 << 3) | 2, (9 << 3) | 2
"""The tags of the fields ModelProto.graph, GraphProto.initializer and TensorProto.raw_data: number and wire type."""


def write_stream(
    proto: onnx.ModelProto, tensors: Iterable[Stored], file: BinaryIO, on_progress: Progress | None = None
) -> None:
    """Write the proto, with the numbers of its initialisers in their places. The proto is used up."""
    numbers = {each.index: each.tensor for each in tensors}
    parts = [
        (_initialiser(tensor.SerializeToString(deterministic=True), numbers.get(index)), numbers.get(index))
        for index, tensor in enumerate(proto.graph.initializer)
    ]
    proto.graph.ClearField("initializer")
    graph = proto.graph.SerializeToString(deterministic=True)
    proto.ClearField("graph")
    total = sum(_size(tensor) for _, tensor in parts)
    length = len(graph) + sum(len(field) for field, _ in parts) + total
    head = proto.SerializeToString(deterministic=True)
    if len(head) + length > LARGEST_PROTO:
        raise OutputError(
            "the model exceeds 2 GiB, which no single ONNX file can hold: leave --external-data at auto, or name a "
            "file for the weights."
        )
    done = 0
    file.write(head + _varint(_GRAPH) + _varint(length) + graph)
    for field, tensor in parts:
        file.write(field)
        if tensor is not None:
            write_raw(tensor, file)
            done += tensor.nbytes
            if on_progress is not None:
                on_progress(done, total)


def write_raw(tensor: ir.TensorProtocol, file: BinaryIO) -> None:
    """Write the numbers of a tensor in ONNX's raw encoding."""
    if isinstance(tensor, ir.LazyTensor):
        tensor = tensor.raw()
    own = getattr(type(tensor), "tofile", None)
    if own is not None and type(tensor).__module__.startswith("onnxlift"):
        own(tensor, file)  # in chunks, straight from one file to the other
    else:
        file.write(tensor.tobytes())


def _initialiser(header: bytes, tensor: ir.TensorProtocol | None) -> bytes:
    """Return the field of an initialiser, up to its numbers."""
    if tensor is None:
        return _varint(_INITIALIZER) + _varint(len(header)) + header
    raw = _varint(_RAW_DATA) + _varint(tensor.nbytes)
    return _varint(_INITIALIZER) + _varint(len(header) + len(raw) + tensor.nbytes) + header + raw


def _size(tensor: ir.TensorProtocol | None) -> int:
    return 0 if tensor is None else tensor.nbytes


def _varint(number: int) -> bytes:
    """Return a number in protobuf's encoding: seven bits a byte, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
