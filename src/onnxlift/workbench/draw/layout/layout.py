"""Lay out a picture and all pictures inside its boxes, from the innermost outwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ..picture import BORDER, INPUT, Box, Picture
from ..text import SMALL, width_of
from .graph import BOX, ENTRY, EXIT, TAG, Link, Node
from .labels import PADDING, Texts, label_of, tag_text, texts_of
from .ordering import order_rows
from .positions import place_columns
from .rows import add_bends, assign_rows, by_row, replace_far

STRIP = 16.0  # below a box, for the types of its values
MARGIN = 16.0
TAG_HEIGHT = 17.0
STACK = 4.0  # how far each of the sheets behind a row of equal boxes looks out
LEAST_WIDTH = 42.0
LABEL_GAP = 5.0
STRAIGHT, CURVED = 9.0, 20.0  # between rows


@dataclass(eq=False)
class Arranged:
    """A picture that is laid out: its size, its nodes at their places, and the links between them.

    `entries` and `exits` are the places of the ports of the border; `heading` is that of the title."""

    picture: Picture
    width: float = 0.0
    height: float = 0.0
    nodes: list[Node] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    row_ends: list[float] = field(default_factory=list)
    entries: dict[int, float] = field(default_factory=dict)
    exits: dict[int, float] = field(default_factory=dict)
    heading: float = PADDING
    texts: dict[int, Texts] = field(default_factory=dict)
    labels: dict[int, list[str]] = field(default_factory=dict)
    inside: dict[int, Arranged] = field(default_factory=dict)
    sizes: dict[int, tuple[float, float]] = field(default_factory=dict)

    def goes_on(self, port: int) -> bool:
        """Tell whether what comes in at a port of the border is read inside."""
        return any(node.kind == ENTRY and node.box == port and node.down for node in self.nodes)


def lay_out(picture: Picture) -> Arranged:
    """Return the picture laid out."""
    return _arrange(picture, None, [], [])


def _arrange(picture: Picture, box: Box | None, entry_names: Sequence[str], exit_labels: Sequence[str]) -> Arranged:
    result = Arranged(picture)
    labelled = _labelled(picture)
    names = _port_names(picture, entry_names)
    nodes = [_node(result, number, labelled) for number in range(len(picture.boxes))]
    header = 0.0 if box is None else texts_of(box).height + PADDING
    entries = [Node(ENTRY, -1, port, 5, 5, header, outs=(0.0,)) for port in range(len(entry_names))]
    exits = [
        Node(EXIT, len(nodes), port, 5, max(5, LABEL_GAP + width_of(text, SMALL)), 4.0)
        for port, text in enumerate(exit_labels)
    ]
    links: dict[tuple[Node, int, Node, int], Link] = {}
    for edge in picture.edges:
        at_border = edge.source == BORDER
        source = entries[edge.source_port] if at_border else nodes[edge.source]
        target = exits[edge.target_port] if edge.target == BORDER else nodes[edge.target]
        out = 0 if at_border else edge.source_port
        port = edge.target_port if target.ins else 0
        links[source, out, target, port] = Link(source, out, target, port, (edge.source, edge.source_port))
    every = [*entries, *nodes, *exits]
    _lay_out_rows(result, every, list(links.values()), names, header)
    if box is not None:
        _make_room_for_title(result, texts_of(box).width)
    return result


def _labelled(picture: Picture) -> set[tuple[int, int]]:
    """Return the ports whose types are written below them.

    An input has its type inside. What only leaves the picture is told outside of the box around it."""
    return {
        (edge.source, edge.source_port)
        for edge in picture.edges
        if BORDER not in (edge.source, edge.target) and picture.boxes[edge.source].kind != INPUT
    }


def _port_names(picture: Picture, entry_names: Sequence[str]) -> dict[tuple[int, int], str]:
    """Return the names of the values in a picture, by box and port."""
    names = {(BORDER, port): name for port, name in enumerate(entry_names)}
    for number, box in enumerate(picture.boxes):
        own = box.name if box.path and len(box.outputs) == 1 else ""  # a member tells more than an exporter's name
        names |= {(number, port): own or each.name for port, each in enumerate(box.outputs)}
    return names


def _node(result: Arranged, number: int, labelled: set[tuple[int, int]]) -> Node:
    box = result.picture.boxes[number]
    texts = result.texts[number] = texts_of(box)
    result.labels[number] = labels = [
        label_of(port.label) if (number, place) in labelled else "" for place, port in enumerate(box.outputs)
    ]
    if box.inside is not None:
        return _container(result, number, labels)
    rooms = [LABEL_GAP + width_of(label, SMALL) + 12 if label else 12.0 for label in labels]
    width = max(texts.width + 2 * PADDING, LEAST_WIDTH, sum(rooms) if len(rooms) > 1 else 0.0)
    outs = [0.0]
    if len(rooms) > 1:
        outs = [6 - sum(rooms) / 2 + sum(rooms[:port]) for port in range(len(rooms))]
    sheets = STACK * 2 if box.times > 1 else 0.0
    height = texts.height + PADDING
    right = max([width / 2, *(out + room for out, room in zip(outs, rooms, strict=False))])
    result.sizes[number] = (width, height)
    below = STRIP if any(labels) else 0.0
    return Node(BOX, number, number, width / 2, right + sheets, height + sheets + below, (), tuple(outs))


def _container(result: Arranged, number: int, labels: Sequence[str]) -> Node:
    picture = result.picture
    box = picture.boxes[number]
    assert box.inside is not None
    inner = result.inside[number] = _arrange(box.inside, box, [port.name for port in box.inputs], labels)
    half = inner.width / 2
    ins = tuple(inner.entries[port] - half for port in range(len(box.inputs)))
    outs = tuple(inner.exits[port] - half for port in range(len(box.outputs)))
    sheets = STACK * 2 if box.times > 1 else 0.0
    ends = (out + LABEL_GAP + width_of(label, SMALL) for out, label in zip(outs, labels, strict=True))
    result.sizes[number] = (inner.width, inner.height)
    below = STRIP if any(labels) else 0.0
    right = max([half, *ends]) + sheets
    return Node(BOX, number, number, half, right, inner.height + sheets + below, ins, outs)


def _lay_out_rows(
    result: Arranged, nodes: list[Node], links: list[Link], names: dict[tuple[int, int], str], header: float
) -> None:
    forward = assign_rows(nodes, links)
    tag_names = _Tags(names)
    drawn = replace_far(nodes, forward, tag_names.name, tag_names.make)
    result.links = add_bends(nodes, drawn, 3.0)
    rows = by_row(nodes)
    order_rows(rows)
    place_columns(rows)
    left = min((node.x - node.left for node in nodes), default=0.0)
    for node in nodes:
        node.x += MARGIN - left
    result.nodes = nodes
    result.width = max((node.x + node.right for node in nodes), default=MARGIN) + MARGIN
    _slots(nodes)
    _set_heights(result, rows, header)
    result.entries = {node.box: node.x for node in nodes if node.kind == ENTRY}
    result.exits = {node.box: node.x for node in nodes if node.kind == EXIT}


class _Tags:
    """Makes tags, and finds texts for them that tell the values apart."""

    def __init__(self, names: dict[tuple[int, int], str]) -> None:
        self._names = names
        self._texts: dict[tuple[Node, int], str] = {}
        self._taken: set[str] = set()

    def name(self, value: tuple[Node, int]) -> str:
        if value not in self._texts:
            node, port = value
            place = (BORDER, node.box) if node.kind == ENTRY else (node.box, port)
            text = base = tag_text(self._names.get(place, ""))
            number = 2
            while text in self._taken:
                text, number = f"{base} ({number})", number + 1
            self._taken.add(text)
            self._texts[value] = text
        return self._texts[value]

    def make(self, beside: Node, text: str) -> Node:
        half = width_of(text, SMALL) / 2 + 8
        return Node(TAG, beside.order, left=half, right=half, height=TAG_HEIGHT, outs=(0.0,), text=text)


def _slots(nodes: Sequence[Node]) -> None:
    """Set where each link begins and ends. At the top of a box, links end below where they come from, if they can."""
    for node in nodes:
        for link in node.down:
            link.start = node.x + node.out_at(link.source_port)
    for node in nodes:
        if node.kind != BOX or node.ins:
            for link in node.up:
                link.end = node.x + node.in_at(link.target_port)
            continue
        half = node.left - 8
        links = sorted(node.up, key=lambda link: (link.start, link.source.place))
        step = min(12.0, 2 * half / max(len(links) - 1, 1))
        ends = [min(max(link.start, node.x - half), node.x + half) for link in links]
        for place in range(1, len(ends)):
            ends[place] = max(ends[place], ends[place - 1] + step)
        limit = node.x + half
        for place in range(len(ends) - 1, -1, -1):
            ends[place] = min(ends[place], limit)
            limit = ends[place] - step
        for link, end in zip(links, ends, strict=True):
            link.end = end


def _set_heights(result: Arranged, rows: Sequence[Sequence[Node]], header: float) -> None:
    y = header if rows and not any(node.kind == ENTRY for node in rows[0]) else 0.0
    y += MARGIN if not header else 0.0
    strip = False
    for number, row in enumerate(rows):
        if number:
            turn = max((abs(link.start - link.end) for node in row for link in node.up), default=0.0)
            y += STRAIGHT if turn < 1 and strip else CURVED + min(44.0, turn * 0.08)
        elif header and not any(node.kind == ENTRY for node in row):
            y += 6
        for node in row:
            node.y = y
        strip = any(node.kind == BOX and any(result.labels[node.box]) for node in row)
        y += max(node.height for node in row)
        result.row_ends.append(y)
    ends_with_ports = bool(rows) and any(node.kind == EXIT for node in rows[-1])
    result.height = (y or header) + (4.0 if ends_with_ports else MARGIN)
    for row in rows[-1:]:
        for node in row:
            node.y = result.height if node.kind == EXIT else node.y


def _make_room_for_title(result: Arranged, width: float) -> None:
    """Find a place for the title between the lines that come in at the top; make the box wider if there is none."""
    places = sorted(result.entries.values())
    edges = [PADDING - 6, *places, result.width - PADDING + 6]
    for left, right in pairwise(edges):
        if right - left >= width + 12:
            result.heading = left + 6
            return
    result.heading = (places[-1] if places else PADDING - 6) + 6
    result.width = max(result.width, result.heading + width + PADDING)
