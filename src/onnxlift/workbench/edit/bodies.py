"""The graphs of a model that is being edited: the main graph, functions, and the subgraphs inside either.

All of them are protos, in which values are names. So a draft may say anything: that a node reads a value that is not
there, for example. The gate tells of it when the draft is to become a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import onnx

from onnxlift.errors import quote
from onnxlift.ir.graph.functions import function_title
from onnxlift.ir.graph.nodes import plain_domain
from onnxlift.ir.reading.protos import graphs_of


@dataclass(frozen=True)
class Reference:
    """A place that reads a value: an input of `node`, or an output of a graph if there is no node."""

    names: Any
    index: int
    node: onnx.NodeProto | None = None

    def set(self, name: str) -> None:
        """Let this place read another value."""
        if isinstance(self.names[self.index], str):
            self.names[self.index] = name
        else:
            self.names[self.index].name = name


@dataclass(eq=False)
class Body:
    """A graph or the body of a function; `opsets` are the versions in force there.

    A subgraph has the body around it as its `parent`, and is the `attribute` of the node `holder`."""

    proto: onnx.GraphProto | onnx.FunctionProto
    opsets: Mapping[str, int]
    parent: Body | None = None
    holder: onnx.NodeProto | None = None
    attribute: str = ""
    inner: list[Body] = field(default_factory=list)

    def __post_init__(self) -> None:
        for node in self.proto.node:
            for attribute in node.attribute:
                for graph in graphs_of(attribute):
                    self.inner.append(Body(graph, self.opsets, self, node, attribute.name))

    @property
    def is_function(self) -> bool:
        return isinstance(self.proto, onnx.FunctionProto)

    @property
    def is_branch(self) -> bool:
        """Tell whether this is a branch of an If. What it declares as inputs are values of the graph around it."""
        return self.holder is not None and self.holder.op_type == "If" and not plain_domain(self.holder.domain)

    @property
    def root(self) -> Body:
        """The main graph or the function that this is, or is in."""
        return self if self.parent is None else self.parent.root

    @property
    def title(self) -> str:
        """What to call it in a message."""
        if self.holder is not None:
            return f"{self.attribute} of node {quote(self.holder.name)}"
        return f"function {self.address}" if self.is_function else "the main graph"

    @property
    def address(self) -> str:
        """What an operation says to mean this one (`inside`); empty for the main graph."""
        if self.holder is not None:
            return f"{self.holder.name}.{self.attribute}"
        if isinstance(self.proto, onnx.FunctionProto):
            return function_title((plain_domain(self.proto.domain), self.proto.name, self.proto.overload))
        return ""

    @cached_property
    def inputs(self) -> set[str]:
        """The names of the values that are given to it."""
        if isinstance(self.proto, onnx.FunctionProto):
            return set(self.proto.input)
        return set() if self.is_branch else {value.name for value in self.proto.input}

    @cached_property
    def constants(self) -> dict[str, onnx.TensorProto | onnx.SparseTensorProto]:
        """The initialisers by name."""
        if isinstance(self.proto, onnx.FunctionProto):
            return {}
        sparse = {tensor.values.name: tensor for tensor in self.proto.sparse_initializer}
        return sparse | {tensor.name: tensor for tensor in self.proto.initializer}

    @cached_property
    def producers(self) -> dict[str, onnx.NodeProto]:
        """The node that computes each value."""
        return {name: node for node in self.proto.node for name in node.output if name}

    @property
    def outputs(self) -> list[str]:
        """The names of the values that it gives, in their order."""
        if isinstance(self.proto, onnx.FunctionProto):
            return list(self.proto.output)
        return [value.name for value in self.proto.output]

    def defines(self, name: str) -> bool:
        """Tell whether a value of this name is given to it, held by it or computed in it."""
        return name in self.producers or name in self.constants or name in self.inputs

    def values(self) -> Iterator[str]:
        """Yield the names of all values that it defines."""
        yield from dict.fromkeys((*self.inputs, *self.constants, *self.producers))

    def tree(self) -> Iterator[Body]:
        """Yield this body and all subgraphs inside it."""
        yield self
        for body in self.inner:
            yield from body.tree()

    def inside(self, node: onnx.NodeProto) -> list[Body]:
        """Return the subgraphs that a node holds."""
        return [body for body in self.inner if body.holder is node]

    def scope_of(self, name: str) -> Body | None:
        """Return the body that defines the value that is meant by `name` in here; None if there is none."""
        body: Body | None = self
        while body is not None and not body.defines(name):
            body = body.parent
        return body

    def references(self, name: str) -> Iterator[Reference]:
        """Yield all places that read a value of this body, those in subgraphs included."""
        for node in self.proto.node:
            yield from (Reference(node.input, index, node) for index, each in enumerate(node.input) if each == name)
        yield from (Reference(self.proto.output, index) for index, each in enumerate(self.outputs) if each == name)
        for body in self.inner:
            if body.defines(name):
                continue
            if body.is_branch and isinstance(body.proto, onnx.GraphProto):
                declared = enumerate(body.proto.input)
                yield from (Reference(body.proto.input, index) for index, each in declared if each.name == name)
            yield from body.references(name)

    def position(self, node: onnx.NodeProto) -> int:
        """Return the place of a node in the order of the file."""
        return next(index for index, each in enumerate(self.proto.node) if each is node)


def value_infos(body: Body) -> list[onnx.ValueInfoProto]:
    """Return what a body says of types: of its inputs, its outputs, and the values inside."""
    if isinstance(body.proto, onnx.FunctionProto):
        return list(body.proto.value_info)
    return [*body.proto.input, *body.proto.output, *body.proto.value_info]
