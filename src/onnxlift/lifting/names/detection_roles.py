"""Find what the values of a detector's post-processing are: boxes, their scores and corners, the overlap of two.

    NonMaxSuppression(b, s) -> k                               b: boxes, s: scores, k: keep
    clip(min(a, b) - max(c, d), 0), of both axes multiplied    overlap, intersection; the boxes behind a, b, c and d
    intersection / u                                           iou, union
    a, b, c, d = pieces of v, with c - a and d - b             v: boxes; x1, y1, x2, y2; width, height, and their area
    TopK(s) -> t, i, with boxes[i]                             s and t: scores

What is selected from boxes, or brought into another shape, is boxes again, and so for scores. The roles are kept as the
usual names of the values. They are only words: what is written does not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from onnxlift.ir.graph.constants import number
from onnxlift.ir.graph.marks import USUAL_NAME
from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.graph.walk import regions

BOXES, SCORES = "boxes", "scores"
_CORNERS = ("x1", "y1", "x2", "y2")
_SHAPING = {"Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
_SELECTING = {"Gather", "GatherElements", "GatherND", "Masked"}
_PIECES = {"Slice", "Split", "Unbind", "Gather"}

Found = Iterator[tuple[ir.Value, str]]


def mark_detections(model: ir.Model) -> None:
    """Note the usual names of the values of a post-processing in all graphs of a model."""
    for region in regions(model):
        by_type: dict[str, list[ir.Node]] = {}
        for node in region.graph:
            by_type.setdefault(node.op_type, []).append(node)
        for rule in (_suppression, _overlaps, _corners, _ranked):  # the last one asks what the others have found
            for value, word in rule(by_type):
                _note(value, word)


def _note(value: ir.Value, word: str) -> None:
    """Note the word for a value; boxes and scores also for all values that it is made of without arithmetic."""
    waiting = [value]
    for current in waiting:
        if (
            USUAL_NAME in current.meta
            or current.const_value is not None
            or current.dtype not in (*FLOATS, ir.DataType.INT64)
        ):
            continue
        current.meta[USUAL_NAME] = word
        node = current.producer()
        if word in (BOXES, SCORES) and node is not None and node.op_type in _SHAPING | _SELECTING | {"Concat"}:
            waiting += [v for v in _data(node) if v is not None and v.dtype in FLOATS and _size(v) == _size(current)]


def _data(node: ir.Node) -> Sequence[ir.Value | None]:
    return node.inputs if node.op_type == "Concat" else node.inputs[:1]


def _size(value: ir.Value) -> object:
    """Return whether the last size of a value is 4, as that of boxes is."""
    return value.shape is not None and len(value.shape) > 0 and value.shape[-1] == 4


def _suppression(by_type: dict[str, list[ir.Node]]) -> Found:
    for node in by_type.get("NonMaxSuppression", ()):
        for value, word in zip((*node.inputs[:2], node.outputs[0]), (BOXES, SCORES, "keep"), strict=True):
            if value is not None:
                yield value, word


def _overlaps(by_type: dict[str, list[ir.Node]]) -> Found:
    """Yield the sides of what two boxes have in common, their product, and its share of both boxes."""
    sides: set[ir.Value] = set()
    for node in (*by_type.get("Clip", ()), *by_type.get("Relu", ())):
        difference = _made_by(node.inputs[0], "Sub")
        low = node.inputs[1] if node.op_type == "Clip" and len(node.inputs) > 1 else None
        if difference is None or (node.op_type == "Clip" and (low is None or number(low) != 0)):
            continue
        ends = [_made_by(value, kind) for value, kind in zip(difference.inputs, ("Min", "Max"), strict=True)]
        if None in ends:
            continue
        sides.add(node.outputs[0])
        yield node.outputs[0], "overlap"
        for value in (value for end in ends if end is not None for value in end.inputs):
            yield from ((source, BOXES) for source in _whole(value))
    for node in by_type.get("Mul", ()) if sides else ():
        if all(value in sides or _piece_of(value) in sides for value in node.inputs):
            yield node.outputs[0], "intersection"
            for user, index in node.outputs[0].uses():
                if user.op_type == "Div" and index == 0 and user.inputs[1] is not None:
                    yield user.outputs[0], "iou"
                    yield user.inputs[1], "union"


def _corners(by_type: dict[str, list[ir.Node]]) -> Found:
    """Yield boxes that are cut into their four corners, and what is computed from these."""
    for node in (*by_type.get("Split", ()), *by_type.get("Unbind", ())):
        pieces = [_squeezed(value) for value in node.outputs]
        if len(pieces) != 4 or node.inputs[0] is None:
            continue
        width, height = (_difference(pieces[end], pieces[start]) for end, start in ((2, 0), (3, 1)))
        if width is None or height is None:
            continue
        yield node.inputs[0], BOXES
        yield from zip(pieces, _CORNERS, strict=True)
        yield from ((width, "width"), (height, "height"))
        for user, _ in width.uses():
            if user.op_type == "Mul" and height in user.inputs:
                yield user.outputs[0], "area"


def _ranked(by_type: dict[str, list[ir.Node]]) -> Found:
    """Yield the scores by whose rank boxes are selected."""
    for node in by_type.get("TopK", ()):
        readers = (user for user, index in node.outputs[1].uses() if user.op_type in _SELECTING and index == 1)
        if node.inputs[0] is not None and any(user.outputs[0].meta.get(USUAL_NAME) == BOXES for user in readers):
            yield node.outputs[0], SCORES
            yield node.inputs[0], SCORES


def _made_by(value: ir.Value | None, kind: str) -> ir.Node | None:
    node = value.producer() if value is not None else None
    return node if node is not None and node.op_type == kind else None


def _piece_of(value: ir.Value | None) -> ir.Value | None:
    """Return the value that `value` is a piece of."""
    node = value.producer() if value is not None else None
    return node.inputs[0] if node is not None and node.op_type in _PIECES else None


def _whole(value: ir.Value | None) -> Iterator[ir.Value]:
    """Yield the value with four columns that `value` is a piece of, in another shape perhaps."""
    for _ in range(4):
        node = value.producer() if value is not None else None
        if node is None or node.op_type not in _PIECES | _SHAPING:
            return
        value = node.inputs[0]
        if value is not None and _size(value):
            yield value
            return


def _squeezed(value: ir.Value) -> ir.Value:
    """Return the value without its axis of length 1, if that is all that anybody reads of it."""
    users = [user for user, _ in value.uses()]
    return users[0].outputs[0] if len(users) == 1 and users[0].op_type in ("Squeeze", "Reshape") else value


def _difference(end: ir.Value, start: ir.Value) -> ir.Value | None:
    """Return `end - start`, if somebody computes that."""
    for user, index in end.uses():
        if user.op_type == "Sub" and index == 0 and user.inputs[1] is start:
            return user.outputs[0]
    return None
