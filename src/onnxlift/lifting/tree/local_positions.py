"""Let every module that needs positions count them itself.

    embeddings: p = arange(seq); encoder: p - 1   ->   embeddings: p = arange(seq); encoder: arange(seq) - 1

Exporters merge equal expressions into the first module that has them, even if they were written in several modules.
Most of these values are masks, and are computed above the modules that use them (rule 5 of `build.py`). Positions cost
nothing and depend on nothing but a size: `torch.arange(x.shape[1])` beside the line that needs it says more than an
argument does.

Applies to values that only count (inference/positions.py), in a module beside those that read them. A value stays if a
module hands it to the modules inside it, since that is the author's choice; if it needs a size that can only be read
where it is; or if branches or loops read it. Sound because nothing but a size is read: the copies are equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import onnx_ir as ir

from onnxlift.ir.graph.shapes import elements_of
from onnxlift.ir.inference.positions import counted

from .build import divide_nodes
from .paths import ModulePaths
from .plan import ModulePlan, homes, is_within

LONGEST = 16
"""The most nodes that are copied together, from a size to the positions counted with it."""


def count_locally(graph: ir.Graph, paths: ModulePaths) -> int:
    """Copy such nodes for the modules that need them, and return the number of copies."""
    counts = counted(graph)
    nodes = [node for node in graph if not counts.isdisjoint(node.outputs)]
    if not nodes:
        return 0
    division = divide_nodes(graph, paths)
    home, order = homes(division.root), division.order
    before = len(paths.copies)
    copies: dict[ModulePlan, dict[ir.Value, ir.Value]] = {}
    for node in nodes:
        (value,) = node.outputs
        users = [user for user in dict.fromkeys(user for user, _ in value.uses()) if user in home]
        for plan, readers in _beside(users, home, home[node]).items():
            there = copies.setdefault(plan, {})
            needed = _needed(node, plan, home, counts, there)
            for original in sorted(needed, key=order.__getitem__):
                copy = copied(original, there)
                graph.insert_after(original, copy)
                order[copy] = min(order[user] for user in readers)
                home[copy] = plan
                paths.copies[copy] = plan.path
            if needed:
                read_instead(readers, value, there[value])
    return len(paths.copies) - before


def read_instead(readers: Iterable[ir.Node], value: ir.Value, other: ir.Value) -> None:
    """Let nodes read `other` instead of `value`."""
    for reader in readers:
        for index, read in enumerate(reader.inputs):
            if read is value:
                reader.replace_input_with(index, other)


def _beside(
    users: Iterable[ir.Node], home: Mapping[ir.Node, ModulePlan], own: ModulePlan
) -> dict[ModulePlan, list[ir.Node]]:
    """Return the users outside the plan `own`, by plan. Users in a plan inside another user's plan are listed under the
    outer one."""
    found: dict[ModulePlan, list[ir.Node]] = {}
    for user in sorted(users, key=lambda user: len(home[user].path)):
        around = [plan for plan in _upwards(home[user]) if plan in found]
        if not is_within(home[user], own):
            found.setdefault(around[-1] if around else home[user], []).append(user)
    return found


def _upwards(plan: ModulePlan | None) -> Iterator[ModulePlan]:
    while plan is not None:
        yield plan
        plan = plan.parent


def _needed(
    node: ir.Node,
    plan: ModulePlan,
    home: Mapping[ir.Node, ModulePlan],
    counts: Collection[ir.Value],
    there: Collection[ir.Value],
) -> set[ir.Node]:
    """Return the nodes that must be copied so that `plan` can compute `node`: itself and all that it is computed from,
    without those that `plan` gets from around it or has a copy of. Return nothing if it can't be copied."""
    found: set[ir.Node] = set()
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if part in found or is_within(plan, home[part]) or part.outputs[0] in there:
            continue
        is_known = all(value in counts or elements_of(value) is not None for value in part.outputs)
        if len(found) == LONGEST or len(part.outputs) != 1 or not is_known:
            return set()
        found.add(part)
        producers = (value.producer() for value in part.inputs if value is not None)
        waiting += [producer for producer in producers if producer is not None and producer in home]
    return found


def copied(node: ir.Node, copies: dict[ir.Value, ir.Value]) -> ir.Node:
    """Return a copy of a node. It reads the `copies` there are, and its output is added to them."""
    (old,) = node.outputs
    new = ir.Value(name=f"{old.name}.local_output_0", type=old.type, shape=old.shape)
    new.meta.update(old.meta)
    copies[old] = new
    return ir.Node(
        node.domain,
        node.op_type,
        [None if value is None else copies.get(value, value) for value in node.inputs],
        node.attributes.values(),
        outputs=[new],
        version=node.version,
        name=node.name,
        metadata_props=dict(node.metadata_props),
    )
