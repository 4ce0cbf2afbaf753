"""Draw equal boxes in a row once, with their number.

    layer.0 -> layer.1 -> ... -> layer.11   ->   layer.0 … 11, 12 times

Boxes are equal if all that is drawn of them is equal: class, arguments, contents, and the types of what comes in and
goes out. Each of a row must read the one before it at the same ports. What the others of its ports read is the same for
all of them (a mask), or its own (a cache). Of the values that it passes on, only the last box's may be read by others,
since a reader could not be told which of the boxes it reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from .picture import BORDER, INPUT, MODULE, OUTPUT, Box, Edge, Picture

Signature = tuple[object, ...]


def collapse(picture: Picture, *, interface: bool = True) -> Picture:
    """Return the picture with rows of equal boxes drawn once, inside boxes too.

    Inputs and outputs of the model that only differ in the box of a row that they belong to become one as well."""
    boxes = [
        box if box.inside is None else replace(box, inside=collapse(box.inside, interface=False))
        for box in picture.boxes
    ]
    reduced = _merge(Picture(boxes, picture.edges), _rows(Picture(boxes, picture.edges)))
    return _merge(reduced, _equal_interface(reduced)) if interface else reduced


def _rows(picture: Picture) -> dict[int, int]:
    """Map each box of a row, but for the first, to the first."""
    known: dict[Signature, int] = {}
    signatures = [known.setdefault(_signature(box), len(known)) for box in picture.boxes]
    into: list[list[Edge]] = [[] for _ in picture.boxes]
    out: list[list[Edge]] = [[] for _ in picture.boxes]
    for edge in picture.edges:
        if edge.target != BORDER:
            into[edge.target].append(edge)
        if edge.source != BORDER:
            out[edge.source].append(edge)
    first_of: dict[int, int] = {}
    modules = [number for number, box in enumerate(picture.boxes) if box.kind == MODULE]
    previous: dict[int, int] = {}  # signature -> the last box that has it
    carried: dict[int, frozenset[tuple[int, int]]] = {}  # box -> how it reads the one before it
    for number in modules:
        before = previous.get(signatures[number])
        previous[signatures[number]] = number
        if before is None:
            continue
        link = frozenset((e.source_port, e.target_port) for e in into[number] if e.source == before)
        first = first_of.get(before, before)
        if not link or carried.get(before, link) != link or not _is_row(before, number, first, link, into, out):
            continue
        first_of[number] = first
        carried[number] = link
    return first_of


def _is_row(
    before: int,
    number: int,
    first: int,
    link: frozenset[tuple[int, int]],
    into: Sequence[Sequence[Edge]],
    out: Sequence[Sequence[Edge]],
) -> bool:
    """Tell whether a box may join the row that another ends."""
    passed = {port for port, _ in link}
    taken = {port for _, port in link}
    if any(edge.source_port in passed and edge.target != number for edge in out[before]):
        return False
    if any(edge.target_port in taken and edge.source != before for edge in into[number]):
        return False
    own, others = ({e.target_port: (e.source, e.source_port) for e in into[n]} for n in (number, before))
    if own.keys() != others.keys():
        return False
    # A port of the first that reads the same as another one would not show which of them the row goes on with.
    return all(own[port] == others[port] or own[port][0] != first for port in own.keys() - taken)


def _signature(box: Box) -> Signature:
    inside: Signature = ()
    if box.inside is not None:
        inside = (tuple(map(_inner_signature, box.inside.boxes)), tuple(box.inside.edges))
    ports = tuple(port.label for port in box.outputs)
    return (box.kind, box.title, box.lines, box.times, len(box.inputs), ports, inside)


def _inner_signature(box: Box) -> Signature:
    return (box.name, *_signature(box))


def _equal_interface(picture: Picture) -> dict[int, int]:
    """Map inputs and outputs of the model to the first with the same type and the same readers or source."""
    ends: dict[int, set[tuple[int, int]]] = {}
    for edge in picture.edges:
        if edge.source != BORDER and picture.boxes[edge.source].kind == INPUT:
            ends.setdefault(edge.source, set()).add((edge.target, edge.target_port))
        if edge.target != BORDER and picture.boxes[edge.target].kind == OUTPUT:
            ends.setdefault(edge.target, set()).add((edge.source, edge.source_port))
    first: dict[object, int] = {}
    found: dict[int, int] = {}
    for number, places in sorted(ends.items()):
        box = picture.boxes[number]
        rows = all(place != BORDER and picture.boxes[place].times > 1 for place, _ in places)
        key = (box.kind, box.lines, frozenset(places))
        if rows and first.setdefault(key, number) != number:
            found[number] = first[key]
    return found


def _merge(picture: Picture, first_of: dict[int, int]) -> Picture:
    """Return the picture in which boxes are replaced by the first of their row."""
    if not first_of:
        return picture
    members: dict[int, list[int]] = {}
    for number, first in first_of.items():
        members.setdefault(first, [first]).append(number)
    kept = [number for number in range(len(picture.boxes)) if number not in first_of]
    place = {number: index for index, number in enumerate(kept)} | {BORDER: BORDER}
    place |= {number: place[first] for number, first in first_of.items()}
    boxes = [_row_of([picture.boxes[each] for each in members[n]]) if n in members else picture.boxes[n] for n in kept]
    edges: dict[Edge, None] = {}
    for edge in picture.edges:
        moved = Edge(place[edge.source], edge.source_port, place[edge.target], edge.target_port)
        if moved.source == BORDER or moved.source != moved.target:
            edges[moved] = None
    return Picture(boxes, list(edges))


def _row_of(boxes: Sequence[Box]) -> Box:
    first, last = boxes[0], boxes[-1]
    row = replace(first, times=sum(box.times for box in boxes))
    if first.kind in (INPUT, OUTPUT):
        return replace(row, title=row_name(first.title, last.title))
    return replace(row, name=row_name(first.name, last.name))


def row_name(first: str, last: str) -> str:
    """Return a name for a row, from those of its ends: `layer.0`, `layer.11` -> `layer.0 … 11`."""
    parts, others = re.split(r"(\d+)", first), re.split(r"(\d+)", last)
    differing = [i for i, (a, b) in enumerate(zip(parts, others, strict=False)) if a != b]
    if len(parts) == len(others) and len(differing) == 1 and differing[0] % 2:
        place = differing[0]
        return "".join([*parts[: place + 1], f" … {others[place]}", *parts[place + 1 :]])
    return f"{first} … {last}"
