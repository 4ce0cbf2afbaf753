"""Match the nodes of two graphs, from the surest to the least sure.

1. Nodes with equal labels that nobody else in their graphs has: first those that compute the same and are used for the
   same, then either, then those with the same weights wherever they stand.
2. Each match spreads along the edges: what a matched pair reads, and what reads it, is matched if it is the same
   operator in the same place.
3. The same again with weaker labels: weights count only by type and shape, and at last the operator alone.
4. What is left is aligned by order in the gaps between matched nodes.
5. Where two equal nodes follow each other and one is gone, it is the one whose neighbours say so.
6. What still has no match, and stands where a node of another operator does, has been replaced by it (replacing.py).

Every step takes about linear time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxlift.ir.graph.rising import longest_rising

from .alignment import common_subsequence
from .labels import Keys, Labels
from .numbers import is_setting
from .ordering import canonical_order
from .replacing import match_replaced
from .view import Body, Item, Level

WEIGHTY = 16
"""A constant with at least so many elements is a weight that says which node it is."""

Graphs = tuple[Body, Body]


@dataclass
class Borders:
    """What is known of two graphs before their nodes are: which inputs and outputs belong together, by place.

    `outer` are the keys of outer values on either side: equal for values that are the same."""

    inputs: Sequence[tuple[int, int]]
    outputs: Sequence[tuple[int, int]]
    outer: tuple[Keys, Keys] = field(default_factory=lambda: ({}, {}))


def matched(graphs: Graphs, labels: tuple[Labels, Labels], borders: Borders) -> Matching:
    """Match the items of two graphs.

    What a node computes counts for more than what becomes of it. If that leaves faults, the opposite is tried, too:
    where a block is repeated, a block that is gone looks like the last one from the one end, and like the first one
    from the other."""
    matching = Matching(graphs, labels, borders)
    matching.run()
    faults = matching.faults()
    if faults > 1:
        other = Matching(graphs, labels, borders, backward_first=True)
        other.run()
        if other.faults() < faults:
            return other
    return matching


class Matching:
    """Pairs of items of two graphs."""

    def __init__(
        self, graphs: Graphs, labels: tuple[Labels, Labels], borders: Borders, *, backward_first: bool = False
    ) -> None:
        self.backward_first = backward_first
        self.graphs = graphs
        self.labels = labels
        self.borders = borders
        self.partner: tuple[dict[Item, Item], dict[Item, Item]] = ({}, {})
        """The match of each item of the first graph, and of the second."""
        self._new: deque[tuple[Item, Item]] = deque()
        self.inputs = tuple(
            {graphs[side].inputs[places[side]]: number for number, places in enumerate(borders.inputs)}
            for side in (0, 1)
        )
        self.returned: tuple[dict[ir.Value, list[int]], ...] = ({}, {})
        for number, places in enumerate(borders.outputs):
            for side in (0, 1):
                self.returned[side].setdefault(graphs[side].outputs[places[side]], []).append(number)

    def run(self) -> None:
        """Match what can be matched."""
        for level in Level:
            self._by_labels(level)
            if self._is_done():
                break
        for level in Level:
            self._align(level)
            self._spread(level, anew=True)
        self._repair()
        match_replaced(self)

    def faults(self) -> int:
        """Return how many items have no match, and how many edges of the others go elsewhere."""
        left = sum(len(self.left(side)) for side in (0, 1))
        return left + sum(self._wrong_sources(a, b, 0) for a, b in self.partner[0].items())

    def _is_done(self) -> bool:
        return any(len(found) == len(body.items) for found, body in zip(self.partner, self.graphs, strict=True))

    def left(self, side: int) -> list[Item]:
        """Return the items of one graph that have no match."""
        return [item for item in self.graphs[side].items if item not in self.partner[side]]

    def pair(self, a: Item, b: Item) -> None:
        self.partner[0][a], self.partner[1][b] = b, a
        self._new.append((a, b))

    # By labels

    def _by_labels(self, level: Level) -> None:
        forward, backward = self._forward(level), self._backward(level)
        kinds: list[Callable[[int, Item], Hashable]] = [
            lambda side, item: (forward[side][item], backward[side][item]),
            lambda side, item: forward[side][item],
            lambda side, item: backward[side][item],
        ]
        if self.backward_first:
            kinds[1:] = kinds[:0:-1]
        if level is Level.EXACT:
            kinds.insert(2, self._weighty)
        for kind in kinds:
            self._unique(kind)
            self._spread(level, anew=kind is kinds[0])
        for kind in kinds[:2]:
            self._ties(kind, level)

    def _forward(self, level: Level) -> tuple[dict[Item, int], dict[Item, int]]:
        found = []
        for side in (0, 1):
            keys = self.borders.outer[side]  # no copy, as there may be many subgraphs; all in the body is set anew
            inputs = self.graphs[side].inputs
            keys.update((value, self.labels[side].table(("only", side, place))) for place, value in enumerate(inputs))
            for number, places in enumerate(self.borders.inputs):
                keys[inputs[places[side]]] = self.labels[side].table(("input", number))
            found.append(self.labels[side].forward(self.graphs[side], level, keys))
        return found[0], found[1]

    def _backward(self, level: Level) -> tuple[dict[Item, int], dict[Item, int]]:
        found = []
        for side in (0, 1):
            outputs: dict[int, Hashable] = {place: (side, place) for place in range(len(self.graphs[side].outputs))}
            outputs.update((places[side], number) for number, places in enumerate(self.borders.outputs))
            found.append(self.labels[side].backward(self.graphs[side], level, outputs))
        return found[0], found[1]

    def _weighty(self, side: int, item: Item) -> Hashable:
        """Return the label of an item by itself if it has a weight, so that nothing else looks like it."""
        labels = self.labels[side]
        if not labels.side.with_numbers:
            return None
        tensors = (labels.side.tensor(value) for value in item.operands)
        has_weight = any(t is not None and not is_setting(t) and t.size >= WEIGHTY for t in tensors)
        return labels.local(item, Level.EXACT) if has_weight else None

    def _classes(self, kind: Callable[[int, Item], Hashable]) -> Iterable[tuple[list[Item], list[Item]]]:
        """Yield the items without a match by their label, where both graphs have some."""
        classes: dict[Hashable, tuple[list[Item], list[Item]]] = {}
        for side in (0, 1):
            for item in self.left(side):
                classes.setdefault(kind(side, item), ([], []))[side].append(item)
        return [found for label, found in classes.items() if label is not None and found[0] and found[1]]

    def _unique(self, kind: Callable[[int, Item], Hashable]) -> None:
        for found_a, found_b in self._classes(kind):
            if len(found_a) == len(found_b) == 1:
                self.pair(found_a[0], found_b[0])

    def _ties(self, kind: Callable[[int, Item], Hashable], level: Level) -> None:
        """Match items that are alike in every respect one after the other, so that their neighbours follow."""
        for found_a, found_b in self._classes(kind):
            if len(found_a) != len(found_b):
                continue
            others = iter(found_b)
            for a in found_a:
                if a in self.partner[0]:
                    continue
                b = next((each for each in others if each not in self.partner[1]), None)
                if b is not None:
                    self.pair(a, b)
                    self._spread(level)

    # Along the edges

    def _spread(self, level: Level, *, anew: bool = False) -> None:
        """Match the neighbours of matched items, and theirs. If `anew`, all that are matched so far."""
        if anew:
            self._new = deque(self.partner[0].items())
            self._from_borders(level)
        while self._new:
            a, b = self._new.popleft()
            self._makers(a, b, level)
            for value_a, value_b in zip(a.outputs, b.outputs, strict=False):
                self._readers(value_a, value_b, level)

    def _from_borders(self, level: Level) -> None:
        body_a, body_b = self.graphs
        for place_a, place_b in self.borders.inputs:
            self._readers(body_a.inputs[place_a], body_b.inputs[place_b], level)
        for place_a, place_b in self.borders.outputs:
            self._maker(body_a.outputs[place_a], body_b.outputs[place_b], level)

    def _makers(self, a: Item, b: Item, level: Level) -> None:
        if len(a.operands) == len(b.operands) and not a.is_commutative:
            for value_a, value_b in zip(a.operands, b.operands, strict=True):
                if value_a is not None and value_b is not None:
                    self._maker(value_a, value_b, level)
            return
        candidates = tuple(
            [(found[0], found[1]) for value in item.operands if value is not None and (found := body.maker.get(value))]
            for item, body in zip((a, b), self.graphs, strict=True)
        )
        self._only_ones(candidates, level)

    def _maker(self, value_a: ir.Value, value_b: ir.Value, level: Level) -> None:
        found_a, found_b = self.graphs[0].maker.get(value_a), self.graphs[1].maker.get(value_b)
        if found_a is not None and found_b is not None and found_a[1] == found_b[1]:
            self._try(found_a[0], found_b[0], level)

    def _try(self, a: Item, b: Item, level: Level) -> None:
        if a in self.partner[0] or b in self.partner[1]:
            return
        if self.labels[0].local(a, level) == self.labels[1].local(b, level):
            self.pair(a, b)

    def _readers(self, value_a: ir.Value, value_b: ir.Value, level: Level) -> None:
        candidates = tuple(
            [(item, 0 if item.is_commutative and place >= 0 else place) for item, place in body.readers.get(value, ())]
            for body, value in zip(self.graphs, (value_a, value_b), strict=True)
        )
        self._only_ones(candidates, level)

    def _only_ones(self, candidates: tuple[list[tuple[Item, int]], ...], level: Level) -> None:
        """Match the candidates of which there is one with its label and its place on either side."""
        classes: dict[Hashable, tuple[dict[Item, None], dict[Item, None]]] = {}
        for side in (0, 1):
            for item, place in candidates[side]:
                if item not in self.partner[side]:
                    label = (self.labels[side].local(item, level), place)
                    classes.setdefault(label, ({}, {}))[side][item] = None
        for found_a, found_b in classes.values():
            if len(found_a) == len(found_b) == 1:
                self._try(next(iter(found_a)), next(iter(found_b)), level)

    # By order

    def _align(self, level: Level) -> None:
        """Match what is left by order, in the gaps between what is matched."""
        if self._is_done():
            return
        ranks = self._forward(Level.SHAPED)
        order_a, order_b = (canonical_order(body, rank) for body, rank in zip(self.graphs, ranks, strict=True))
        place_b = {item: place for place, item in enumerate(order_b)}
        matched = [place for place, item in enumerate(order_a) if item in self.partner[0]]
        rising = longest_rising([place_b[self.partner[0][order_a[place]]] for place in matched])
        anchors = [(matched[each], place_b[self.partner[0][order_a[matched[each]]]]) for each in rising]
        start_a = start_b = 0
        for end_a, end_b in [*anchors, (len(order_a), len(order_b))]:
            gap_a = [item for item in order_a[start_a:end_a] if item not in self.partner[0]]
            gap_b = [item for item in order_b[start_b:end_b] if item not in self.partner[1]]
            labels_a = [self.labels[0].local(item, level) for item in gap_a]
            labels_b = [self.labels[1].local(item, level) for item in gap_b]
            for i, j in common_subsequence(labels_a, labels_b):
                self.pair(gap_a[i], gap_b[j])
            start_a, start_b = end_a + 1, end_b + 1

    # Second thoughts

    def _repair(self) -> None:
        """Exchange a matched item for its neighbour without a match, if fewer edges are wrong then.

        If the first of two equal nodes in a row is gone, the second one computes what the first did, and is taken for
        it. But whatever read the first or the second may tell otherwise."""
        for side in (0, 1):
            left = deque(self.left(side))
            for _ in range(4 * len(left)):
                if not left:
                    break
                item = left.popleft()
                other = next((each for each in self._like(item, side) if self._exchange(item, each, side)), None)
                if other is not None:
                    left.append(other)
        self._new.clear()

    def _like(self, item: Item, side: int) -> list[Item]:
        """Return the matched neighbours with the same label."""
        body, label = self.graphs[side], self.labels[side].local(item, Level.EXACT)
        near = [body.maker[value][0] for value in item.operands if value in body.maker]
        near += [reader for value in item.outputs for reader, _ in body.readers.get(value, ())]
        matched = [each for each in dict.fromkeys(near) if each in self.partner[side]]
        return [each for each in matched if self.labels[side].local(each, Level.EXACT) == label]

    def _exchange(self, item: Item, other: Item, side: int) -> bool:
        """Give `item` the match of `other`, if that is better."""
        match = self.partner[side][other]
        before = self._wrong(other, side)
        self._rematch(item, other, match, side)
        if self._wrong(item, side) < before:
            return True
        self._rematch(other, item, match, side)
        return False

    def _rematch(self, item: Item, other: Item, match: Item, side: int) -> None:
        del self.partner[side][other]
        self.pair(*((item, match) if side == 0 else (match, item)))

    def _wrong(self, item: Item, side: int) -> int:
        """Return how many edges of a matched pair go elsewhere on the other side, nodes without a match left aside."""
        match = self.partner[side][item]
        wrong = self._wrong_sources(item, match, side)
        for reader in self._known_readers(item, side):
            wrong += self._wrong_sources(reader, self.partner[side][reader], side)
        for reader in self._known_readers(match, 1 - side):
            partner = self.partner[1 - side][reader]
            wrong += self._wrong_sources(partner, reader, side)
        return wrong

    def _known_readers(self, item: Item, side: int) -> list[Item]:
        readers = [reader for value in item.outputs for reader, _ in self.graphs[side].readers.get(value, ())]
        return [reader for reader in dict.fromkeys(readers) if reader in self.partner[side]]

    def _wrong_sources(self, item: Item, match: Item, side: int) -> int:
        own = [self.source(value, side) for value in item.operands if value is not None]
        others = [self.source(value, 1 - side) for value in match.operands if value is not None]
        if item.is_commutative:
            own, others = sorted(own, key=str), sorted(others, key=str)
        return sum(x is not None is not y and x != y for x, y in zip(own, others, strict=False))

    # Pairs as numbers

    def source(self, value: ir.Value, side: int) -> Hashable:
        """Return where a value comes from, the same for both sides; None if it is made by an item without a match."""
        made = self.graphs[side].maker.get(value)
        if made is not None:
            number = self.number(made[0], side)
            return None if number is None else (number, made[1])
        if value in self.inputs[side]:
            return ("input", self.inputs[side][value])
        return ("outer", self.borders.outer[side].get(value))

    def number(self, item: Item, side: int) -> int | None:
        """Return the number of the pair that an item belongs to: the index of its first."""
        first = item if side == 0 and item in self.partner[0] else self.partner[1].get(item) if side else None
        return None if first is None else first.index
