"""`replace_value`: let all readers of a value read another."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from onnxlift.errors import OnnxLiftError, quote

from ..addresses import find_value, visible
from ..edited import EditedModel
from ..operation import Operation


@dataclass(frozen=True)
class ReplaceValue(Operation):
    """Let all that read a value read another one. An output of the model keeps its name, and gives the other value.

    What computed the old value stays; `remove_unused` drops it if nobody reads it."""

    old: str
    new: str
    inside: str | None = None

    def apply(self, model: EditedModel) -> None:
        body, old = find_value(model, self.old, self.inside)
        new = visible(model, body, self.new)
        if old == new:
            raise OnnxLiftError(f"{quote(old)} and {quote(self.new)} are the same value.")
        is_output = old in body.outputs
        if is_output and old not in body.producers:
            raise OnnxLiftError(f"{quote(old)} is an output that no node computes: remove it, and add another.")
        spare = model.fresh(body, f"{old}_before")
        name = model.fresh(body, f"{old}_Identity")
        model.touch(body, old, readers_only=not is_output)
        for reference in list(body.references(old)):
            if reference.node is not None:
                reference.set(new)
        if is_output:
            producer = body.producers[old]
            producer.output[list(producer.output).index(old)] = spare
            body.proto.node.append(onnx.NodeProto(op_type="Identity", name=name, input=[new], output=[old]))
