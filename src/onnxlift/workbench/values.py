"""Find values of a model by name: those of its main graph, and where a name leads that is not one of these."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Any

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.types import ValueType, type_of
from onnxlift.ir.graph.walk import all_nodes, inner_nodes, subgraphs
from onnxlift.ir.inference.infer import is_invented_size

MOST_NAMES = 20_000
"""The most names among which we look for one that is spelled nearly the same: that takes time."""


class MainValues:
    """The values of the main graph by name: inputs, initialisers, and outputs of nodes, in this order."""

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        graph = model.graph
        self.by_name = {value.name: value for value in graph.inputs if value.name}
        self.by_name |= graph.initializers
        self.by_name |= {value.name: value for node in graph for value in node.outputs if value.name}

    def find(self, name: str) -> ir.Value:
        """Return the value of that name. An error says where else the name is, or which names are nearly the same."""
        if name in self.by_name:
            return self.by_name[name]
        holder = self.holder(name)
        if holder is not None:
            results = ", ".join(quote(value.name) for value in holder.outputs if value.name)
            raise OnnxLiftError(
                f"value {quote(name)} is inside node {quote(holder.name or '')} ({holder.op_type}), whose graph may "
                f"run never, once or many times, so that outside there is no such value. What leaves it are the node's "
                f"outputs: {results or 'none'}."
            )
        for function in self.model.functions.values():
            if any(value.name == name for node in all_nodes(function.graph) for value in node.outputs):
                raise OnnxLiftError(
                    f"value {quote(name)} is inside the function {quote(function.name)}, which may be called several "
                    f"times, so that outside there is no such value. Take an output of a node that calls it."
                )
        raise OnnxLiftError(f"the model has no value named {quote(name)}{suggestion(name, self.by_name)}.")

    def holder(self, name: str) -> ir.Node | None:
        """Return the node of the main graph in whose subgraphs a value of that name is; None if there is none."""
        for node in self.model.graph:
            if node.attributes.data and any(name == each for each in _names_inside(node)):
                return node
        return None


def _names_inside(node: ir.Node) -> Iterator[str | None]:
    for each in (node, *inner_nodes(node)):
        if each is not node:
            yield from (value.name for value in each.outputs)
        for graph in subgraphs(each):
            yield from (value.name for value in graph.inputs)
            yield from graph.initializers


def suggestion(name: str, known: Collection[str]) -> str:
    """Return a clause with names that are spelled nearly the same; with the first few of all if there are none."""
    names = [each for each in known if len(each) <= 200][:MOST_NAMES]
    close = get_close_matches(name[:200], names, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {' or '.join(map(quote, close))}?".removesuffix("?")
    if not names:
        return ""
    return f"; there are {', '.join(map(quote, names[:5]))}{f' and {len(known) - 5:,} more' if len(known) > 5 else ''}"


def reads(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values of its own graph that a node reads, and those that its subgraphs capture."""
    yield from (value for value in node.inputs if value is not None)
    if node.attributes.data:
        for inner in inner_nodes(node):
            yield from (value for value in inner.inputs if value is not None and value.graph is node.graph)


def known_type(value: ir.Value) -> ValueType:
    """Return the type of a value, in which sizes that inference only named are unknown."""
    found = type_of(value)
    if found.shape is None:
        return found
    shape = tuple(None if isinstance(size, str) and is_invented_size(size) else size for size in found.shape)
    return ValueType(found.dtype, shape, found.kind)


def has_type(value: ir.Value) -> bool:
    """Tell whether the type of a value is known, so that it can be an input or an output of a model."""
    return value.type is not None and value.dtype != ir.DataType.UNDEFINED


def type_dict(type_: ValueType) -> dict[str, Any]:
    """Return a type as plain data: sizes are ints, names or formulas, or None."""
    dtype = None if type_.dtype is None else str(type_).removeprefix(f"{type_.kind} of ").partition(" ")[0]
    return {"kind": type_.kind, "dtype": dtype, "shape": None if type_.shape is None else list(type_.shape)}
