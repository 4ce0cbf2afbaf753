"""Compare two graphs node by node, after their nodes have been matched.

Two values are the same if the nodes that make them are matched, or if they are computed in the same way up to what is
reported elsewhere. A node that reads another value than its match has changed, unless that value comes from a node that
was added, removed or moved: that node is what is reported, and once is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest

import onnx_ir as ir

from onnxlift.errors import quote

from .changes import Detail, Kind, NodeChange, Renamed
from .labels import Keys, Labels, Table
from .matching import Borders, Matching, matched
from .moving import moved_items
from .operands import input_name, lined_up
from .places import is_made_up_name, module_of_item
from .revisions import without_respelling
from .view import Body, Item, Level, Side, value_key
from .weights import Weights

MOST_EXAMPLES = 3

Edge = tuple[str, ir.Value | None, ir.Value | None]
"""The name of an input, and what is there in either model."""


@dataclass
class Found:
    """What a comparison finds, in the order of the graphs."""

    nodes: list[NodeChange] = field(default_factory=list)
    matched: int = 0
    revisions: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    """Operator, its revision in either model -> the number of matched nodes."""
    renamed: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: {"node": [], "weight": []})
    reordered: bool = False

    def names(self) -> list[Renamed]:
        """Return the renamed nodes and weights in short."""
        pairs = {what: list(dict.fromkeys(found)) for what, found in self.renamed.items()}
        return [Renamed(what, len(each), tuple(each[:MOST_EXAMPLES])) for what, each in pairs.items() if each]


class Comparer:
    """Compares the graphs of two models, and collects what differs."""

    def __init__(self, sides: tuple[Side, Side], weights: Weights) -> None:
        self.shown = weights.shown
        self.sides = sides
        self.weights = weights
        self.table = Table()
        self.found = Found()
        self.keys: tuple[Keys, Keys] = ({}, {})
        """What stands for each value that has been compared: equal for values that are the same."""
        self.makers: tuple[dict[ir.Value, tuple[Item, int]], dict[ir.Value, tuple[Item, int]]] = ({}, {})
        self.readers: tuple[dict[ir.Value, list[tuple[Item, int]]], ...] = ({}, {})
        self.partner: tuple[dict[Item, Item], dict[Item, Item]] = ({}, {})
        self.loose: set[Item] = set()
        """Items that are added, removed or moved."""
        self._scopes = 0

    def compare(
        self,
        bodies: tuple[Body, Body],
        opsets: tuple[Mapping[str, int], Mapping[str, int]],
        borders: Borders,
        where: str,
    ) -> None:
        """Compare two graphs, and all that is inside them."""
        labels = (Labels(self.sides[0], self.table, opsets[0]), Labels(self.sides[1], self.table, opsets[1]))
        matching = matched(bodies, labels, borders)
        moved = self._meet_again(matching)
        self.found.matched += len(matching.partner[0])
        for side in (0, 1):
            self.partner[side].update(matching.partner[side])
            self.makers[side].update(bodies[side].maker)
            self.readers[side].update(bodies[side].readers)
            self.loose.update(matching.left(side))
        self.loose.update(moved, (matching.partner[0][item] for item in moved))
        self._agree(matching)
        edges = {a: list(self.edges(a, b)) for a, b in matching.partner[0].items()}
        moved |= self._moved(matching, edges)
        self._note_order(matching)
        for item in bodies[0].items:
            if item in matching.partner[0]:
                self._pair(item, matching.partner[0][item], edges[item], item in moved, where)
        self._outputs(matching, where)
        for side in (0, 1):
            for item in matching.left(side):
                if item not in self.weights.taken_in:
                    self._single(item, side, where)
        for item in bodies[0].items:
            if item.bodies and item in matching.partner[0]:
                self._inside(item, matching.partner[0][item], opsets, where)

    # What belongs together

    def _meet_again(self, matching: Matching) -> set[Item]:
        """Match items that are left over, if there is one of its kind on either side: it stands elsewhere now."""
        classes: dict[int, tuple[list[Item], list[Item]]] = {}
        for side in (0, 1):
            for item in matching.left(side):
                label = matching.labels[side].local(item, Level.EXACT)
                classes.setdefault(label, ([], []))[side].append(item)
        found = [(a[0], b[0]) for a, b in classes.values() if len(a) == len(b) == 1]
        for a, b in found:
            matching.pair(a, b)
        return {a for a, _ in found}

    def _agree(self, matching: Matching) -> None:
        """Give all values keys. Matched items have the same label on both sides, so that no change in one is seen
        from another."""
        self._scopes += 1
        for side in (0, 1):
            keys, body = self.keys[side], matching.graphs[side]
            keys.update((value, self.table(("only", id(value)))) for value in body.inputs)
            for number, places in enumerate(matching.borders.inputs):
                keys[body.inputs[places[side]]] = self.table(("input", self._scopes, number))
            for item in body.items:
                first = item if side == 0 and item in matching.partner[0] else matching.partner[1].get(item)
                if first is None:
                    label = self.table(("only", id(item)))
                else:
                    own = id(first) if first.bodies else matching.labels[0].local(first, Level.EXACT)
                    read = [keys[value] for value in item.operands if value is not None and value in keys]
                    label = self.table(("agreed", own, tuple(sorted(read) if item.is_commutative else read)))
                for place, value in enumerate(item.outputs):
                    keys[value] = self.table((label, place))

    def _is_same(self, value_a: ir.Value, value_b: ir.Value) -> bool:
        if self.keys[0].get(value_a, -1) == self.keys[1].get(value_b, -2):
            return True
        made_a, made_b = self.makers[0].get(value_a), self.makers[1].get(value_b)
        if made_a is None or made_b is None:
            return False
        return self.partner[0].get(made_a[0]) is made_b[0] and made_a[1] == made_b[1]

    def edges(self, a: Item, b: Item) -> Iterator[Edge]:
        """Yield the inputs of two matched items, side by side."""
        for place, (value_a, value_b) in enumerate(lined_up(a, b, self.sides, self._is_same)):
            yield input_name(a if place < len(a.operands) else b, place), value_a, value_b

    def _is_rewired(self, edge: Edge) -> bool:
        """Tell whether an item reads another value, and nothing else that is reported says so."""
        _, value_a, value_b = edge
        if value_a is None or value_b is None:
            return value_a is not value_b
        if self.sides[0].tensor(value_a) is not None and self.sides[1].tensor(value_b) is not None:
            return False
        return not self._is_same(value_a, value_b) and not self._is_loose(value_a, 0) and not self._is_loose(value_b, 1)

    def _is_loose(self, value: ir.Value, side: int) -> bool:
        made = self.makers[side].get(value)
        return made is not None and made[0] in self.loose

    def _moved(self, matching: Matching, edges: Mapping[Item, list[Edge]]) -> set[Item]:
        """Find the items whose move explains why several others read other values."""
        wrong: dict[Item, list[tuple[Item, ...]]] = {}
        for item, found in edges.items():
            for edge in found:
                if edge[1] is not None and edge[2] is not None and self._is_rewired(edge):
                    made_a, made_b = self.makers[0].get(edge[1]), self.makers[1].get(edge[2])
                    sources = (made_a and made_a[0], made_b and matching.partner[1].get(made_b[0]))
                    wrong.setdefault(item, []).append(tuple(each for each in sources if each is not None))
        moved = moved_items(wrong)
        self.loose.update(moved, (matching.partner[0][item] for item in moved))
        return moved

    def _note_order(self, matching: Matching) -> None:
        places = [matching.partner[0][item].index for item in matching.graphs[0].items if item in matching.partner[0]]
        self.found.reordered |= places != sorted(places)

    # What is reported

    def _pair(self, a: Item, b: Item, edges: list[Edge], is_moved: bool, where: str) -> None:
        details = [*self._operator(a, b), *self._attributes(a, b), *self._inputs(a, b, edges, where)]
        details = without_respelling(details, a, b, self.sides)
        if is_moved or details:
            kind: Kind = "moved" if is_moved else "changed"
            item = (a, b)[self.shown]
            module = module_of_item(self.sides[self.shown], item)
            change = NodeChange(kind, item.title, a.node.name, b.node.name, module, where, tuple(details))
            self.found.nodes.append(change)
        if a.node.name != b.node.name and not (is_made_up_name(a.node) and is_made_up_name(b.node)):
            self.found.renamed["node"].append((a.node.name or "", b.node.name or ""))
        self._revision(a, b)

    def _revision(self, a: Item, b: Item) -> None:
        schemas = a.schema, b.schema
        if a.op == b.op and schemas[0] is not None and schemas[1] is not None:
            since = schemas[0].since_version, schemas[1].since_version
            if since[0] != since[1]:
                self.found.revisions[a.title, since[0], since[1]] += 1

    def _operator(self, a: Item, b: Item) -> Iterator[Detail]:
        if a.op != b.op:
            yield Detail("operator", "", a.title, b.title)
        elif len(a.outputs) != len(b.outputs):
            yield Detail("outputs", "", len(a.outputs), len(b.outputs))

    def _attributes(self, a: Item, b: Item) -> Iterator[Detail]:
        if a.op != b.op:
            return
        for name in sorted({*a.attributes, *b.attributes, *a.tensors, *b.tensors}):
            tensors = a.tensors.get(name), b.tensors.get(name)
            if tensors[0] is not None and tensors[1] is not None:
                if change := self.weights.difference(tensors[0], tensors[1]):
                    yield Detail("attribute", name, *change)
                continue
            values = a.attributes.get(name), b.attributes.get(name)
            if value_key(values[0]) != value_key(values[1]) or tensors != (None, None):
                shown = [self.weights.brief(t) if t is not None else v for t, v in zip(tensors, values, strict=True)]
                yield Detail("attribute", name, *shown)

    def _inputs(self, a: Item, b: Item, edges: list[Edge], where: str) -> Iterator[Detail]:
        reader = (a, b)[self.shown]
        for name, value_a, value_b in edges:
            tensor_a, tensor_b = self.sides[0].tensor(value_a), self.sides[1].tensor(value_b)
            if tensor_a is not None and tensor_b is not None and value_a is not None and value_b is not None:
                self._note_name(value_a, value_b)
                change = self.weights.compare((value_a, tensor_a), (value_b, tensor_b), reader, name, where)
                if change is not None and a.op == b.op:  # a setting of another operator is another setting
                    yield Detail("input", name, *change)
            elif a.op != b.op and (value_a is None or value_b is None):
                continue  # another operator takes another number of inputs
            elif self._is_rewired((name, value_a, value_b)):
                yield Detail("input", name, self._told(value_a, 0), self._told(value_b, 1))
            elif (tensor_a is None) != (tensor_b is None) and value_a is not None and value_b is not None:
                self.weights.quantised((value_a, tensor_a), (value_b, tensor_b), self.makers, reader, name, where)

    def _note_name(self, value_a: ir.Value, value_b: ir.Value) -> None:
        if value_a.is_initializer() and value_b.is_initializer() and value_a.name != value_b.name:
            self.found.renamed["weight"].append((value_a.name or "", value_b.name or ""))

    def _told(self, value: ir.Value | None, side: int) -> str | None:
        """Say in words where a value comes from."""
        if value is None:
            return None
        tensor = self.sides[side].tensor(value)
        if tensor is not None:
            return self.weights.brief(tensor, value.name)
        made = self.makers[side].get(value)
        if made is None:
            return f"input {quote(value.name or '')}"
        place = f"output {made[1]} of " if len(made[0].outputs) > 1 else ""
        return f"{place}{made[0].title} {quote(made[0].node.name or '')}"

    def _outputs(self, matching: Matching, where: str) -> None:
        for place_a, place_b in matching.borders.outputs:
            value_a, value_b = matching.graphs[0].outputs[place_a], matching.graphs[1].outputs[place_b]
            name = f"output {quote((value_a, value_b)[self.shown].name or '')}"
            tensors = self.sides[0].tensor(value_a), self.sides[1].tensor(value_b)
            if tensors[0] is not None and tensors[1] is not None:
                difference = self.weights.difference(tensors[0], tensors[1])
                details = [Detail("input", "value", *difference)] if difference else []
            elif self._is_rewired(("", value_a, value_b)):
                details = [Detail("input", "value", self._told(value_a, 0), self._told(value_b, 1))]
            else:
                continue
            if details:
                change = NodeChange("changed", name, value_a.name, value_b.name, "", where, tuple(details))
                self.found.nodes.append(change)

    def _single(self, item: Item, side: int, where: str) -> None:
        module = module_of_item(self.sides[side], item)
        place = self._place(item, side)
        name = item.node.name
        if side:
            change = NodeChange("added", item.title, None, name, module, where, place=place)
        else:
            change = NodeChange("removed", item.title, name, None, module, where, place=place)
        self.found.nodes.append(change)

    def _place(self, item: Item, side: int) -> str:
        """Say in words what a node reads, and what reads it."""
        read = [value for value in item.operands if value is not None and self.sides[side].tensor(value) is None]
        sources = list(dict.fromkeys(self._told(value, side) or "" for value in read))
        readers = [
            f"{reader.title} {quote(reader.node.name or '')}"
            for value in item.outputs
            for reader, _ in self.readers[side].get(value, ())
        ]
        readers += [f"output {quote(value.name or '')}" for value in item.outputs if value.is_graph_output()]
        parts = [("after", sources), ("before", list(dict.fromkeys(readers)))]
        return ", ".join(f"{word} {_few(found)}" for word, found in parts if found)

    def _inside(self, a: Item, b: Item, opsets: tuple[Mapping[str, int], Mapping[str, int]], where: str) -> None:
        """Compare the subgraphs of two matched items: those of one attribute, by their order."""
        for name in sorted({*a.bodies, *b.bodies}):
            for graph_a, graph_b in zip_longest(a.bodies.get(name, ()), b.bodies.get(name, ())):
                if graph_a is None or graph_b is None:
                    continue  # a graph that the schema of the operator does not know
                bodies = self.sides[0].body(graph_a, opsets[0]), self.sides[1].body(graph_b, opsets[1])
                inputs = [(place, place) for place in range(min(len(body.inputs) for body in bodies))]
                outputs = [(place, place) for place in range(min(len(body.outputs) for body in bodies))]
                holder = (a, b)[self.shown]
                inside = f"{name} of {holder.title} {quote(holder.node.name or '')}"
                self.compare(
                    bodies, opsets, Borders(inputs, outputs, self.keys), f"{inside}, {where}" if where else inside
                )


def _few(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{texts[0]} and {len(texts) - 1} more"
