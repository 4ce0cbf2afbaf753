"""Give each node a row, so that every edge leads downwards, and shorten or replace the edges that pass many rows.

1. A node is one row below the lowest of those that it reads (the longest path). So the rows are few, and the order of
   the computation is kept. Nodes that read nothing are moved down to the first that reads them.
2. A value that many nodes read, or one far away, is not drawn as a line there, but as a tag with its name: one at the
   source, and one at each such reader. A mask that feeds every block would cross the whole picture otherwise.
3. An edge that passes rows gets a bend in each. All readers of a value share its bends. If there are still more bends
   than the picture has room for, the longest edges become tags as well; so the work grows with the number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .graph import BEND, ENTRY, EXIT, Link, Node, connect

MANY = 6  # readers
FAR, FAR_IN_SMALL = 9, 18  # rows
SMALL = 120  # nodes
BENDS_A_NODE = 4

Value = tuple[Node, int]


def assign_rows(nodes: Sequence[Node], links: Sequence[Link]) -> list[Link]:
    """Set the rows of all nodes; return the links that lead downwards. Nodes must be in the order of the computation.

    A link that leads back, as only a cycle can have it, is left out."""
    forward = [link for link in links if link.source.order < link.target.order]
    above: dict[Node, list[Node]] = {node: [] for node in nodes}
    below: dict[Node, list[Node]] = {node: [] for node in nodes}
    for link in forward:
        above[link.target].append(link.source)
        below[link.source].append(link.target)
    top = 1 if any(node.kind == ENTRY for node in nodes) else 0
    for node in sorted(nodes, key=lambda node: node.order):
        lowest = max((source.row + 1 for source in above[node]), default=0)
        node.row = max(lowest, 0 if node.kind == ENTRY else top)
    last = max((node.row for node in nodes if node.kind != EXIT), default=-1)
    for node in nodes:
        if node.kind == EXIT:
            node.row = max(last + 1, 1)
        elif node.kind != ENTRY and not above[node] and below[node]:
            node.row = max(top, min(target.row for target in below[node]) - 1)
    return forward


def replace_far(
    nodes: list[Node], links: Sequence[Link], name: Callable[[Value], str], make: Callable[[Node, str], Node]
) -> list[Link]:
    """Replace links that would run far by tags; return the links to draw. New tags are added to `nodes`.

    `name` gives the text of the tag of a value, and `make` a tag beside a node."""
    readers: dict[Value, list[Link]] = {}
    for link in links:
        readers.setdefault((link.source, link.source_port), []).append(link)
    far = _limit(readers, len(nodes))
    drawn: list[Link] = []
    for value, group in readers.items():
        tagged = [link for link in group if _span(link) > far]
        near = [link for link in group if _span(link) <= far]
        rows = {link.target.row for link in group}
        if len({link.target for link in group}) > MANY and len(rows) > 2:
            tagged, near = group, []
        drawn += near
        if tagged:
            drawn += list(_tags(value, tagged, nodes, name(value), make))
    return drawn


def _limit(readers: dict[Value, list[Link]], count: int) -> int:
    """Return how many rows an edge may span, so that there are not too many bends."""
    room = BENDS_A_NODE * count + 60
    far = FAR_IN_SMALL if count <= SMALL else FAR
    while far > 1:
        bends = sum(max((s for s in map(_span, group) if s <= far), default=1) - 1 for group in readers.values())
        if bends <= room:
            break
        far -= 1
    return far


def _tags(
    value: Value, links: Sequence[Link], nodes: list[Node], text: str, make: Callable[[Node, str], Node]
) -> list[Link]:
    source, port = value
    own = make(source, text)
    own.row, own.order = source.row + 1, source.order
    made = [Link(source, port, own, 0, links[0].value)]
    nodes.append(own)
    for target, target_port in dict.fromkeys((link.target, link.target_port) for link in links):
        tag = make(target, text)
        tag.row, tag.order = target.row - 1, target.order
        nodes.append(tag)
        made.append(Link(tag, 0, target, target_port, links[0].value))
    return made


def _span(link: Link) -> int:
    return link.target.row - link.source.row


def add_bends(nodes: list[Node], links: Sequence[Link], width: float) -> list[Link]:
    """Give each link that passes rows a bend in each of them, and enter all links at their nodes; return them."""
    bends: dict[tuple[Node, int, int], Node] = {}
    drawn: list[Link] = []

    def add(link: Link) -> None:
        connect(link)
        drawn.append(link)

    for link in sorted(links, key=_span):
        node, port = link.source, link.source_port
        for row in range(link.source.row + 1, link.target.row):
            key = (link.source, link.source_port, row)
            bend = bends.get(key)
            if bend is None:
                bend = bends[key] = Node(BEND, link.source.order, left=width, right=width, row=row, outs=(0.0,))
                nodes.append(bend)
                add(Link(node, port, bend, 0, link.value))
            node, port = bend, 0
        add(Link(node, port, link.target, link.target_port, link.value))
    return drawn


def by_row(nodes: Sequence[Node]) -> list[list[Node]]:
    """Return the nodes of each row, in the order of the computation. Rows without nodes are left out."""
    rows: dict[int, list[Node]] = {}
    for node in nodes:
        rows.setdefault(node.row, []).append(node)
    ordered = [sorted(rows[row], key=lambda node: node.order) for row in sorted(rows)]
    for number, row in enumerate(ordered):
        for node in row:
            node.row = number
    return ordered
