"""Find the values that cross the border of each module: the inputs of its `forward`, and its results."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from onnxlift.ir.graph.types import INTEGERS

from .plan import ModulePlan


def find_borders(plan: ModulePlan, graph: ir.Graph, reads: dict[ir.Node, list[ir.Value]]) -> None:
    """Find the inputs and outputs of a plan and of all plans inside it. Those of the root are the graph's."""
    consumers: dict[ir.Value, list[ir.Node]] = {}
    for node, values in reads.items():
        for value in values:
            consumers.setdefault(value, []).append(node)
    results = set(graph.outputs)
    declared = {value: number for number, value in enumerate(graph.inputs)}
    # The source may read several indices in another order than the graph. A model exported from it would then have
    # another order, too. So integers stand in the order in which they are computed.
    integers = (value for node in graph for value in node.outputs if value.dtype in INTEGERS)
    computed = {value: number for number, value in enumerate(integers)}

    def visit(plan: ModulePlan) -> set[ir.Node]:
        inside: set[ir.Node] = set()
        for item in plan.items:
            inside |= visit(item) if isinstance(item, ModulePlan) else {item}
        inputs: dict[ir.Value, None] = {}
        for node in plan.nodes():
            for value in reads[node]:
                if value.const_value is None and value.producer() not in inside:
                    inputs[value] = None
            for value in node.outputs:
                if value in results or any(c not in inside for c in consumers.get(value, ())):
                    plan.outputs.append(value)
        by_the_way = {v for v in plan.outputs if all(c in inside for c in consumers.get(v, ()))}
        plan.outputs = _main_first(plan.outputs, by_the_way, inside, reads)
        plan.inputs = list(inputs) if plan.calls else _in_order(_in_order(list(inputs), declared), computed)
        return inside

    visit(plan)
    plan.inputs = [v for v in graph.inputs if v.const_value is None]
    plan.outputs = list(graph.outputs)


def _in_order(values: list[ir.Value], place: Mapping[ir.Value, int]) -> list[ir.Value]:
    """Sort the values that have a `place` by it, among one another. All other values stay where they are."""
    placed = iter(sorted((value for value in values if value in place), key=place.__getitem__))
    return [next(placed) if value in place else value for value in values]


def _main_first(
    outputs: list[ir.Value],
    by_the_way: Collection[ir.Value],
    inside: Collection[ir.Node],
    reads: Mapping[ir.Node, list[ir.Value]],
) -> list[ir.Value]:
    """Return the outputs of a module in the order in which they are computed, with one exception.

    The last output comes first if it is computed from all others, and the others only leave the model, like the keys
    and values that a decoder gives to its next step.
    """
    others, waiting = outputs[:-1], outputs[-1:]
    if not others or not all(value in by_the_way for value in others):
        return outputs
    used: set[ir.Value] = set()
    while waiting:
        producer = waiting.pop().producer()
        if producer is not None and producer in inside:
            new = [value for value in reads[producer] if value not in used]
            used.update(new)
            waiting += new
    return [outputs[-1], *others] if used.issuperset(others) else outputs
