"""Describe a place to blame: its node, its module, and what differs between the models there."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxlift.errors import quote
from onnxlift.ir.graph.functions import function_title
from onnxlift.workbench.diff.changes import NodeChange
from onnxlift.workbench.diff.comparing import Comparer
from onnxlift.workbench.diff.places import module_of_item
from onnxlift.workbench.diff.text import node_text, weight_text
from onnxlift.workbench.diff.view import Item, Side

from .oracle import Oracle
from .pairing import Pairing
from .report import Culprit
from .search import Place


class Describer:
    """Knows the two models, and what `diff` found if they are two."""

    def __init__(self, pairing: Pairing, comparer: Comparer | None) -> None:
        self.pairing = pairing
        self.comparer = comparer
        self._sides = comparer.sides if comparer is not None else (Side(pairing.models[0]),) * 2
        self._items: tuple[dict[ir.Node, Item], ...] = tuple(
            {item.node: item for item in side.body(model.graph, model.opset_imports).items}
            for side, model in zip(self._sides, pairing.models, strict=True)
        )

    def culprit(self, place: Place, oracle: Oracle, note: str = "") -> Culprit:
        """Return what to tell of a place."""
        node_a, node_b = self.blamed(place)
        shown = node_a if node_a is not None else node_b
        titles = list(dict.fromkeys(_title(node) for node in (node_a, node_b) if node is not None))
        side = 0 if node_a is not None else 1
        item = self._items[side].get(shown) if shown is not None else None
        return Culprit(
            operator=" -> ".join(titles) or "output",
            a=None if node_a is None else node_a.name,
            b=None if node_b is None else node_b.name,
            module="" if item is None else module_of_item(self._sides[side], item),
            value=oracle.results[place.pair],
            nodes=(
                tuple(node.name or "" for node in place.nodes[0]),
                tuple(node.name or "" for node in place.nodes[1]),
            ),
            changes=tuple(self.changes(place)),
            reads=tuple(oracle.results[source] for source in place.sources if source in oracle.results),
            note=note,
        )

    def blamed(self, place: Place) -> tuple[ir.Node | None, ir.Node | None]:
        """Return the node to name, in either model.

        It is the one that computes the value, if it is matched. Else it is the first that only one of the models has;
        if either has one, the one stands for the other."""
        maker = place.pair.a.producer()
        if maker is not None and self.pairing.partner_of(place.pair.a, 0) is place.pair.b:
            return maker, self.pairing.partner[0][maker]
        alone = [
            [node for node in nodes if node not in self.pairing.partner[side]] for side, nodes in enumerate(place.nodes)
        ]
        if alone[0] or alone[1]:
            first = [
                min(nodes, key=order.__getitem__, default=None)
                for nodes, order in zip(alone, self.pairing.order, strict=True)
            ]
            return first[0], first[1]
        return maker, place.pair.b.producer()

    def changes(self, place: Place) -> Iterator[str]:
        """Yield what `diff` says of the nodes of a place, of what is inside them, and of the weights that they read."""
        if self.comparer is None:
            return
        names = [{node.name for node in nodes} for nodes in place.nodes]
        called = {f"function {function_title(node.op_identifier())}" for node in place.nodes[1]}
        holders = tuple(f"{_title(node)} {quote(node.name or '')}" for node in place.nodes[1])

        def is_inside(graph: str) -> bool:
            return graph in called or graph.endswith(holders)

        for change in self.comparer.found.nodes:
            if is_inside(change.graph) if change.graph else _is_of(change, names):
                yield node_text(change)
        read = {value.name for nodes in place.nodes for node in nodes for value in node.inputs if value is not None}
        for weight in self.comparer.weights.changes:
            if is_inside(weight.graph) if weight.graph else {weight.a.name, weight.b.name} <= read:
                yield f"weight   {weight_text(weight)}"

    def is_changed(self, place: Place) -> bool:
        """Tell whether `diff` finds anything there."""
        return next(self.changes(place), None) is not None


def _is_of(change: NodeChange, names: list[set[str | None]]) -> bool:
    in_a = change.a is not None and change.a in names[0]
    in_b = change.b is not None and change.b in names[1]
    return (in_a or in_b) if change.a is None or change.b is None else (in_a and in_b)


def _title(node: ir.Node) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type
