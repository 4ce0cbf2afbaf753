"""Look inside a node to blame that holds graphs: a branch of an If, a round of a Loop or a Scan, a function.

The part of the model that was cut out is opened: what is inside becomes the main graph, and what it captures an input,
whose value is known. Then the two are bisected again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import onnx
from onnx import helper

from onnxlift.ir.load import load
from onnxlift.ir.writing.proto import to_proto
from onnxlift.rewriting.normal_form import inline_functions

from .report import BisectReport
from .reproducer import Reproducer
from .rounds import find_round, known, repeated


class Deeper(Protocol):
    """The bisection that has found the node."""

    def bisect(self, models: Sequence[bytes], inputs: Mapping[str, Any], *, exactly: bool) -> BisectReport:
        """Bisect models that were opened, on these inputs; with `exactly`, every difference counts."""
        ...

    def run(self, data: bytes, inputs: Mapping[str, Any]) -> Sequence[Any]:
        """Run a part on the first side, and return its outputs."""
        ...

    def agree(self, parts: Sequence[tuple[bytes, Mapping[str, Any]]], exactly: bool) -> bool:
        """Run the parts of both sides, each on its inputs, and tell whether all outputs agree."""
        ...


@dataclass(frozen=True)
class _Opened:
    """What is inside a node, as a model of its own, with its inputs, and what to call it."""

    models: tuple[bytes, ...]
    inputs: Mapping[str, Any]
    graph: str
    is_repeated: bool = False


def look_inside(report: BisectReport, deeper: Deeper) -> BisectReport:
    """Return the report with the node inside the one to blame, if that holds a graph or calls a function.

    What grows slowly over the rounds of a loop is within tolerance in each of them. Then the first digit counts, if the
    models differ where it does."""
    found, culprit = report.reproducer, report.culprit
    if found is None or culprit is None or found.found is not None:
        return report
    parts = [onnx.load_from_string(data) for data in (found.model, found.other) if data is not None]
    for exactly in (False, True):
        opened = _open(parts, found, deeper, exactly)
        if opened is None:
            return report
        inner = deeper.bisect(opened.models, opened.inputs, exactly=exactly)
        if inner.culprit is not None and (not exactly or inner.culprit.changes):
            inside = replace(inner.culprit, graph=opened.graph)
            better = inner.reproducer or found
            return replace(report, culprit=replace(culprit, inside=inside), reproducer=better)
        if not opened.is_repeated or len(parts) == 1:
            return report
    return report


def _open(parts: list[onnx.ModelProto], found: Reproducer, deeper: Deeper, exactly: bool) -> _Opened | None:
    """Open the only node of the parts; None if there is nothing inside, or its values are not known."""
    nodes = [part.graph.node[0] for part in parts if len(part.graph.node) == 1]
    if len(nodes) != len(parts) or len({node.op_type for node in nodes}) != 1:
        return None
    feeds = [{name: found.inputs[key] for name, key in each.items()} for each in found.feeds]
    if all(_is_call(part) for part in parts):
        title = f"function {nodes[0].domain}::{nodes[0].op_type}"
        return _Opened(tuple(_inlined(part) for part in parts), feeds[0], title)
    if nodes[0].op_type == "If":
        return _branch(parts, nodes, feeds[0])
    return _round(parts, nodes, feeds, deeper, exactly) if nodes[0].op_type in ("Loop", "Scan") else None


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
    condition = known(parts[0], nodes[0].input[0], feeds)
    if condition is None:
        return None
    name = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    graphs = [graph for node in nodes if (graph := _graph(node, name)) is not None]
    models = tuple(_opened(part, graph) for part, graph in zip(parts, graphs, strict=True))
    return _Opened(models, feeds, name)


def _round(
    parts: list[onnx.ModelProto],
    nodes: list[onnx.NodeProto],
    feeds: Sequence[Mapping[str, Any]],
    deeper: Deeper,
    exactly: bool,
) -> _Opened | None:
    """Open the body of a Loop or a Scan, with the values of the first round in which the two sides differ."""
    both = parts if len(parts) == 2 else parts * 2
    sides = [side for part, given in zip(both, feeds, strict=True) if (side := repeated(part, given)) is not None]
    graphs = [body for node in nodes if (body := _graph(node, "body")) is not None]
    found = find_round(sides, deeper.run, deeper.agree, exactly=exactly) if len(sides) == 2 else None
    if found is None or any(len(graph.input) != len(found.values) for graph in graphs):
        return None
    given = [dict(zip((each.name for each in graph.input), found.values, strict=True)) for graph in graphs]
    models = tuple(map(_opened, parts, graphs, given))
    word = "loop" if nodes[0].op_type == "Loop" else "scan"
    return _Opened(models, {**feeds[0], **given[0]}, f"round {found.number} of the {word}", is_repeated=True)
