"""Pair the values of two models: which value of the one should be which value of the other.

Nodes are matched as `diff` does it, by structure and not by names. Two values are a pair if the nodes that compute them
are matched, or if matched nodes read them in the same place. The second kind matters where a node was added, removed or
fused: what a node reads must be the same, whoever computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.rewriting.normal_form.constant_nodes import constant_tensor
from onnxlift.workbench.diff.comparing import Comparer
from onnxlift.workbench.diff.interface import paired, ports
from onnxlift.workbench.diff.numbers import Tolerance
from onnxlift.workbench.diff.verb import compare_graphs
from onnxlift.workbench.diff.view import Item, Side
from onnxlift.workbench.values import reads

Edge = tuple[ir.Value | None, ir.Value | None]
"""What two matched nodes read in one place; None if one of them reads nothing there."""


class Pair(NamedTuple):
    """A value of the first model, and the one of the second that should be equal to it."""

    a: ir.Value
    b: ir.Value


@dataclass(frozen=True)
class Step:
    """How a pair is computed: from which other pairs, and by which nodes of either model."""

    sources: tuple[Pair, ...]
    nodes: tuple[tuple[ir.Node, ...], tuple[ir.Node, ...]]


class Pairing:
    """The nodes of two main graphs that are matched, and what they read."""

    def __init__(
        self,
        models: tuple[ir.Model, ir.Model],
        inputs: Iterable[Pair],
        outputs: Iterable[Pair],
        nodes: Iterable[tuple[ir.Node, ir.Node]],
        edges: Callable[[ir.Node], list[Edge]],
    ) -> None:
        self.models = models
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        pairs = list(nodes)
        self.partner = (dict(pairs), {b: a for a, b in pairs})
        """The match of each node of the first graph, and of the second."""
        self._edges = edges
        self._of_input = (dict(self.inputs), {b: a for a, b in self.inputs})
        self.order = tuple({node: place for place, node in enumerate(model.graph)} for model in models)
        self._steps: dict[Pair, Step] = {}

    def position(self, pair: Pair) -> tuple[int, int]:
        """Return a key that sorts pairs by the order of the nodes that compute them."""
        places = [
            -1 if (node := value.producer()) is None else order[node]
            for value, order in zip(pair, self.order, strict=True)
        ]
        return places[0], places[1]

    def step(self, pair: Pair) -> Step:
        """Tell how a pair is computed."""
        if pair not in self._steps:
            self._steps[pair] = self._step(pair)
        return self._steps[pair]

    def partner_of(self, value: ir.Value, side: int) -> ir.Value | None:
        """Return the value of the other model that matched nodes (or inputs) say is the same; None if nothing says."""
        node = value.producer()
        if node is None:
            return self._of_input[side].get(value)
        match = self.partner[side].get(node)
        place = value.index()
        return match.outputs[place] if match is not None and place is not None and place < len(match.outputs) else None

    def _step(self, pair: Pair) -> Step:
        sources: dict[Pair, None] = {}
        nodes: tuple[dict[ir.Node, None], dict[ir.Node, None]] = ({}, {})
        maker = pair.a.producer()
        if maker is not None and self.partner_of(pair.a, 0) is pair.b:
            nodes[0][maker], nodes[1][self.partner[0][maker]] = None, None
            for a, b in self._edges(maker):
                if a is not None and b is not None and not is_constant(a) and not is_constant(b):
                    sources[Pair(a, b)] = None
                    continue
                for side, value in enumerate((a, b)):
                    if value is not None and not is_constant(value):
                        self._alone(value, side, sources, nodes[side])
        else:
            self._alone(pair.a, 0, sources, nodes[0])
            self._alone(pair.b, 1, sources, nodes[1])
        of_inputs = set(self.inputs)
        kept = tuple(source for source in sources if source not in of_inputs and source != pair)
        return Step(kept, (tuple(nodes[0]), tuple(nodes[1])))

    def _alone(self, value: ir.Value, side: int, sources: dict[Pair, None], nodes: dict[ir.Node, None]) -> None:
        """Go back from a value without a pair to those that have one, through nodes without a match."""
        waiting = [value]
        while waiting:
            each = waiting.pop()
            partner = self.partner_of(each, side)
            node = each.producer()
            if partner is not None:
                sources[Pair(each, partner) if side == 0 else Pair(partner, each)] = None
            elif node is not None and node not in nodes:
                nodes[node] = None
                waiting += [read for read in reads(node) if not is_constant(read)]


def pair_with_itself(model: ir.Model) -> Pairing:
    """Pair a model with itself, for two ways to run it."""
    graph = model.graph
    own = [Pair(value, value) for value in graph.inputs if constant(value) is None]
    outputs = [Pair(value, value) for value in graph.outputs]
    return Pairing((model, model), own, outputs, ((node, node) for node in graph), _own_edges)


def _own_edges(node: ir.Node) -> list[Edge]:
    return [(value, value) for value in dict.fromkeys(reads(node))]


def pair_models(a: ir.Model, b: ir.Model) -> tuple[Pairing, Comparer]:
    """Pair two models, and return what `diff` finds on the way."""
    ports_in = ports(a, a.graph.inputs), ports(b, b.graph.inputs)
    ports_out = ports(a, a.graph.outputs), ports(b, b.graph.outputs)
    inputs, outputs = paired(*ports_in), paired(*ports_out)
    comparer = compare_graphs((Side(a), Side(b)), inputs, outputs, Tolerance())
    items = {item.node: (item, match) for item, match in comparer.partner[0].items() if item.node.graph is a.graph}
    pairing = Pairing(
        (a, b),
        [Pair(a.graph.inputs[i], b.graph.inputs[j]) for i, j in inputs],
        [Pair(a.graph.outputs[i], b.graph.outputs[j]) for i, j in outputs],
        [(item.node, match.node) for item, match in items.values()],
        lambda node: list(_edges(comparer, pairing, *items[node])),
    )
    return pairing, comparer


def _edges(comparer: Comparer, pairing: Pairing, a: Item, b: Item) -> Iterator[Edge]:
    for _, value_a, value_b in comparer.edges(a, b):
        yield value_a, value_b
    if a.captured or b.captured:
        others: Mapping[ir.Value, None] = dict.fromkeys(b.captured)
        met: set[ir.Value] = set()
        for value in a.captured:
            partner = pairing.partner_of(value, 0)
            found = partner if partner in others else None
            yield value, found
            met.update([found] if found is not None else [])
        yield from ((None, value) for value in others if value not in met)


def is_constant(value: ir.Value) -> bool:
    """Tell whether a value is an initialiser that no caller can replace, or what a Constant node gives."""
    node = value.producer()
    if node is None:
        return constant(value) is not None
    return is_standard(node, "Constant") and constant_tensor(node) is not None
