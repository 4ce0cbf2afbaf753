"""A model without a single name: what is left when nothing but the graph itself can tell how it was made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx
from onnx import inliner


def strip_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which every value is called `n0`, `n1`, ... and every free size `d0`, `d1`, ...; nodes, graphs and
    functions have no names, and metadata and inferred types are gone. Inputs and outputs keep their order."""
    stripped = inliner.inline_local_functions(model)
    values: dict[str, str] = {"": ""}
    sizes: dict[str, str] = {"": ""}
    for graph in _graphs(stripped.graph):
        _strip_graph(graph, values, sizes)
    for field in ("producer_name", "producer_version", "domain", "doc_string", "metadata_props"):
        stripped.ClearField(field)
    return stripped


def _strip_graph(graph: onnx.GraphProto, values: dict[str, str], sizes: dict[str, str]) -> None:
    graph.name = "graph"
    for field in ("doc_string", "metadata_props", "value_info", "quantization_annotation"):
        graph.ClearField(field)
    for value in (*graph.input, *graph.output):
        value.name = values.setdefault(value.name, f"n{len(values) - 1}")
        value.ClearField("doc_string")
        value.ClearField("metadata_props")
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                dim.dim_param = sizes.setdefault(dim.dim_param, f"d{len(sizes) - 1}")
    for tensor in graph.initializer:
        tensor.name = values.setdefault(tensor.name, f"n{len(values) - 1}")
        tensor.ClearField("doc_string")
        tensor.ClearField("metadata_props")
    for node in graph.node:
        for field in ("name", "doc_string", "metadata_props"):
            node.ClearField(field)
        node.input[:] = _renamed(node.input, values)
        node.output[:] = _renamed(node.output, values)


def _renamed(names: Iterable[str], values: dict[str, str]) -> list[str]:
    return [values.setdefault(name, f"n{len(values) - 1}") for name in names]


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and all subgraphs, the outer ones first."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _graphs(inner)
