"""Make a ModelProto of a model; or one without the bytes of its initialisers, for writers that stream these."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
import onnx_ir as ir

from onnxlift.errors import OutputError
from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.reading.structure import structure_of
from onnxlift.ir.reading.tensors import StoredBytes, TensorStore
from onnxlift.ir.reading.weights import each_tensor

LARGEST_PROTO = 2**31 - 1
"""The most bytes of a message that protobuf parses."""


@dataclass(frozen=True)
class Stored:
    """The numbers of an initialiser, which is at `index` among those of the main graph."""

    index: int
    tensor: ir.TensorProtocol


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """Return the model as a ModelProto with all its weights."""
    proto, initialisers = skeleton(model)
    size = proto.ByteSize() + sum(each.tensor.nbytes for each in initialisers)
    if size > LARGEST_PROTO:
        raise OutputError("the model exceeds 2 GiB, which no ModelProto can hold: save it to a file.")
    for each in initialisers:
        proto.graph.initializer[each.index].raw_data = each.tensor.tobytes()
    return proto


def skeleton(model: ir.Model) -> tuple[onnx.ModelProto, list[Stored]]:
    """Return the proto of a model in which the main graph's initialisers have no numbers, and these numbers.

    All other tensors (those of attributes and subgraphs) are in the proto. Initialisers of strings are, too."""
    _check_versions(model)
    store = TensorStore()
    proto, _ = structure_of(model, store)
    initialisers: list[Stored] = []
    for index, tensor in enumerate(proto.graph.initializer):
        stored = store.get(tensor.raw_data)
        if stored is not None:
            assert not isinstance(stored, StoredBytes)
            tensor.ClearField("raw_data")
            initialisers.append(Stored(index, stored))
    for tensor in each_tensor(proto):
        stored = store.get(tensor.raw_data)
        if stored is not None:
            assert not isinstance(stored, StoredBytes)
            tensor.raw_data = stored.tobytes()
    return proto, initialisers


def _check_versions(model: ir.Model) -> None:
    """Refuse a node that means something else in the opset that the model imports. No file could say what it means."""
    for region in regions(model):
        for node in region.graph:
            if node.version is None:
                continue
            own = schema_for(node.domain, node.op_type, node.version)
            imported = schema_for(node.domain, node.op_type, region.opsets.get(node.domain, 1))
            if (own and own.since_version) != (imported and imported.since_version):
                raise OutputError(
                    f"node {node.name!r} ({node.op_type}) is of opset {node.version}, and the model imports "
                    f"{region.opsets.get(node.domain, 1)}: change the opset of the model first (onnxlift opset)."
                )
