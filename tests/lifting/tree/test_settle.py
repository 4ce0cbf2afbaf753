"""The order of execution in a module: what waits for itself is dissolved, and nothing else."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnxlift.lifting.tree.plan import ModulePlan
from onnxlift.lifting.tree.settle import settle

Reads = dict[ir.Node, list[ir.Value]]


def chain(length: int, value: ir.Value | None = None) -> list[ir.Node]:
    """Nodes each of which reads the one before it."""
    nodes: list[ir.Node] = []
    for _ in range(length):
        nodes.append(ir.Node("", "Sin", [value]))
        value = nodes[-1].outputs[0]
    return nodes


def settled(root: ModulePlan) -> list[ir.Node | ModulePlan]:
    nodes = list(root.nodes())
    reads: Reads = {node: [value for value in node.inputs if value is not None] for node in nodes}
    settle(root, {node: index for index, node in enumerate(nodes)}, reads)
    return root.items


def test_a_module_around_what_reads_it_is_dissolved() -> None:
    first, between, last = chain(3)
    inside = ModulePlan(("block",), [first, last])
    assert settled(ModulePlan((), [inside, between])) == [first, between, last]


def test_what_comes_behind_a_cycle_keeps_its_modules() -> None:
    first, between, last, *after = chain(5)
    behind = ModulePlan(("head",), after)
    inside = ModulePlan(("block",), [first, last])
    assert settled(ModulePlan((), [behind, inside, between])) == [first, between, last, behind]


def test_nodes_that_wait_for_one_another_are_an_error() -> None:
    """No valid graph has them: a pass that makes them is told, where it would be waited for without end."""
    first, second = chain(2)
    first.replace_input_with(0, second.outputs[0])
    with pytest.raises(RuntimeError, match="2 nodes wait for one another"):
        settled(ModulePlan((), [first, second]))
