"""Choose how much of a picture is shown: down to a depth, or one module of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from onnxlift.errors import OnnxLiftError, quote

from ..values import suggestion
from .picture import BORDER, INPUT, OUTPUT, Box, Edge, Picture, Port

MOST_BOXES = 80
"""The boxes that a picture has at most, if it is left open how deep it goes. One level is always shown."""


def deepest(picture: Picture) -> int:
    """Return the number of levels of boxes within boxes."""
    return 1 + max((deepest(box.inside) for box in picture.boxes if box.inside is not None), default=0)


def fitting_depth(picture: Picture) -> int:
    """Return the depth down to which a picture has no more boxes than one can read."""
    counts = [0] * deepest(picture)
    _count(picture, counts, 0)
    shown, depth = 0, 0
    while depth < len(counts) and (depth == 0 or shown + counts[depth] <= MOST_BOXES):
        shown += counts[depth]
        depth += 1
    return max(depth, 1)


def _count(picture: Picture, counts: list[int], level: int) -> None:
    counts[level] += len(picture.boxes)
    for box in picture.boxes:
        if box.inside is not None:
            _count(box.inside, counts, level + 1)


def limited(picture: Picture, depth: int) -> Picture:
    """Return the picture down to a depth. A box whose inside is not shown tells how many boxes that has."""
    boxes: list[Box] = []
    for box in picture.boxes:
        if box.inside is None:
            boxes.append(box)
        elif depth > 1:
            boxes.append(replace(box, inside=limited(box.inside, depth - 1)))
        else:
            boxes.append(replace(box, inside=None, hidden=box.inside.count()[0]))
    return Picture(boxes, picture.edges)


def without_unread(picture: Picture) -> Picture:
    """Return the picture without lines inside boxes to ports that nobody outside reads."""
    read = {(edge.source, edge.source_port) for edge in picture.edges}
    boxes: list[Box] = []
    for number, box in enumerate(picture.boxes):
        inner = box.inside
        if inner is not None:
            edges = [e for e in inner.edges if e.target != BORDER or (number, e.target_port) in read]
            box = replace(box, inside=without_unread(Picture(inner.boxes, edges)))
        boxes.append(box)
    return Picture(boxes, picture.edges)


def module_of(picture: Picture, path: str) -> Picture:
    """Return the picture of one module, with what it takes and gives as inputs and outputs.

    Raises an error that suggests others if there is none."""
    wanted = ".".join(path.replace("/", ".").strip(".").split())
    known: dict[str, None] = {}
    for box in picture.walk():
        if box.path == wanted and wanted:
            return _opened(box)
        if box.path:
            known[box.path] = None
    if not known:
        raise OnnxLiftError(f"no module {quote(path)} was found: this model has no modules.")
    by_depth = sorted(known, key=lambda each: each.count("."))
    raise OnnxLiftError(f"the model has no module {quote(path)}{suggestion(wanted, by_depth)}.")


def _opened(box: Box) -> Picture:
    """Return the inside of a box as a picture of its own; the box alone if there is nothing inside."""
    if box.inside is None:
        inner = Picture([box], list(_through(box)))
    else:
        inner = box.inside
    before = [_end(INPUT, port) for port in box.inputs]
    after = [_end(OUTPUT, port) for port in box.outputs]
    shift, last = len(before), len(before) + len(inner.boxes)
    edges = [
        Edge(
            edge.source_port if edge.source == BORDER else edge.source + shift,
            0 if edge.source == BORDER else edge.source_port,
            last + edge.target_port if edge.target == BORDER else edge.target + shift,
            0 if edge.target == BORDER else edge.target_port,
        )
        for edge in inner.edges
    ]
    return Picture([*before, *inner.boxes, *after], edges)


def _through(box: Box) -> Iterator[Edge]:
    yield from (Edge(BORDER, port, 0, port) for port in range(len(box.inputs)))
    yield from (Edge(0, port, BORDER, port) for port in range(len(box.outputs)))


def _end(kind: str, port: Port) -> Box:
    box = Box(kind, port.name or "?", lines=(port.label,) if port.label else ())
    if kind == INPUT:
        box.outputs.append(port)
    return box
