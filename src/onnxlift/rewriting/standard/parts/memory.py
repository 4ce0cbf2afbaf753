"""Remember a graph as it was before an idiom, and put back what the idiom took away.

    y = LayerNorm(x)   ->   the nodes between x and y that it replaced, as they were

An idiom keeps to two rules, on which this rests. A node that it puts in the place of another, under the name of its
output, computes the same. And a value that is read by others than the pattern stays. But on the way to a pattern, an
idiom may change nodes that only the pattern reads: an attention lets a transpose read its queries before they are
scaled. So a node that is still there counts as what it was only if its inputs do, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.graph.walk import regions, subgraphs


@dataclass(frozen=True)
class Remembered:
    """A node as it was."""

    node: ir.Node
    inputs: tuple[ir.Value | None, ...]
    outputs: tuple[ir.Value, ...]
    names: tuple[str | None, ...]
    attributes: tuple[ir.Attr, ...]


class Memory:
    """All nodes of a model as they were when it was made."""

    def __init__(self, model: ir.Model) -> None:
        self._graphs: dict[ir.Graph, dict[ir.Value, Remembered]] = {}
        self._named: dict[tuple[ir.Graph, str], ir.Value] = {}
        self._nodes: set[ir.Node] = set()
        self._now: dict[ir.Value, ir.Value | None] = {}
        for region in regions(model):
            made = self._graphs.setdefault(region.graph, {})
            for node in region.graph:
                outputs = tuple(node.outputs)
                names = tuple(value.name for value in outputs)
                remembered = Remembered(node, tuple(node.inputs), outputs, names, tuple(node.attributes.data.values()))
                self._nodes.add(node)
                for value, name in zip(outputs, names, strict=True):
                    made[value] = remembered
                    if name:
                        self._named[region.graph, name] = value

    def is_new(self, node: ir.Node) -> bool:
        """Tell whether a node stands in the place of others: it was not there, and the value that it makes was."""
        graph = node.graph
        assert isinstance(graph, ir.Graph)
        return node not in self._nodes and any((graph, value.name) in self._named for value in node.outputs)

    def look(self, model: ir.Model) -> None:
        """Find out which values are still there, unchanged, or made by a node that an idiom put there."""
        self._now = {}
        for region in regions(model):
            there = {value.name: value for node in region.graph for value in node.outputs if value.name}
            for value, was in self._graphs.get(region.graph, {}).items():
                name = was.names[was.outputs.index(value)]
                found = there.get(name) if name else None
                if found is not None and found.producer() is was.node and not self._is_unchanged(was):
                    found = None
                self._now[value] = found

    def _is_unchanged(self, was: Remembered) -> bool:
        if subgraphs(was.node):
            return True  # no pattern has one
        inputs = was.node.inputs
        return len(inputs) == len(was.inputs) and all(
            self._current(old) is new for old, new in zip(was.inputs, inputs, strict=True)
        )

    def _current(self, value: ir.Value | None) -> ir.Value | None:
        """Return what stands for a value by now: inputs and initialisers stand for themselves."""
        return value if value is None or value not in self._now else self._now[value]

    def replaced_by(self, node: ir.Node) -> list[Remembered]:
        """Return the nodes that a node stands for, each before those that read it. Call `look` before."""
        graph = node.graph
        assert isinstance(graph, ir.Graph)
        stack = [(self._named[graph, value.name], False) for value in node.outputs if value.name]
        found: dict[ir.Node, Remembered] = {}
        entered: set[ir.Value] = set()
        while stack:
            value, is_done = stack.pop()
            was = self._graphs[graph][value]
            if is_done:
                found.setdefault(was.node, was)
            elif value not in entered:
                entered.add(value)
                stack.append((value, True))
                stack += [(read, False) for read in was.inputs if read is not None and self._is_gone(graph, read)]
        return list(found.values())

    def _is_gone(self, graph: ir.Graph, value: ir.Value) -> bool:
        return value in self._graphs[graph] and self._now[value] is None

    def restore(self, edit: Edit, node: ir.Node) -> None:
        """Put what `node` stands for back in its place. Call `look` before."""
        olds = {value.name: value for value in node.outputs if value.name}
        for was in self.replaced_by(node):
            copy = ir.Node(
                was.node.domain,
                was.node.op_type,
                [self._current(value) for value in was.inputs],
                was.attributes,
                overload=was.node.overload,
                num_outputs=len(was.outputs),
                version=was.node.version,
                name=was.node.name,
                doc_string=was.node.doc_string,
                metadata_props=dict(was.node.metadata_props),
            )
            edit.graph.insert_before(node, copy)
            for value, name, new in zip(was.outputs, was.names, copy.outputs, strict=True):
                new.type, new.shape = value.type, value.shape
                if name in olds:
                    edit.take_over(olds[name], new)
                elif name:
                    new.name = edit.names.fresh(name)
                self._now[value] = new
        edit.drop(node)
