"""What rules look at: the file as it was read, and the graph that was built from it, with all types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import onnx
import onnx_ir as ir

from onnxlift.errors import quote
from onnxlift.ir.checking.rules.rule import Subject
from onnxlift.ir.graph.functions import function_title
from onnxlift.ir.graph.nodes import plain_domain
from onnxlift.ir.graph.walk import Region, regions
from onnxlift.ir.reading.protos import graphs_of
from onnxlift.workbench.runtimes import Runtime

from .rule import Place


@dataclass(frozen=True)
class Body:
    """The main graph, a subgraph or a function of the file. `title` says which, `outer` are the bodies around it."""

    title: str
    nodes: Sequence[onnx.NodeProto]
    graph: onnx.GraphProto | None = None
    function: onnx.FunctionProto | None = None
    outer: tuple[Body, ...] = ()

    @cached_property
    def defined(self) -> frozenset[str]:
        """The names of all values that are defined here, and not around it."""
        names = {name for node in self.nodes for name in node.output}
        if self.graph is not None:
            names |= {value.name for value in (*self.graph.input, *self.graph.initializer)}
            names |= {tensor.values.name for tensor in self.graph.sparse_initializer}
        if self.function is not None:
            names |= {*self.function.input}
        return frozenset(names - {""})

    @property
    def top(self) -> Body:
        """The main graph or the function that this body is, or is in. Names of nodes are unique there."""
        return self.outer[0] if self.outer else self

    def place(self, index: int) -> Place:
        """Return how a finding calls the node at `index`."""
        node = self.nodes[index]
        operator = node.op_type if node.op_type.isidentifier() and len(node.op_type) <= 200 else quote(node.op_type)
        where = f" of {self.title}" if self.outer or self.function is not None else ""
        name = quote(node.name) if node.name else f"number {index}"
        return Place(f"node {name} ({operator}){where}", node=node.name or None)


@dataclass(frozen=True)
class File:
    """A model as its file has it, checked in its form, but not yet in one spelling. Large tensors are left out.

    `runtime` is the release that the model is meant for, if the user has named one."""

    proto: onnx.ModelProto
    runtime: Runtime | None = None

    @cached_property
    def bodies(self) -> tuple[Body, ...]:
        """The main graph and each function, each followed by the subgraphs inside it, at any depth."""
        graph = Body("the graph", self.proto.graph.node, graph=self.proto.graph)
        functions = (
            Body(f"function {function_title((each.domain, each.name, each.overload))}", each.node, function=each)
            for each in self.proto.functions
        )
        return tuple(body for top in (graph, *functions) for body in _with_inner(top))

    @cached_property
    def opsets(self) -> dict[str, int]:
        """The opset that the model imports, by domain."""
        return {plain_domain(entry.domain): entry.version for entry in self.proto.opset_import}


def _with_inner(body: Body) -> Iterator[Body]:
    yield body
    for node in body.nodes:
        for attribute in node.attribute:
            for graph in graphs_of(attribute):
                title = f"{attribute.name} of {quote(node.name) if node.name else node.op_type}"
                yield from _with_inner(Body(title, graph.node, graph=graph, outer=(*body.outer, body)))


@dataclass(frozen=True)
class Graph:
    """A model that has passed the gate: constants are initialisers, and all values have their types and sizes."""

    model: ir.Model
    file: File
    regions: tuple[Region, ...] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "regions", tuple(regions(self.model)))

    def nodes(self, *op_types: str) -> Iterator[tuple[Region, ir.Node]]:
        """Yield all nodes of the default domain with one of these operators; of no operators, all nodes."""
        for region in self.regions:
            for node in region.graph:
                if not op_types or (node.op_type in op_types and node.domain == ""):
                    yield region, node

    def place(self, region: Region, node: ir.Node) -> Place:
        """Return how a finding calls a node."""
        return Place(Subject.of(self.model, region, node).place(), node=node.name)


def value_place(kind: str, name: str | None, region: Region | None = None) -> Place:
    """Return how a finding calls a value: `input 'x'`, `weight 'conv1.weight'`."""
    function = None if region is None else region.function
    where = "" if function is None else f" of function {function_title(function.identifier())}"
    return Place(f"{kind} {quote(name or '')}{where}", value=name)
