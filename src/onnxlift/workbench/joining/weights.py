"""Find initialisers of two models that hold the same numbers. Their bytes pass through a hash, chunk by chunk."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any, BinaryIO, cast

import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.writing.stream import write_raw

_Kind = tuple[ir.DataType, tuple[int, ...]]


def equal_weights(first: ir.Graph, second: ir.Graph, apart: Collection[ir.Value]) -> dict[ir.Value, ir.Value]:
    """Return the initialisers of the second graph that are in the first as well, with those of the first.

    Of several, the one of the same name is taken. Those in `apart` stay by themselves."""
    by_kind: dict[_Kind, list[ir.Value]] = {}
    for value in first.initializers.values():
        kind = _kind(value)
        if kind is not None:
            by_kind.setdefault(kind, []).append(value)
    hashes: dict[ir.Value, bytes] = {}
    found: dict[ir.Value, ir.Value] = {}
    for value in second.initializers.values():
        kind = _kind(value)
        candidates = by_kind.get(kind, []) if kind is not None and value not in apart else []
        same = [each for each in candidates if _hash(each, hashes) == _hash(value, hashes)]
        if same:
            found[value] = next((each for each in same if each.name == value.name), same[0])
    return found


def _kind(value: ir.Value) -> _Kind | None:
    tensor = constant(value)
    if tensor is None or tensor.dtype == ir.DataType.STRING:
        return None
    return tensor.dtype, tuple(tensor.shape.numpy())


def _hash(value: ir.Value, known: dict[ir.Value, bytes]) -> bytes:
    if value not in known:
        sink = _Sink()
        assert value.const_value is not None
        write_raw(value.const_value, cast(BinaryIO, sink))
        known[value] = sink.hash.digest()
    return known[value]


class _Sink:
    """A file that keeps only the hash of what is written to it."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return len(data)
