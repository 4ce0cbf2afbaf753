"""Look inside a node to blame that holds graphs: a branch of an If, the body of a Loop, a function.

The part of the model that was cut out is opened: what is inside becomes the main graph, and what it captures an input,
whose value is known. Then the two are bisected again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxlift.ir.load import load
from onnxlift.ir.writing.proto import to_proto
from onnxlift.rewriting.normal_form import inline_functions

from .report import BisectReport, Culprit
from .reproducer import Reproducer

MOST_ITERATIONS = 4
"""So many rounds of a loop are looked into."""

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
    for opened in _open(parts, found):
        inner = deeper(opened.models, opened.inputs)
        if inner.culprit is not None:
            inside = _within(inner.culprit, opened.graph)
            better = inner.reproducer or found
            return replace(report, culprit=replace(culprit, inside=inside), reproducer=better)
        if inner.passed and not opened.graph.startswith("round"):
            break
    return report


def _within(culprit: Culprit, graph: str) -> Culprit:
    return replace(culprit, graph=graph)


def _open(parts: list[onnx.ModelProto], found: Reproducer) -> Iterator[_Opened]:
    """Yield what is inside the only node of the parts; nothing if there is nothing."""
    nodes = [part.graph.node[0] for part in parts if len(part.graph.node) == 1]
    kinds = {node.op_type for node in nodes}
    if len(nodes) != len(parts) or len(kinds) != 1:
        return
    called = [
        any((each.domain, each.name) == (node.domain, node.op_type) for each in part.functions)
        for node, part in zip(nodes, parts, strict=True)
    ]
    feeds = [
        {name: found.inputs[key] for name, key in feed.items()} for feed, _ in zip(found.feeds, parts, strict=False)
    ]
    if all(called):
        title = f"function {nodes[0].domain}::{nodes[0].op_type}"
        yield _Opened(tuple(_inlined(part) for part in parts), feeds[0], title)
    elif kinds == {"If"}:
        condition = _known(parts[0], nodes[0].input[0], feeds[0])
        branch = "then_branch" if condition is not None and bool(condition.reshape(-1)[0]) else "else_branch"
        graphs = [_graph(node, branch) for node in nodes]
        if condition is not None and all(graph is not None for graph in graphs):
            models = tuple(_opened(part, graph) for part, graph in zip(parts, graphs, strict=True) if graph)
            yield _Opened(models, feeds[0], branch)
    elif kinds == {"Loop"}:
        yield from _rounds(parts, nodes, feeds[0])


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


def _rounds(parts: list[onnx.ModelProto], nodes: list[onnx.NodeProto], feeds: Mapping[str, Any]) -> Iterator[_Opened]:
    """Yield the body of a loop with the values of its first rounds, as the first model computes them."""
    graphs = [body for node in nodes if (body := _graph(node, "body")) is not None]
    if len(graphs) != len(nodes):
        return
    known = [_known(parts[0], name, feeds) for name in nodes[0].input[2:]]
    if any(value is None for value in known):
        return
    condition = _known(parts[0], nodes[0].input[1], feeds) if len(nodes[0].input) > 1 else None
    values = [np.asarray(0, np.int64), np.asarray(True if condition is None else condition), *known]
    for number in range(MOST_ITERATIONS):
        names = [each.name for each in graphs[0].input]
        own = dict(zip(names, values, strict=True))
        arrays = [dict(zip((each.name for each in graph.input), values, strict=True)) for graph in graphs]
        models = tuple(_opened(part, graph, types) for part, graph, types in zip(parts, graphs, arrays, strict=True))
        yield _Opened(models, {**feeds, **own}, f"round {number} of the loop")
        return
