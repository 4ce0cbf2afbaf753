"""Labels for nodes: equal for nodes that are the same by what they are, by what they compute, or by what becomes of it.

- *local*: the operator, its attributes and its constants.
- *forward*: local, and the same of all that the node is computed from, back to the inputs of the model.
- *backward*: local, and the same of all that reads the node, on to the outputs of the model.

How much of a constant counts is a `Level`. One change in the middle of a model leaves the forward labels before it and
the backward labels behind it as they are. Labels are numbers, given out by a table that both models share: equal
numbers mean equal things, without the collisions of a hash.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import onnx_ir as ir

from .view import Body, Item, Level, Side, attribute_keys

Keys = dict[ir.Value, int]
"""What stands for each value."""


class Table:
    """Numbers for labels."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, label: Hashable) -> int:
        return self._numbers.setdefault(label, len(self._numbers))


class Labels:
    """The labels of one side. `opsets` are in force in the graphs that are labelled."""

    def __init__(self, side: Side, table: Table, opsets: Mapping[str, int]) -> None:
        self.side = side
        self.table = table
        self.opsets = opsets
        self._local: dict[tuple[Item, Level], int] = {}

    def local(self, item: Item, level: Level) -> int:
        """Return the label of an item by itself."""
        found = self._local.get((item, level))
        if found is None:
            operands: list[int] = []
            if level is not Level.BARE:
                operands = [self._constant(value, level) for value in item.operands]
                if item.is_commutative:
                    operands.sort()
            attributes = tuple(attribute_keys(self.side, item, level))
            found = self.table(("local", item.op, attributes, tuple(operands)))
            self._local[item, level] = found
        return found

    def _constant(self, value: ir.Value | None, level: Level) -> int:
        if value is None:
            return self.table("nothing")
        tensor = self.side.tensor(value)
        return self.table("value") if tensor is None else self.table(self.side.constant_key(tensor, level))

    def forward(self, body: Body, level: Level, keys: Keys, depth: int = 0) -> dict[Item, int]:
        """Label the items by what they are computed from.

        `keys` are those of the inputs and of outer values. Those of all values in the body are added to it."""
        labels: dict[Item, int] = {}
        for item in body.items:
            operands = [self.operand(value, level, keys) for value in item.operands]
            if item.is_commutative:
                operands.sort()
            attributes = tuple(attribute_keys(self.side, item, level))
            bodies = () if level is Level.BARE else tuple(self._bodies(item, level, keys, depth + 1))
            label = self.table(("forward", item.op, len(item.outputs), attributes, tuple(operands), bodies))
            labels[item] = label
            for place, value in enumerate(item.outputs):
                keys[value] = self.table((label, place))
        return labels

    def operand(self, value: ir.Value | None, level: Level, keys: Keys) -> int:
        """Return what stands for an input of an item."""
        found = None if value is None else keys.get(value)
        return self._constant(value, level) if found is None else found

    def _bodies(self, item: Item, level: Level, keys: Keys, depth: int) -> Iterable[Hashable]:
        for name, graphs in sorted(item.bodies.items()):
            yield name, tuple(self.whole(self.side.body(graph, self.opsets), level, keys, depth) for graph in graphs)

    def whole(self, body: Body, level: Level, keys: Keys, depth: int = 0) -> int:
        """Return the label of a subgraph or function: what it computes of its inputs and of outer values.

        The keys of its own values are added to `keys`: no copy, as there may be many subgraphs. `depth` tells its
        inputs from those of the graphs around it."""
        keys.update((value, self.table(("inner input", depth, place))) for place, value in enumerate(body.inputs))
        labels = self.forward(body, level, keys, depth)
        outputs = tuple(self.operand(value, level, keys) for value in body.outputs)
        return self.table(("graph", len(body.inputs), outputs, tuple(sorted(labels.values()))))

    def backward(self, body: Body, level: Level, outputs: Mapping[int, Hashable]) -> dict[Item, int]:
        """Label the items by what becomes of their outputs. `outputs` are what stands for those of the body."""
        labels: dict[Item, int] = {}
        returned: dict[ir.Value, list[int]] = {}
        for place, value in enumerate(body.outputs):
            returned.setdefault(value, []).append(self.table(("output", outputs.get(place))))
        for item in reversed(body.items):
            uses = []
            for value in item.outputs:
                read = [
                    self.table((labels[reader], 0 if reader.is_commutative and place >= 0 else place))
                    for reader, place in body.readers.get(value, ())
                ]
                uses.append((tuple(sorted(read)), tuple(sorted(returned.get(value, ())))))
            labels[item] = self.table(("backward", self.local(item, level), tuple(uses)))
        return labels
