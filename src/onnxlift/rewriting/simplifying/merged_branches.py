"""Let both branches of an If share what they have in common, and decide only where they differ.

    logits = If(use_cache, then: ... Attention(q, Concat(past, k)) ..., else: ... Attention(q, k) ...)
        ->   keys = If(use_cache, then: Concat(past, k), else: k)      logits = ... Attention(q, keys) ...

Hugging Face's merged decoders hold a network twice: with the keys and values of the past, and without. Both branches
have the same layers, with the same weights.

1. Layers with the same weights are pairs. So are nodes before and after them, of the same operator and attributes, as
   far as what they read are the same values, equal constants, results of pairs, or tensors that an If can choose from.
2. What is a size, or has no axes, is computed in the branches: nobody writes `x if c else y` for each number. And two
   layers with weights of their own are no pair: two networks of one kind stay two.
3. Pairs have one order in both branches, so that what makes one of them never needs a later one.
4. A pair becomes one node in front of the If. Where its operands differ, it reads a small If, whose branches hold what
   only one of them computes. Those that are read next and can be made together are one If.
5. What both branches give from outside is no decision.

Applies if at least a few layers are shared, and most of the smaller branch, and there are no graphs inside. Sound
because a pair runs in either branch with operands that are equal to those that it had there; what runs in one branch
only still does. For source only: a runtime takes a large branch at no cost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import rank
from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.graph.walk import subgraphs
from onnxlift.rewriting.normal_form.dead_code import release
from onnxlift.stages import step

FEWEST = 4
"""Layers that branches must share. Two small branches are easier to read than one with decisions in it."""
MOST_SHARED = 0.5
"""Of the nodes of the smaller branch, the share that must be in both."""
SMALL = 4096
"""Elements; larger constants are equal only if they are the same."""
MOST_READERS = 16
"""Readers of a value that are compared; a value with more is a size."""
LAYER = 16
"""Elements of a constant of floats that makes its reader a layer."""
_DECIDABLE = (*FLOATS, ir.DataType.BOOL)
_INTEGERS = (ir.DataType.INT64, ir.DataType.INT32)

Pair = tuple[ir.Node, ir.Node]


@step("merged-branches", after={"constant-if": "a branch that is always taken needs no other"})
def run(model: ir.Model, *, for_runtime: bool = False) -> int:
    """Share what branches have in common; return how many nodes are shared."""
    return 0 if for_runtime else sweep(model, {"If": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    graphs = [attribute(node, name, None) for name in ("then_branch", "else_branch")]
    if not all(isinstance(graph, ir.Graph) and len(graph) for graph in graphs):
        return
    for output, values in zip(node.outputs, zip(*(graph.outputs for graph in graphs), strict=True), strict=True):
        one, other = map(_before_copies, values)
        maker = one.producer()
        is_outside = maker is None or all(maker.graph is not graph for graph in graphs)
        if one is other and is_outside and edit.redirect(output, one):
            edit.changes += 1
    if any(subgraphs(inner) for graph in graphs for inner in graph):
        return
    sides = (_Side.of(graphs[0]), _Side.of(graphs[1]))
    pairs = _Pairing(*sides).find()
    layers = sum(1 for first, _ in pairs if _weights(first))
    if layers >= FEWEST and len(pairs) >= MOST_SHARED * min(len(side.order) for side in sides):
        _Merging(edit, node, sides, pairs).run()


def _before_copies(value: ir.Value) -> ir.Value:
    """Return the value that a chain of Identity nodes copies."""
    node = value.producer()
    while node is not None and is_standard(node, "Identity") and node.inputs[0] is not None:
        value, node = node.inputs[0], node.inputs[0].producer()
    return value


@dataclass
class _Side:
    """A branch, with its nodes in an order that only depends on what its outputs are made of."""

    graph: ir.Graph
    order: dict[ir.Node, int] = field(default_factory=dict)

    @staticmethod
    def of(graph: ir.Graph) -> _Side:
        side = _Side(graph)
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


class _Pairing:
    """Finds the nodes that both branches have."""

    def __init__(self, first: _Side, second: _Side) -> None:
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
                if weights := _weights(node):
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
                    if user in side.order and not _weights(user):
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
        ends: list[int] = []
        tails: list[int] = []
        before: list[int] = []
        for number, place in enumerate(places):
            at = bisect_left(tails, place)
            before.append(ends[at - 1] if at else -1)
            tails[at : at + 1] = [place]
            ends[at : at + 1] = [number]
        kept: list[Pair] = []
        number = ends[-1] if ends else -1
        while number >= 0:
            kept.append(pairs[number])
            number = before[number]
        self._keep(kept[::-1])

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
            if all(_is_same(*v, kept) or v in decided for v in zip(one.inputs, other.inputs, strict=True)):
                kept[one] = other
        self._keep(kept.items())

    def _keep(self, pairs: Iterable[Pair]) -> None:
        self.pairs = dict(pairs)
        self.taken = {*self.pairs.values()}


def _weights(node: ir.Node) -> tuple[ir.Value, ...]:
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


def _is_same(one: ir.Value | None, other: ir.Value | None, pairs: dict[ir.Node, ir.Node]) -> bool:
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


@dataclass(eq=False)
class _Decision:
    """A value that is another one in each branch. `level` is the number of the last pair that it needs, `reader` that
    of the first one that needs it."""

    values: tuple[ir.Value, ir.Value]
    level: int
    reader: int
    result: ir.Value | None = None


class _Merging:
    """Puts the pairs in front of the If, and small Ifs between them."""

    def __init__(self, edit: Edit, node: ir.Node, sides: tuple[_Side, _Side], pairs: Sequence[Pair]) -> None:
        self.edit, self.node, self.sides, self.pairs = edit, node, sides, pairs
        self.partner = dict(pairs)
        self.number = {each: number for number, pair in enumerate(pairs) for each in pair}
        self.levels: tuple[dict[ir.Node, int], dict[ir.Node, int]] = ({}, {})
        self.decisions: dict[tuple[ir.Value, ir.Value], _Decision] = {}
        self.shared: dict[ir.Value, ir.Value] = {}

    def run(self) -> None:
        outputs = [*zip(*(side.graph.outputs for side in self.sides), strict=True)]
        for side in self.sides:
            side.graph.outputs.clear()
            self.edit.adopt_weights(side.graph)
        for side, levels in zip(self.sides, self.levels, strict=True):
            for node in side.order:
                makers = (side.maker(value) for value in node.inputs)
                levels[node] = max((self._level(maker, levels) for maker in makers if maker is not None), default=-1)
        for number, (one, other) in enumerate(self.pairs):
            for values in zip(one.inputs, other.inputs, strict=True):
                self._decide(values, number)
        for values in outputs:
            self._decide(values, len(self.pairs))
        groups = self._groups()
        for number, (one, other) in enumerate(self.pairs):
            self._insert_ifs(groups.get(number, ()))
            self._share(one, other)
        self._insert_ifs(groups.get(len(self.pairs), ()))
        results = [self._result(values) for values in outputs]
        for output, result in zip(self.node.outputs, results, strict=True):
            if not self.edit.redirect(output, result):
                copy = ir.Node("", "Identity", [result])
                copy.outputs[0].type = output.type
                self.edit.graph.insert_before(self.node, copy)
                self.edit.redirect(output, copy.outputs[0])
        release(self.node)
        self.edit.drop(self.node)
        self.edit.changes += len(self.pairs)

    def _level(self, node: ir.Node, levels: dict[ir.Node, int]) -> int:
        return self.number.get(node, levels.get(node, -1))

    def _decide(self, values: tuple[ir.Value | None, ir.Value | None], reader: int) -> None:
        one, other = values
        if one is None or other is None or _is_same(one, other, self.partner) or (one, other) in self.decisions:
            return
        makers = [side.maker(value) for side, value in zip(self.sides, (one, other), strict=True)]
        found = [self._level(m, levels) for m, levels in zip(makers, self.levels, strict=True) if m is not None]
        self.decisions[one, other] = _Decision((one, other), max(found, default=-1), reader)

    def _groups(self) -> dict[int, list[list[_Decision]]]:
        """Return the decisions that are made together, by the number of the pair that they are made before: those that
        can be made as soon as each other and are needed before the next layer, and those that come from the same
        layers."""
        layers = [number for number, (one, _) in enumerate(self.pairs) if _weights(one)]
        waiting = sorted(self.decisions.values(), key=lambda decision: decision.reader)
        made_by = {decision: self._layers(decision) for decision in waiting}
        groups: dict[int, list[list[_Decision]]] = {}
        while waiting:
            first = waiting[0]
            at = bisect_left(layers, first.reader)
            end = layers[at] if at < len(layers) else len(self.pairs)
            group = [each for each in waiting if each.level == first.level and each.reader <= end]
            shared = {node for each in group for node in made_by[each]}
            group += [
                each
                for each in waiting
                if each not in group and each.level < first.reader and not shared.isdisjoint(made_by[each])
            ]
            groups.setdefault(first.reader, []).append(group)
            made = {*group}
            waiting = [each for each in waiting if each not in made]
        return groups

    def _layers(self, decision: _Decision) -> set[ir.Node]:
        """Return the layers of either branch alone that make its values."""
        sides = zip(self.sides, decision.values, strict=True)
        return {node for side, value in sides for node in self._own(side, [value]) if _weights(node)}

    def _insert_ifs(self, groups: Iterable[Sequence[_Decision]]) -> None:
        for decisions in groups:
            self._insert_if(decisions)

    def _insert_if(self, decisions: Sequence[_Decision]) -> None:
        branches = [self._branch(place, [each.values[place] for each in decisions]) for place in (0, 1)]
        named = zip(("then_branch", "else_branch"), branches, strict=True)
        node = ir.Node(
            "", "If", [self.node.inputs[0]], [ir.AttrGraph(name, graph) for name, graph in named],
            num_outputs=len(decisions), metadata_props=dict(self.node.metadata_props),
        )  # fmt: skip
        for decision, output in zip(decisions, node.outputs, strict=True):
            one = decision.values[0]
            output.name, output.type = self.edit.names.fresh(one.name or "decided"), one.type
            decision.result = output
        self.edit.graph.insert_before(self.node, node)

    def _branch(self, place: int, values: Sequence[ir.Value]) -> ir.Graph:
        """Return a graph that gives these values of a branch."""
        side, graph = self.sides[place], ir.Graph([], [], nodes=[], name=self.sides[place].graph.name)
        copies: dict[ir.Value, ir.Value] = {}
        for node in self._own(side, values):
            copy = _copied(node, [self._inside(value, place, copies) for value in node.inputs])
            for old, new in zip(node.outputs, copy.outputs, strict=True):
                new.name = self.edit.names.fresh(old.name or "value")
                copies[old] = new
            graph.append(copy)
        for value in values:
            source = self._inside(value, place, copies)
            assert source is not None
            if source.graph is not graph or source in graph.outputs:
                same = ir.Node("", "Identity", [source])
                same.outputs[0].type, same.outputs[0].shape = value.type, value.shape
                same.outputs[0].name = self.edit.names.fresh(value.name or "value")
                graph.append(same)
                source = same.outputs[0]
            graph.outputs.append(source)
        return graph

    def _own(self, side: _Side, values: Sequence[ir.Value]) -> list[ir.Node]:
        """Return the nodes of a branch alone that make these values, in their order."""
        found: set[ir.Node] = set()
        waiting: list[ir.Value | None] = [*values]
        while waiting:
            maker = side.maker(waiting.pop())
            if maker is not None and maker not in self.number and maker not in found:
                found.add(maker)
                waiting += maker.inputs
        return sorted(found, key=side.order.__getitem__)

    def _inside(self, value: ir.Value | None, place: int, copies: dict[ir.Value, ir.Value]) -> ir.Value | None:
        return None if value is None else copies.get(value, self.shared.get(value, value))

    def _share(self, one: ir.Node, other: ir.Node) -> None:
        """Put a pair in front of the If as one node."""
        inputs = [self._operand(values) for values in zip(one.inputs, other.inputs, strict=True)]
        node = _copied(one, inputs)
        for old, twin, new in zip(one.outputs, other.outputs, node.outputs, strict=True):
            new.name, new.shape = self.edit.names.distinct(old.name or ""), None
            self.shared[old] = self.shared[twin] = new
        self.edit.graph.insert_before(self.node, node)

    def _operand(self, values: tuple[ir.Value | None, ir.Value | None]) -> ir.Value | None:
        return None if values[0] is None else self._result((values[0], values[1] or values[0]))

    def _result(self, values: tuple[ir.Value, ir.Value]) -> ir.Value:
        decision = self.decisions.get(values)
        if decision is not None:
            assert decision.result is not None
            return decision.result
        return self.shared.get(values[0], values[0])


def _copied(node: ir.Node, inputs: Sequence[ir.Value | None]) -> ir.Node:
    copy = ir.Node(
        node.domain, node.op_type, inputs, list(node.attributes.values()), overload=node.overload, name=node.name,
        version=node.version, num_outputs=len(node.outputs), metadata_props=dict(node.metadata_props),
    )  # fmt: skip
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        new.type, new.shape = old.type, old.shape
        new.metadata_props.update(old.metadata_props)
    copy.meta.update(node.meta)
    return copy
