"""Positions are counted in every module that needs them.

    embeddings: p = arange(seq); encoder: p - 1   ->   embeddings: p = arange(seq); encoder: arange(seq) - 1

Exporters merge equal expressions into the first module that has them, wherever they were written. Most of these values
are masks, and are computed above the modules that use them (rule 5 of `build.py`). Positions cost nothing and depend on
nothing but a size: `torch.arange(x.shape[1])` beside the line that needs it says more than an argument does.

Applies to what only counts (inference/positions.py), in a module beside those that read it. What a module hands to
those inside it is its author's choice and stays; so does one with a size that can only be read where it is, and what
branches and loops read. Sound because nothing but a size is read: the copies are equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import onnx_ir as ir

from onnxlift.ir.graph.shapes import elements_of
from onnxlift.ir.inference.positions import counted

from .scope import Scope, is_within, walk

LONGEST = 16
"""Nodes from a size to what is counted with it."""


def count_locally(
    root: Scope, graph: ir.Graph, order: dict[ir.Node, int], reads: dict[ir.Node, list[ir.Value]]
) -> None:
    """Copy such nodes to the modules that need them: in the tree, in the graph, and in what is known of it."""
    home = {item: scope for scope in walk(root) for item in scope.items if isinstance(item, ir.Node)}
    counts = counted(graph)
    copies: dict[Scope, dict[ir.Value, ir.Value]] = {}
    for node in [node for node in graph if not counts.isdisjoint(node.outputs)]:
        (value,) = node.outputs
        users = [user for user in dict.fromkeys(user for user, _ in value.uses()) if user in home]
        for scope, readers in _beside(users, home, home[node]).items():
            there = copies.setdefault(scope, {})
            needed = _needed(node, scope, home, counts, there)
            for original in sorted(needed, key=order.__getitem__):
                copy = copied(original, there)
                graph.insert_after(original, copy)
                order[copy] = min(order[user] for user in readers)
                reads[copy] = [read for read in copy.inputs if read is not None]
                home[copy] = scope
                scope.items.append(copy)
            for user in readers if needed else ():
                for index, read in enumerate(user.inputs):
                    if read is value:
                        user.replace_input_with(index, there[value])
                reads[user] = [there[value] if read is value else read for read in reads[user]]


def _beside(users: Iterable[ir.Node], home: Mapping[ir.Node, Scope], own: Scope) -> dict[Scope, list[ir.Node]]:
    """The users outside the scope `own`, by the outermost scope of any of them that they are in."""
    found: dict[Scope, list[ir.Node]] = {}
    for user in sorted(users, key=lambda user: len(home[user].path)):
        around = [scope for scope in _upwards(home[user]) if scope in found]
        if not is_within(home[user], own):
            found.setdefault(around[-1] if around else home[user], []).append(user)
    return found


def _upwards(scope: Scope | None) -> Iterator[Scope]:
    while scope is not None:
        yield scope
        scope = scope.parent


def _needed(
    node: ir.Node,
    scope: Scope,
    home: Mapping[ir.Node, Scope],
    counts: Collection[ir.Value],
    there: Collection[ir.Value],
) -> set[ir.Node]:
    """All that `node` is computed from, itself included, that `scope` does not get from around it and has no copy of;
    nothing if it can't be copied."""
    found: set[ir.Node] = set()
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if part in found or is_within(scope, home[part]) or part.outputs[0] in there:
            continue
        is_known = all(value in counts or elements_of(value) is not None for value in part.outputs)
        if len(found) == LONGEST or len(part.outputs) != 1 or not is_known:
            return set()
        found.add(part)
        producers = (value.producer() for value in part.inputs if value is not None)
        waiting += [producer for producer in producers if producer is not None and producer in home]
    return found


def copied(node: ir.Node, copies: dict[ir.Value, ir.Value]) -> ir.Node:
    """The same node once more, reading the `copies` there are; what it gives is one of them."""
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
