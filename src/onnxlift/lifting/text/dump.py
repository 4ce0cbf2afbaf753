"""Write NAME.graph.txt for people to read: the typed graph in its normal form and as it is written, and between these
what each step changed, in the graph or in the tree of modules.

    conv1: Conv(x, conv1.weight, conv1.bias, pads=[1, 1, 1, 1]) -> c1 float32 (batch, 64, 112, 112)

This is always on, so it must be cheap. The line of a node is written again only if the node, its inputs or its outputs
have changed. Of a graph with more than `MAX_NODES` nodes, only the end is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.ir.graph.walk import all_nodes, subgraphs
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.tree.paths import Path

MAX_NODES = 10_000
MAX_ELEMENTS = 8
MAX_NAME = 120


class GraphDump:
    """The record of a graph through the stages. Call it after each stage with the stage's name and the model;
    `text(model)` gives the file."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._lines: dict[ir.Node, tuple[tuple[Any, ...], str]] = {}
        self._order: list[ir.Node] = []
        self._modules: dict[Path, str] = {}

    def copied(self) -> GraphDump:
        """Return a record of the same that goes on by itself."""
        other = GraphDump()
        other._parts, other._modules = [*self._parts], self._modules
        return other

    def __call__(self, step: str, subject: object) -> None:
        """Note what a step has changed in a graph, or in a tree of modules."""
        if isinstance(subject, ir.Model):
            self._note_graph(step, subject)
        elif isinstance(root := getattr(subject, "root", None), Module):
            self._note_modules(step, root)

    def _note_modules(self, step: str, root: Module) -> None:
        if not root.body.statements:  # nothing is lowered yet
            return
        before, after = self._modules, dict(islice(_module_lines(root), MAX_NODES))
        self._modules = after
        removed = [f"- {line}" for path, line in before.items() if after.get(path) != line]
        added = [f"+ {line}" for path, line in after.items() if before.get(path) != line]
        if removed or added:
            self._parts.append("\n".join([f"# {step}: {len(after)} modules\n", *removed, *added]))

    def _note_graph(self, stage: str, model: ir.Model) -> None:
        before = {node: self._lines[node][1] for node in self._order}
        self._order = list(islice(all_nodes(model.graph), MAX_NODES + 1))
        if len(self._order) > MAX_NODES:
            self._order.clear()
            return
        after = {node: self._line(node) for node in self._order}
        if not self._parts:
            self._parts.append(f"# After {stage}\n\n{_whole(model, self._line)}")
            return
        removed = [f"- {line}" for node, line in before.items() if after.get(node) != line]
        added = [f"+ {line}" for node, line in after.items() if before.get(node) != line]
        if removed or added:
            self._parts.append("\n".join([f"# {stage}: {len(before)} -> {len(after)} nodes\n", *removed, *added]))

    def text(self, model: ir.Model) -> str:
        """Return the text of all that was recorded, and of the graph as it is now."""
        return "\n\n".join([*self._parts, f"# As it is written\n\n{_whole(model, node_line)}"]) + "\n"

    def _line(self, node: ir.Node) -> str:
        # `data`: the mapping's own iteration is slow, and every step asks for the line of every node.
        state = (node.op_type, node.inputs, node.outputs, *node.attributes.data.values())
        known = self._lines.get(node)
        if known is None or known[0] != state:
            known = self._lines[node] = (state, node_line(node))
        return known[1]


def _module_lines(root: Module) -> Iterator[tuple[Path, str]]:
    """Yield a line for each module: what it takes and gives, what it holds, and how long its forward is."""
    for module in root.walk():
        inputs = ", ".join(shown(value.name) for value in module.inputs)
        counts = (
            f"{len(module.outputs)} results, {len(module.members)} members, {len(module.body.statements)} statements"
        )
        yield module.path, f"{'.'.join(module.path) or 'the model'}({inputs}): {counts}"


def _whole(model: ir.Model, line: Callable[[ir.Node], str]) -> str:
    return "\n".join(_graph_lines(model.graph, "", line))


def _graph_lines(graph: ir.Graph, indent: str, line: Callable[[ir.Node], str]) -> Iterator[str]:
    for value in graph.inputs:
        yield f"{indent}input {shown(value.name)}: {type_of(value)}"
    for value in graph.initializers.values():
        yield f"{indent}constant {shown(value.name)}: {type_of(value)}{_elements(value)}"
    for node in graph:
        yield indent + line(node)
        for inner in subgraphs(node):
            yield f"{indent}  graph {shown(inner.name)}"
            yield from _graph_lines(inner, indent + "    ", line)
    for value in graph.outputs:
        yield f"{indent}output {shown(value.name)}: {type_of(value)}"


def node_line(node: ir.Node) -> str:
    """Write a node on one line: its name, operator, inputs, attributes, and outputs with their types."""
    arguments = ["_" if value is None else shown(value.name) for value in node.inputs]
    arguments += [f"{name}={_attribute(attribute)}" for name, attribute in sorted(node.attributes.items())]
    outputs = ", ".join(f"{shown(value.name)} {type_of(value)}" for value in node.outputs if value.name)
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    return f"{shown(node.name)}: {shown(operator)}({', '.join(arguments)}) -> {outputs}"


def shown(text: str | None) -> str:
    """Return a name of the model so that it fits on one of our lines: without control characters, and cut if it is too
    long."""
    text = text or ""
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}..."


def _attribute(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"@{shown(attribute.ref_attr_name)}"
    value = attribute.value
    if isinstance(value, list | tuple):
        items = ", ".join(_plain(item) for item in value[:MAX_ELEMENTS])
        return f"[{items}, ...]" if len(value) > MAX_ELEMENTS else f"[{items}]"
    if attribute.type is ir.AttributeType.TENSOR:
        return f"{value.dtype.name.lower()} {list(value.shape.numpy())}"
    if attribute.type is ir.AttributeType.GRAPH:
        return f"graph {shown(value.name)}"
    return _plain(value)


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    return shown(repr(value)) if isinstance(value, str | bytes | int) else type(value).__name__


def _elements(value: ir.Value) -> str:
    """Return the elements of a constant that has only a few, as ` = [1, 2]`."""
    size = type_of(value).size
    if value.const_value is None or size is None or size > MAX_ELEMENTS:
        return ""
    return f" = [{', '.join(_plain(item) for item in value.const_value.numpy().reshape(-1).tolist())}]"
