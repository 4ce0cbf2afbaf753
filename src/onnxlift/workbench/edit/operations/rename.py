"""`rename`: give a value or a node another name."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from onnxlift.errors import OnnxLiftError, quote

from ..addresses import NodePlace, find_node, find_value
from ..arguments import check_name
from ..edited import EditedModel
from ..operation import Operation


@dataclass(frozen=True)
class Rename(Operation):
    """Give a value or a node another name. An input or output of the model is renamed in its interface.

    If a node and the value that it computes have the same name, both get the new one. If some other node has the name,
    `kind` must say what is meant: "value" or "node"."""

    old: str
    new: str
    kind: str | None = None
    inside: str | None = None

    def apply(self, model: EditedModel) -> str:
        if self.kind not in (None, "value", "node"):
            raise OnnxLiftError(f'rename: kind is "value" or "node", not {quote(self.kind or "")}.')
        if self.old == self.new:
            return self.new
        nodes = [
            NodePlace(body, node)
            for body in model.bodies()
            for node in body.proto.node
            if node.name == self.old and self.inside in (None, body.address)
        ]
        is_value = any(body.defines(self.old) and self.inside in (None, body.address) for body in model.bodies())
        kind = self.kind or ("value" if is_value or not nodes else "node")
        if kind == "node":
            self._rename_node(model, find_node(model, self.old, self.inside))
            return self.new
        body, name = find_value(model, self.old, self.inside)
        model.check_free(body, self.new)
        producer = body.producers.get(name)
        if nodes and self.kind is None and [place.node for place in nodes] != [producer]:
            raise OnnxLiftError(
                f"{quote(self.old)} is the name of a value and of another node: say which by kind='value' or 'node'."
            )
        model.rename_value(body, name, self.new)
        if nodes and self.kind is None:
            self._rename_node(model, nodes[0])
        return self.new

    def _rename_node(self, model: EditedModel, place: NodePlace) -> None:
        if not self.new:
            raise OnnxLiftError("a node must have a name that is not empty.")
        check_name(model, place.body, self.new)
        node: onnx.NodeProto = place.node
        node.name = self.new
        model.refresh()
