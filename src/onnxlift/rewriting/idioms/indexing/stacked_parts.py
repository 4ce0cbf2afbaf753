"""A tensor all of whose parts are assigned is made of these parts.

1. SelectScatter(SelectScatter(x, a, index=0), b, index=1)   ->   Concat(Unsqueeze(a), Unsqueeze(b))
2. SliceScatter(SelectScatter(x, a, index=0), b, start=1)    ->   Concat(Unsqueeze(a), b)

along an axis of two elements and of more. The first becomes `torch.stack` (`stack.py`). People write
`y = torch.zeros_like(x)`, and then `y[:, 0] = a`, `y[:, 1] = b`.

It applies if the parts are along one axis, whose size is a number, if they are all of it, and if nothing but the next
assignment reads what is there in between. A part that is written again counts once, if the whole of it is. Sound
because no element of x is left.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, LiftedOperator, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, made_by
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.stages import step

_WRITING = ("SelectScatter", "SliceScatter")
_MOST_PARTS = 64


@step("stacked-parts", after={"assigned-parts": "it recognises the assignments"})
def run(model: ir.Model) -> int:
    """Recognise tensors that are made of parts; return how many."""
    return sweep(model, {tuple(LiftedOperator(name) for name in _WRITING): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    axis, shape = attribute(node, "axis", 0), shape_of(node.outputs[0])
    size = shape[axis] if shape is not None else None
    if not isinstance(size, int):
        return
    parts: dict[range, ir.Node] = {}
    chain: list[ir.Node] = []
    last: ir.Node | None = node
    while last is not None and attribute(last, "axis", 0) == axis:
        if len(chain) == _MOST_PARTS:  # for speed
            return
        places = _places(last, size)
        if not any(places == known for known in parts):
            if any(not {*places}.isdisjoint(known) for known in parts):
                return
            parts[places] = last
        chain.append(last)
        data = last.inputs[0]
        if sum(map(len, parts)) == size:
            _join(edit, node, axis, [parts[key] for key in sorted(parts, key=lambda key: key.start)])
            drop_unused(edit, chain[1:])
            return
        last = made_by(edit, data, *_WRITING, domain=DOMAIN) if is_private(edit, data) else None


def _places(node: ir.Node, size: int) -> range:
    """Return the places along its axis that a node writes."""
    if node.op_type == "SelectScatter":
        return range(size)[attribute(node, "index", 0) :][:1]
    return range(size)[attribute(node, "start", 0) : attribute(node, "end", None) : attribute(node, "step", 1)]


def _join(edit: Edit, node: ir.Node, axis: int, parts: list[ir.Node]) -> None:
    pieces: list[ir.Value | None] = []
    for part in parts:
        piece = part.inputs[1]
        if part.op_type == "SelectScatter" and piece is not None:
            inputs, attributes = edit.axes(node, [axis])
            shape = shape_of(node.outputs[0]) or ()
            one = (*shape[:axis], 1, *shape[axis + 1 :])
            name = f"{piece.name}.axis"
            piece = edit.insert(node, "Unsqueeze", [piece, *inputs], attributes, like=piece, shape=one, name=name)
        pieces.append(piece)
    edit.replace(node, "Concat", pieces, [ir.AttrInt64("axis", axis)], domain="")
