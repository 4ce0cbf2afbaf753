"""Look inside a node to blame that holds graphs: a branch of an If, the body of a Loop, a function.

The part of the model that was cut out is opened: what is inside becomes the main graph, and what it captures an input,
whose value is known. Then the two are bisected again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxlift.ir.load import load
from onnxlift.ir.writing.proto import to_proto
from onnxlift.rewriting.normal_form import inline_functions

from .report import BisectReport
from .reproducer import Reproducer

Deeper = Callable[[Sequence[bytes], Mapping[str, Any]], BisectReport]
"""Bisects models that were opened, on these inputs."""


@dataclass(frozen=True)
class _Opened:
    """What is inside a node, as a model of its own, with its inputs, and what to call it."""

    models: tuple[bytes, ...]
    inputs: Mapping[str, Any]
    graph: str


def look_inside(report: BisectReport, deeper: Deeper) -> BisectReport:
    """Return the report with the node inside the one to blame, if that holds a graph or calls a function."""
    found, culprit = report.reproducer, report.culprit
    if found is None or culprit is None or found.found is not None:
        return report
    parts = [onnx.load_from_string(data) for data in (found.model, found.other) if data is not None]
    opened = _open(parts, found)
    if opened is not None:
        inner = deeper(opened.models, opened.inputs)
        if inner.culprit is not None:
            inside = replace(inner.culprit, graph=opened.graph)
            better = inner.reproducer or found
            return replace(report, culprit=replace(culprit, inside=inside), reproducer=better)
    return report


def _open(parts: list[onnx.ModelProto], found: Reproducer) -> _Opened | None:
    """Open the only node of the parts; None if there is nothing inside, or its values are not known."""
    nodes = [part.graph.node[0] for part in parts if len(part.graph.node) == 1]
    if len(nodes) != len(parts) or len({node.op_type for node in nodes}) != 1:
        return None
    feeds = {name: found.inputs[key] for name, key in found.feeds[0].items()}
    if all(_is_call(part) for part in parts):
        title = f"function {nodes[0].domain}::{nodes[0].op_type}"
        return _Opened(tuple(_inlined(part) for part in parts), feeds, title)
    if nodes[0].op_type == "If":
        return _branch(parts, nodes, feeds)
    return _first_round(parts, nodes, feeds) if nodes[0].op_type == "Loop" else None


def _is_call(part: onnx.ModelProto) -> bool:
    node = part.graph.node[0]
    return any((each.domain, each.name) == (node.domain, node.op_type) for each in part.functions)


def _inlined(part: onnx.ModelProto) -> bytes:
    model = load(part)
    inline_functions.run(model)
    data: bytes = to_proto(model).SerializeToString()
    return data


def _graph(node: onnx.NodeProto, name: str) -> onnx.GraphProto | None:
    return next((each.g for each in node.attribute if each.name == name and each.HasField("g")), None)


def _known(part: onnx.ModelProto, name: str, feeds: Mapping[str, Any]) -> Any:
    """Return the value of an input of the node; None if it is not there."""
    if name in feeds:
        return np.asarray(feeds[name])
    tensor = next((each for each in part.graph.initializer if each.name == name), None)
    return None if tensor is None else numpy_helper.to_array(tensor)


def _opened(part: onnx.ModelProto, graph: onnx.GraphProto, types: Mapping[str, Any] | None = None) -> bytes:
    """Return a graph inside a part as a model: it may read all that the part does, and its own inputs."""
    model = onnx.ModelProto()
    model.CopyFrom(part)
    del model.graph.node[:]
    model.graph.node.extend(graph.node)
    for field, added in (
        (model.graph.initializer, graph.initializer),
        (model.graph.sparse_initializer, graph.sparse_initializer),
    ):
        field.extend(added)
    for each in graph.input:
        array = (types or {})[each.name]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        model.graph.input.append(helper.make_tensor_value_info(each.name, kind, [None] * array.ndim))
    del model.graph.value_info[:]
    outputs = list(graph.output)
    for place, each in enumerate(outputs):
        if not each.HasField("type") and place < len(part.graph.output) and not graph.input:
            each.type.CopyFrom(part.graph.output[place].type)
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    data: bytes = model.SerializeToString()
    return data


def _branch(parts: list[onnx.ModelProto], nodes: list[onnx.NodeProto], feeds: Mapping[str, Any]) -> _Opened | None:
    """Open the branch of an If that was taken."""
    condition = _known(parts[0], nodes[0].input[0], feeds)
    if condition is None:
        return None
    name = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    graphs = [graph for node in nodes if (graph := _graph(node, name)) is not None]
    models = tuple(_opened(part, graph) for part, graph in zip(parts, graphs, strict=True))
    return _Opened(models, feeds, name)


def _first_round(parts: list[onnx.ModelProto], nodes: list[onnx.NodeProto], feeds: Mapping[str, Any]) -> _Opened | None:
    """Open the body of a loop, with the values of its first round."""
    graphs = [body for node in nodes if (body := _graph(node, "body")) is not None]
    states = [_known(parts[0], name, feeds) for name in nodes[0].input[2:]]
    if any(value is None for value in states):
        return None
    condition = _known(parts[0], nodes[0].input[1], feeds) if len(nodes[0].input) > 1 else None
    going = np.asarray(True) if condition is None else condition.reshape(())
    values = [np.asarray(0, np.int64), going, *states]
    given = [dict(zip((each.name for each in graph.input), values, strict=True)) for graph in graphs]
    models = tuple(map(_opened, parts, graphs, given))
    return _Opened(models, {**feeds, **given[0]}, "the first round of the loop")
