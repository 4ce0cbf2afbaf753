"""Let code without a name be in the module that it lies between two nodes of.

    norm1, attn.proj   of layers.0   ->   Add   ->   norm2 of layers.0, and the Add after it        Add: layers.0
    Add and mlp.fc2    of layers.0   ->   Add   ->   norm1 of layers.1, and an Add of layers.1      Add: layers.0

Where nothing but the keys of weights tells modules, as in files that an optimiser or a quantiser has written, residual
streams are read by several modules, so that their additions would be in the module around all of these (`paths.py`).
But then layers.0 would be left and entered again, which no call of a module can do, and it would be taken apart.

1. A node lies in the innermost module in which one of the nodes before it lies, and one of those after it. Before and
   after are the nearest nodes with names, through nodes without.
2. What works on several values, all made in one item of a list, lies in that item, if this holds for one of them by
   these rules: the item gives one value then.
3. What follows the nodes of each item of a list, the last one as well, and is the same each time, is the end of that
   item: an MLP whose layers have lost their names, after a norm that has kept its own.

Applies to nodes that nothing names. A list or a dictionary is no module. Sound because names only decide how the source
is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import onnx_ir as ir

NEAREST = 4
"""Modules before and after a node that are compared, at most: a stream without names goes past all modules."""

Path = tuple[str, ...]


def join_between(
    graph: ir.Graph,
    unknown: Collection[ir.Node],
    containers: Collection[Path],
    place: Callable[[ir.Node], Path],
    move: Callable[[ir.Node, Path], None],
) -> None:
    """Move those of the `unknown` nodes that lie between two nodes of a module into it. `place` tells the module that
    holds the code of a node."""
    nodes = list(graph)
    _join_hulls(nodes, unknown, containers, place, move)
    _join_ends(nodes, unknown, place, move)


def _join_hulls(
    nodes: list[ir.Node],
    unknown: Collection[ir.Node],
    containers: Collection[Path],
    place: Callable[[ir.Node], Path],
    move: Callable[[ir.Node, Path], None],
) -> None:
    before = _nearest(nodes, unknown, place, _sources)
    after = _nearest(reversed(nodes), unknown, place, _readers)
    inside: set[ir.Node] = set()
    for node in nodes:
        if node not in unknown:
            continue
        here = place(node)
        shared = (_common(one, other) for one in before[node] for other in after[node])
        path = max((_module(path, containers) for path in shared), key=len, default=here)
        if len(path) <= len(here) or path[: len(here)] != here:
            path = _item_of_sources(node, here, place) if inside.intersection(_sources(node)) else here
        if path != here:
            move(node, path)
            inside.add(node)


def _join_ends(
    nodes: list[ir.Node],
    unknown: Collection[ir.Node],
    place: Callable[[ir.Node], Path],
    move: Callable[[ir.Node, Path], None],
) -> None:
    """Move what follows the items of a list into them, if it follows all of them alike."""
    order = {node: number for number, node in enumerate(nodes)}
    last: dict[Path, int] = {}
    for node in nodes:
        for depth, part in enumerate(place(node)):
            if part.isdigit():
                last[place(node)[: depth + 1]] = order[node]
    lists: dict[Path, list[Path]] = {}
    for item in sorted(last, key=last.__getitem__):
        lists.setdefault(item[:-1], []).append(item)
    for items in lists.values():
        if len(items) < 2:
            continue
        ends = [_end(nodes, last[item] + 1, item, unknown, place) for item in items]
        if ends[0] and all([node.op_type for node in end] == [node.op_type for node in ends[0]] for end in ends):
            for item, end in zip(items, ends, strict=True):
                for node in end:
                    move(node, item)


def _end(
    nodes: Sequence[ir.Node],
    start: int,
    item: Path,
    unknown: Collection[ir.Node],
    place: Callable[[ir.Node], Path],
) -> list[ir.Node]:
    """Return the unknown nodes from `start` on that compute from an item, up to the first one that does not. They lie
    in the module around the list."""
    found: dict[ir.Node, None] = {}
    for number in range(start, len(nodes)):
        node = nodes[number]
        if node not in unknown or place(node) != item[:-2]:
            break
        sources = _sources(node)
        if not any(source in found or place(source)[: len(item)] == item for source in sources):
            break
        found[node] = None
    return [*found]


def _nearest(
    nodes: Iterable[ir.Node],
    unknown: Collection[ir.Node],
    place: Callable[[ir.Node], Path],
    beside: Callable[[ir.Node], list[ir.Node]],
) -> dict[ir.Node, dict[Path, None]]:
    """Return the modules of the nearest known nodes on one side of each unknown node."""
    found: dict[ir.Node, dict[Path, None]] = {}
    for node in nodes:
        if node in unknown:
            others = beside(node)
            near = {place(other): None for other in others if other not in unknown}
            for other in others:
                near |= found.get(other, {})
            found[node] = dict.fromkeys([*near][:NEAREST])
    return found


def _sources(node: ir.Node) -> list[ir.Node]:
    """Return the nodes of the same graph that make what a node reads."""
    made = (value.producer() for value in node.inputs if value is not None)
    return [*dict.fromkeys(source for source in made if source is not None and source.graph is node.graph)]


def _readers(node: ir.Node) -> list[ir.Node]:
    read = (user for value in node.outputs for user, _ in value.uses())
    return [*dict.fromkeys(user for user in read if user.graph is node.graph)]


def _item_of_sources(node: ir.Node, here: Path, place: Callable[[ir.Node], Path]) -> Path:
    """Return the innermost item of a list below `here` that all of several sources of a node lie in, or `here`."""
    sources = [place(source) for source in _sources(node)]
    if len(sources) < 2:
        return here
    path = sources[0]
    for other in sources[1:]:
        path = _common(path, other)
    while len(path) > len(here) and not path[-1].isdigit():
        path = path[:-1]
    return path if len(path) > len(here) and path[: len(here)] == here else here


def _common(one: Path, other: Path) -> Path:
    depth = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:depth]


def _module(path: Path, containers: Collection[Path]) -> Path:
    while path in containers:
        path = path[:-1]
    return path
