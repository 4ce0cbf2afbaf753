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
from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.walk import subgraphs
from onnxlift.rewriting.normal_form.dead_code import release
from onnxlift.stages import step

from .parts.branch_pairs import Pair, Pairing, Side, is_same, weights_of

FEWEST = 4
"""Layers that branches must share. Two small branches are easier to read than one with decisions in it."""
MOST_SHARED = 0.5
"""Of the nodes of the smaller branch, the share that must be in both."""


@step("merged-branches", after={"constant-if": "a branch that is always taken needs no other"})
def run(model: ir.Model, *, for_runtime: bool = False) -> int:
    """Share what branches have in common; return how many nodes are shared."""
    return 0 if for_runtime else sweep(model, {"If": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    graphs = [attribute(node, name, None) for name in ("then_branch", "else_branch")]
    if not all(isinstance(graph, ir.Graph) and len(graph) for graph in graphs):
        return
    for output, values in zip(node.outputs, zip(*(graph.outputs for graph in graphs), strict=True), strict=True):
        if not output.uses() and not edit.is_output(output):
            continue
        one, other = map(_before_copies, values)
        maker = one.producer()
        is_outside = maker is None or all(maker.graph is not graph for graph in graphs)
        if one is other and is_outside and edit.redirect(output, one):
            edit.changes += 1
    if any(subgraphs(inner) for graph in graphs for inner in graph):
        return
    sides = (Side.of(graphs[0]), Side.of(graphs[1]))
    pairs = Pairing(*sides).find()
    layers = sum(1 for first, _ in pairs if weights_of(first))
    if layers >= FEWEST and len(pairs) >= MOST_SHARED * min(len(side.order) for side in sides):
        _Merging(edit, node, sides, pairs).run()


def _before_copies(value: ir.Value) -> ir.Value:
    """Return the value that a chain of Identity nodes copies."""
    node = value.producer()
    while node is not None and is_standard(node, "Identity") and node.inputs[0] is not None:
        value, node = node.inputs[0], node.inputs[0].producer()
    return value


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

    def __init__(self, edit: Edit, node: ir.Node, sides: tuple[Side, Side], pairs: Sequence[Pair]) -> None:
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
        if one is None or other is None or is_same(one, other, self.partner) or (one, other) in self.decisions:
            return
        makers = [side.maker(value) for side, value in zip(self.sides, (one, other), strict=True)]
        found = [self._level(m, levels) for m, levels in zip(makers, self.levels, strict=True) if m is not None]
        self.decisions[one, other] = _Decision((one, other), max(found, default=-1), reader)

    def _groups(self) -> dict[int, list[list[_Decision]]]:
        """Return the decisions that are made together, by the number of the pair that they are made before: those that
        can be made as soon as each other and are needed before the next layer, and those that come from the same
        layers."""
        layers = [number for number, (one, _) in enumerate(self.pairs) if weights_of(one)]
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
        return {node for side, value in sides for node in self._own(side, [value]) if weights_of(node)}

    def _insert_ifs(self, groups: Iterable[Sequence[_Decision]]) -> None:
        for decisions in groups:
            self._insert_if(decisions)

    def _insert_if(self, decisions: Sequence[_Decision]) -> None:
        branches = [self._branch(place, [each.values[place] for each in decisions]) for place in (0, 1)]
        named = zip(("then_branch", "else_branch"), branches, strict=True)
        node = ir.Node(
            "",
            "If",
            [self.node.inputs[0]],
            [ir.AttrGraph(name, graph) for name, graph in named],
            num_outputs=len(decisions),
            metadata_props=dict(self.node.metadata_props),
        )
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

    def _own(self, side: Side, values: Sequence[ir.Value]) -> list[ir.Node]:
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
        node.domain,
        node.op_type,
        inputs,
        list(node.attributes.values()),
        overload=node.overload,
        name=node.name,
        version=node.version,
        num_outputs=len(node.outputs),
        metadata_props=dict(node.metadata_props),
    )
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        new.type, new.shape = old.type, old.shape
        new.metadata_props.update(old.metadata_props)
    copy.meta.update(node.meta)
    return copy
