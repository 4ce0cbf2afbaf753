"""Find the pair of values that differs although all that it is computed from agrees.

The search begins at an output that differs, and knows two things to do:

1. Test pairs before it, spread evenly. Of those that differ, the earliest one is the next to look at.
2. Do not look behind pairs that agree: what differs there has no effect here.

It ends at a pair before which nothing is left to test. In a chain of n nodes that takes log n rounds, in a graph with
branches some more. What lies behind values that agree is never blamed, so that a rewritten part of a model which
computes the same is no fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import onnx_ir as ir

from .oracle import Oracle
from .pairing import Pair, Pairing

MOST_NODES = 5
"""A place to blame has at most so many nodes on either side, if it can be helped."""
MOST_AFTER = 64
"""So many values after a difference are looked at, whether they differ as well."""


@dataclass(frozen=True)
class Place:
    """A pair that differs, the nodes that compute it, and the pairs that these read, which agree."""

    pair: Pair
    nodes: tuple[tuple[ir.Node, ...], tuple[ir.Node, ...]]
    sources: tuple[Pair, ...]

    @property
    def size(self) -> int:
        return max(map(len, self.nodes))


@dataclass
class Search:
    """The search for one place. With `exactly`, values must be equal, and not only within tolerance."""

    oracle: Oracle
    exactly: bool = False
    on_round: Callable[[], None] = lambda: None
    readers: dict[Pair, Pair] = field(default_factory=dict)
    """Pair -> the pair that is computed from it, on the way from the output."""

    @property
    def pairing(self) -> Pairing:
        return self.oracle.pairing

    def locate(self, target: Pair) -> Place:
        """Return the place where the difference in `target` begins."""
        while True:
            found = self._earliest(target)
            if self._matters(found, target):
                return self.blame(found)

    def _earliest(self, target: Pair) -> Pair:
        """Return a pair that differs, and is computed from such that agree, as far as is known."""
        while True:
            cone = self.cone(target)
            wrong = [pair for pair in cone if self.is_same(pair) is False]
            if wrong:
                target = min(wrong, key=self.pairing.position)
                continue
            waiting = [pair for pair in cone if not self.oracle.is_known(pair)]
            if not waiting:
                return target
            self.oracle.test(self.oracle.portion(waiting))
            self.on_round()

    def _matters(self, found: Pair, target: Pair) -> bool:
        """Tell whether the difference lasts: the values on the way from there to the target differ as well.

        If one of them agrees, nobody has looked at it yet: now it is known, and the search does not go behind it."""
        way: list[Pair] = []
        at = self.readers.get(found, target)
        while at != target and len(way) < MOST_AFTER:
            way.append(at)
            at = self.readers.get(at, target)
        untested = self.oracle.portion([pair for pair in way if not self.oracle.is_known(pair)])
        self.oracle.test(untested)
        if all(self.is_same(pair) is not True for pair in untested):
            return True
        self.readers.clear()
        return False

    def is_same(self, pair: Pair) -> bool | None:
        return self.oracle.is_same(pair, exactly=self.exactly)

    def cone(self, target: Pair) -> list[Pair]:
        """Return the pairs from which `target` is computed, without those that agree and what is behind them."""
        found: dict[Pair, None] = {}
        waiting = [target]
        while waiting:
            pair = waiting.pop()
            for source in self.pairing.step(pair).sources:
                if source not in found and source != target and self.is_same(source) is not True:
                    found[source] = None
                    self.readers.setdefault(source, pair)
                    waiting.append(source)
        return list(found)

    def blame(self, target: Pair) -> Place:
        """Return the place to blame for a pair that differs, while all that it is computed from agrees.

        It is the node that reads the pair if no node lies in between: then that reads something else than its match.
        If a node is fused with the next one, the values between them differ, and mean nothing: then both are blamed."""
        place = self.place(target)
        reader = self.readers.get(target)
        if reader is None:
            return place
        if not any(place.nodes):
            return self.place(reader)
        if target.a in reader or target.b in reader:
            around = self.place(reader)
            if self.is_same(reader) is False and around.size <= MOST_NODES:
                return around
        return place

    def place(self, target: Pair) -> Place:
        """Return all nodes between a pair and the pairs before it that agree."""
        nodes: tuple[dict[ir.Node, None], dict[ir.Node, None]] = ({}, {})
        sources: dict[Pair, None] = {}
        waiting, seen = [target], {target}
        while waiting:
            step = self.pairing.step(waiting.pop())
            for side in (0, 1):
                nodes[side].update(dict.fromkeys(step.nodes[side]))
            for source in step.sources:
                if self.is_same(source) is True:
                    sources[source] = None
                elif source not in seen:
                    seen.add(source)
                    waiting.append(source)
        return Place(target, (tuple(nodes[0]), tuple(nodes[1])), tuple(sources))
