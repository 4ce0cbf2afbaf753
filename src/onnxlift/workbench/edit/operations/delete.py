"""`delete`: remove a node."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from onnxlift.errors import OnnxLiftError, quote

from ..addresses import find_node
from ..bodies import Body
from ..edited import EditedModel
from ..operation import Operation


@dataclass(frozen=True)
class Delete(Operation):
    """Remove a node. If its output is still read, say what to read instead: `bridge=True` takes the node's first input.

    An output of the model keeps its name. Weights that nobody reads any more stay: `remove_unused` drops them."""

    node: str
    bridge: bool = False
    inside: str | None = None

    def apply(self, model: EditedModel) -> None:
        body, node = find_node(model, self.node, self.inside)
        used = [name for name in node.output if name and next(body.references(name), None) is not None]
        if used and not self.bridge:
            raise OnnxLiftError(_why_not(body, node, used))
        model.touch(body, *node.output)
        if used:
            source = next((name for name in node.input if name), None)
            if source is None or used != [node.output[0]]:
                others = ", ".join(map(quote, used))
                raise OnnxLiftError(
                    f"node {quote(node.name)} ({node.op_type}) cannot be bridged, since "
                    + ("it has no input." if source is None else f"not only its first output is read: {others}.")
                )
            bridge(model, body, node, source)
        else:
            body.proto.node.remove(node)
            model.refresh()


def _why_not(body: Body, node: onnx.NodeProto, used: list[str]) -> str:
    readers = [each.node for name in used for each in body.references(name)]
    told = [f"node {quote(each.name)} ({each.op_type})" for each in readers if each is not None]
    if any(each is None for each in readers):
        told.append(f"the outputs of {body.title}")
    shown = ", ".join(dict.fromkeys(told[:4])) + (f" and {len(told) - 4} more" if len(told) > 4 else "")
    return (
        f"node {quote(node.name)} ({node.op_type}) cannot be deleted: {', '.join(map(quote, used))} is read by "
        f"{shown}. Let them read its first input (bridge=True, --bypass), or another value first (replace_value)."
    )


def bridge(model: EditedModel, body: Body, node: onnx.NodeProto, source: str) -> None:
    """Remove a node, and let all readers of its first output read `source`. An output of the graph keeps its name."""
    name = node.output[0]
    is_output = name in body.outputs
    producer = body.producers.get(source)
    can_take_name = producer is not None and source not in body.outputs
    if is_output and not can_take_name:
        # Nobody else can have the name: an input, a constant or a value of the graph around it keeps its own.
        node.op_type, node.domain, node.overload = "Identity", "", ""
        node.input[:] = [source]
        node.output[:] = [name]
        del node.attribute[:]
        model.refresh()
        return
    body.proto.node.remove(node)
    model.refresh()
    if is_output:
        _merge(model, body, source, name)
        return
    for reference in list(body.references(name)):
        reference.set(source)
    model.refresh()


def _merge(model: EditedModel, body: Body, source: str, name: str) -> None:
    """Give the value `source` the name of a value that nobody computes any more."""
    infos = [info for info in body.proto.value_info if info.name != source]
    del body.proto.value_info[:]
    body.proto.value_info.extend(infos)
    model.rename_value(body, source, name)
