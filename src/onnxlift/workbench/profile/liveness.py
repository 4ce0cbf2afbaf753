"""The memory that activations take: what is alive while each node runs, in the order of the graph.

A value is in memory from the node that computes it until the last one that reads it. The inputs of the model stay to
the end, as the caller holds them, and so do its outputs. A view takes none of its own. Constants do not count: they are
weights. Nothing is computed in place, so that this is what a runtime without such tricks needs at least.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxlift.ir.graph.walk import subgraphs
from onnxlift.workbench.values import reads

from .amount import Amount
from .formula import UNKNOWN, Size, Sum, is_at_least, is_known, largest
from .node import bytes_of

MOST_CANDIDATES = 24
"""So many formulas that may be the largest are kept. Beyond that the peak is told as a lower bound."""


@dataclass
class Liveness:
    """The peak of a model or of a graph in it, the node at which it is, and what is alive at each node."""

    peak: Amount = field(default_factory=Amount)
    node: ir.Node | None = None
    """The node that runs at the peak; None if that depends on sizes."""
    at: dict[ir.Node, Amount] = field(default_factory=dict)


def liveness(graph: ir.Graph, views: Collection[ir.Node]) -> Liveness:
    """Return how much memory the activations of a graph take while it runs."""
    return _Walk(graph, views).run()


class _Walk:
    def __init__(self, graph: ir.Graph, views: Collection[ir.Node]) -> None:
        self.graph = graph
        self.views = views
        self.nodes = list(graph)
        self.holder: dict[ir.Value, ir.Value] = {}
        """The value whose memory another one is a view of."""
        self.live = Sum()
        self.unknown = 0
        self.sizes: dict[ir.Value, Size] = {}
        self.candidates: list[tuple[Size, ir.Node]] = []
        self.is_bounded = True
        self.found = Liveness()

    def run(self) -> Liveness:
        ends = self._ends()
        for value in self.graph.inputs:
            self._begin(value)
        for place, node in enumerate(self.nodes):
            inside = [liveness(body, self.views) for body in subgraphs(node)]
            for each in inside:
                self.found.at.update({inner: self._beside(amount) for inner, amount in each.at.items()})
            outputs = [value for value in node.outputs if value.name and self.holder.get(value, value) is value]
            if node.op_type == "If":  # what a branch computes last are the outputs themselves
                self._note(node, inside)
                inside = []
            for value in outputs:
                self._begin(value)
            self._note(node, inside)
            for value in ends.get(place, ()):
                self._end(value)
        self._conclude()
        return self.found

    def _ends(self) -> Mapping[int, Sequence[ir.Value]]:
        """Return the values that are read for the last time at each node, or never at all."""
        last: dict[ir.Value, int] = {}
        kept = {*self.graph.inputs}
        for place, node in enumerate(self.nodes):
            source = node.inputs[0] if node in self.views and node.inputs else None
            for value in node.outputs:
                if source is not None and value is node.outputs[0]:
                    self.holder[value] = self.holder.get(source, source)
                last[self.holder.get(value, value)] = place
            for value in reads(node):
                last[self.holder.get(value, value)] = place
        kept.update(self.holder.get(value, value) for value in self.graph.outputs)
        ends: dict[int, list[ir.Value]] = {}
        for value, place in last.items():
            if value not in kept:
                ends.setdefault(place, []).append(value)
        return ends

    def _begin(self, value: ir.Value) -> None:
        size = bytes_of(value)
        self.sizes[value] = size
        if is_known(size):
            self.live.add(size)
        else:
            self.unknown += 1
            self.is_bounded = False

    def _end(self, value: ir.Value) -> None:
        size = self.sizes.pop(value, None)
        if size is None:  # a constant, or a value of the graph around this one
            return
        if is_known(size):
            self.live.add(size * -1)
        else:
            self.unknown -= 1

    def _beside(self, inner: Amount) -> Amount:
        size = self.live.size
        return Amount(size, UNKNOWN if self.unknown else size) + inner

    def _note(self, node: ir.Node, inside: Sequence[Liveness]) -> None:
        """Note what is alive at a node, with what the graphs in it need."""
        most = Amount()
        if inside:
            most = Amount(largest([each.peak.low for each in inside]), largest([each.peak.high for each in inside]))
        now = self._beside(most)
        if not is_known(now.high):
            self.is_bounded = False
        before = self.found.at.get(node)
        if before is not None:  # an If: the larger of its branches and its outputs
            now = Amount(largest([before.low, now.low]), largest([before.high, now.high]))
        self.found.at[node] = now
        if any(is_at_least(size, now.low) for size, _ in self.candidates):
            return
        self.candidates = [each for each in self.candidates if not is_at_least(now.low, each[0])]
        if len(self.candidates) < MOST_CANDIDATES:
            self.candidates.append((now.low, node))
        else:
            self.is_bounded = False

    def _conclude(self) -> None:
        if not self.candidates:
            size = self.live.size
            self.found.peak = Amount(size, size if self.is_bounded else UNKNOWN)
            return
        low = largest([size for size, _ in self.candidates])
        self.found.peak = Amount(low, low if self.is_bounded else UNKNOWN)
        self.found.node = self.candidates[0][1] if len(self.candidates) == 1 else None
