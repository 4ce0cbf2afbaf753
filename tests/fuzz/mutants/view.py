"""All the parts of a model by kind, wherever they lie: in the graph, in subgraphs, in functions."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import onnx

Region = onnx.GraphProto | onnx.FunctionProto


@dataclass
class View:
    """The parts of `model`. After a change it may be out of date: take a new one."""

    model: onnx.ModelProto
    strangers: list[onnx.ModelProto]
    """Other models, to take parts from."""
    regions: list[Region] = field(default_factory=list)
    nodes: list[tuple[Region, onnx.NodeProto]] = field(default_factory=list)
    attributes: list[onnx.AttributeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)
    values: list[onnx.ValueInfoProto] = field(default_factory=list)

    @classmethod
    def of(cls, model: onnx.ModelProto, strangers: list[onnx.ModelProto] | None = None) -> View:
        view = cls(model, strangers or [])
        view._graph(model.graph)
        for function in model.functions:
            view.regions.append(function)
            view.values.extend(function.value_info)
            view._nodes(function)
            for attribute in function.attribute_proto:
                view._attribute(attribute)
        return view

    def _graph(self, graph: onnx.GraphProto) -> None:
        self.regions.append(graph)
        self.tensors.extend(graph.initializer)
        for sparse in graph.sparse_initializer:
            self.tensors.extend((sparse.values, sparse.indices))
        for group in (graph.input, graph.output, graph.value_info):
            self.values.extend(group)
        self._nodes(graph)

    def _nodes(self, region: Region) -> None:
        for node in region.node:
            self.nodes.append((region, node))
            for attribute in node.attribute:
                self._attribute(attribute)

    def _attribute(self, attribute: onnx.AttributeProto) -> None:
        self.attributes.append(attribute)
        if attribute.HasField("t"):
            self.tensors.append(attribute.t)
        self.tensors.extend(attribute.tensors)
        if attribute.HasField("sparse_tensor"):
            self.tensors.extend((attribute.sparse_tensor.values, attribute.sparse_tensor.indices))
        for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            self._graph(graph)

    def names(self) -> list[str]:
        """The names of all values that are written somewhere."""
        names = [name for _, node in self.nodes for name in node.output if name]
        return names + [value.name for value in self.values] + [tensor.name for tensor in self.tensors if tensor.name]


class NotApplicableError(Exception):
    """The model has no part that this change could be made to."""


Change = Callable[[random.Random, View], None]
"""A change of the model of a view, in place. Raises NotApplicableError where there is nothing to change."""


T = TypeVar("T")


def pick(choose: random.Random, parts: list[T]) -> T:
    """One of the parts."""
    if not parts:
        raise NotApplicableError
    return choose.choice(parts)
