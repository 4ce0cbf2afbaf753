"""Find what the two branches of an If have in common: nodes that do the same, with operands that are the same, or that
an If can choose from.

`merged_branches.py` tells what becomes of the pairs, and why that is sound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.rising import longest_rising
from onnxlift.ir.graph.shapes import rank
from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.graph.walk import subgraphs

SMALL = 4096
"""Elements; larger constants are equal only if they are the same."""
MOST_READERS = 16
"""Readers of a value that are compared; a value with more is a size."""
LAYER = 16
"""Elements of a constant of floats that makes its reader a layer."""
_DECIDABLE = (*FLOATS, ir.DataType.BOOL)
_INTEGERS = (ir.DataType.INT64, ir.DataType.INT32)

Pair = tuple[ir.Node, ir.Node]


@dataclass
class Side:
    """A branch, with its nodes in an order that only depends on what its outputs are made of."""

    graph: ir.Graph
    order: dict[ir.Node, int] = field(default_factory=dict)

    @staticmethod
    def of(graph: ir.Graph) -> Side:
        side = Side(graph)
        waiting: list[tuple[ir.Node, bool]] = []
        for output in reversed(graph.outputs):
            waiting += [(maker, False)] if (maker := side.maker(output)) is not None else []
        while waiting:
            node, is_ready = waiting.pop()
            if node in side.order:
                continue
            if is_ready:
                side.order[node] = len(side.order)
                continue
            waiting.append((node, True))
            for value in reversed(node.inputs):
                maker = side.maker(value)
                if maker is not None and maker not in side.order:
                    waiting.append((maker, False))
        return side

    def maker(self, value: ir.Value | None) -> ir.Node | None:
        """Return the node of the branch that makes a value; None if it comes from outside."""
        node = value.producer() if value is not None else None
        return node if node is not None and node.graph is self.graph else None


class Pairing:
    """Finds the nodes that both branches have."""

    def __init__(self, first: Side, second: Side) -> None:
        self.first, self.second = first, second
        self.pairs: dict[ir.Node, ir.Node] = {}
        self.taken: set[ir.Node] = set()

    def find(self) -> list[Pair]:
        """Return the pairs in an order that both branches have."""
        self._pair_layers()
        self._pair_before([*zip(self.first.graph.outputs, self.second.graph.outputs, strict=False)])
        while True:
            count = len(self.pairs)
            self._keep_order()
            self._drop_undecidable()
            if len(self.pairs) == count:
                return sorted(self.pairs.items(), key=lambda pair: self.first.order[pair[0]])

    def _pair_layers(self) -> None:
        found: dict[tuple[object, ...], tuple[list[ir.Node], list[ir.Node]]] = {}
        for side, place in ((self.first, 0), (self.second, 1)):
            for node in side.order:
                if weights := weights_of(node):
                    found.setdefault((node.op_type, node.domain, *weights), ([], []))[place].append(node)
        for ones, others in found.values():
            if len(ones) == len(others):
                for one, other in zip(ones, others, strict=True):
                    self._pair(one, other)

    def _pair(self, one: ir.Node, other: ir.Node) -> None:
        waiting = [(one, other)]
        while waiting:
            one, other = waiting.pop()
            if one in self.pairs or other in self.taken or not _are_alike(one, other):
                continue
            self.pairs[one] = other
            self.taken.add(other)
            waiting += self._readers(one, other)
            waiting += self._makers(zip(one.inputs, other.inputs, strict=True))

    def _pair_before(self, values: Iterable[tuple[ir.Value | None, ir.Value | None]]) -> None:
        for one, other in self._makers(values):
            self._pair(one, other)

    def _makers(self, values: Iterable[tuple[ir.Value | None, ir.Value | None]]) -> list[Pair]:
        made = []
        for one, other in values:
            first, second = self.first.maker(one), self.second.maker(other)
            if first is not None and second is not None and _index(one) == _index(other):
                made.append((first, second))
        return made

    def _readers(self, one: ir.Node, other: ir.Node) -> list[Pair]:
        """Return the nodes that read the results of a pair, where each side has as many of a kind."""
        found: dict[tuple[object, ...], tuple[list[ir.Node], list[ir.Node]]] = {}
        for place, (side, node) in enumerate(((self.first, one), (self.second, other))):
            for output in node.outputs:
                for user, at in islice(output.uses(), MOST_READERS):
                    if user in side.order and not weights_of(user):
                        key = (_index(output), at, user.domain, user.op_type)
                        found.setdefault(key, ([], []))[place].append(user)
        pairs: list[Pair] = []
        for ones, others in found.values():
            if len(ones) == len(others):
                ones.sort(key=self.first.order.__getitem__)
                others.sort(key=self.second.order.__getitem__)
                pairs += zip(ones, others, strict=True)
        return pairs

    def _keep_order(self) -> None:
        """Keep the most pairs that come in the same order in both branches."""
        pairs = sorted(self.pairs.items(), key=lambda pair: self.first.order[pair[0]])
        places = [self.second.order[other] for _, other in pairs]
        self._keep(pairs[place] for place in longest_rising(places))

    def _drop_undecidable(self) -> None:
        """Drop pairs that read something else in each branch which no If should decide. Nothing is decided only to ask
        for its size."""
        decided = {
            values
            for one, other in self.pairs.items()
            if one.op_type not in ("Shape", "Size")
            for values in zip(one.inputs, other.inputs, strict=True)
            if _is_decidable(*values)
        }
        kept: dict[ir.Node, ir.Node] = {}
        for one, other in self.pairs.items():
            if all(is_same(*v, kept) or v in decided for v in zip(one.inputs, other.inputs, strict=True)):
                kept[one] = other
        self._keep(kept.items())

    def _keep(self, pairs: Iterable[Pair]) -> None:
        self.pairs = dict(pairs)
        self.taken = {*self.pairs.values()}


def weights_of(node: ir.Node) -> tuple[ir.Value, ...]:
    """Return the constants of a layer that tell it from others."""
    values = (value for value in node.inputs if value is not None and value.const_value is not None)
    return tuple(value for value in values if value.const_value is not None and value.const_value.size >= LAYER)


def _are_alike(one: ir.Node, other: ir.Node) -> bool:
    """Tell whether two nodes do the same with what they read."""
    kinds = [(n.domain, n.op_type, n.overload, n.version, len(n.inputs), len(n.outputs)) for n in (one, other)]
    if kinds[0] != kinds[1] or subgraphs(one) or subgraphs(other):
        return False
    attributes = [{name: (a.type, a.value) for name, a in n.attributes.items()} for n in (one, other)]
    return all(map(_is_plain, one.attributes.values())) and attributes[0] == attributes[1]


def _is_plain(attribute: ir.Attr) -> bool:
    return not attribute.is_ref() and isinstance(attribute.value, int | float | str | tuple | list)


def is_same(one: ir.Value | None, other: ir.Value | None, pairs: dict[ir.Node, ir.Node]) -> bool:
    """Tell whether two values are one, or are equal constants, or are made by a pair."""
    if one is other:
        return True
    if one is None or other is None:
        return False
    maker = one.producer()
    if maker is not None and pairs.get(maker) is other.producer() is not None:
        return _index(one) == _index(other)
    left, right = constant(one), constant(other)
    if left is None or right is None or left.dtype != right.dtype or left.shape != right.shape or left.size > SMALL:
        return False
    return np.array_equal(left.numpy(), right.numpy())


def _index(value: ir.Value | None) -> int | None:
    return None if value is None else value.index()


def _is_decidable(one: ir.Value | None, other: ir.Value | None) -> bool:
    """Tell whether an If can choose one of two values: tensors of one type, which are no sizes, and no weights."""
    if one is None or other is None or one.dtype != other.dtype or not rank(one) or rank(one) != rank(other):
        return False
    if any(value.const_value is not None and value.const_value.size >= LAYER for value in (one, other)):
        return False
    return one.dtype in _DECIDABLE or (one.dtype in _INTEGERS and not _is_list(one) and not _is_list(other))


def _is_list(value: ir.Value) -> bool:
    """Tell whether a tensor is a list of so many numbers, as sizes and axes are; positions are as many as there are."""
    return rank(value) == 1 and value.shape is not None and value.shape.is_static()
