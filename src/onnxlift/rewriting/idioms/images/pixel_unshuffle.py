"""Blocks of pixels that become channels are a pixel unshuffle.

    y = Transpose(Reshape(x, (n, c, h/r, r, w/r, r)), 0 1 3 5 2 4)
    Reshape(y, (n, c*r*r, h/r, w/r))   ->   PixelUnshuffle(x, r)

x is an image of shape (n, c, h, w), and nobody else reads a value in between. Not for blocks that are not square, nor
for the other order of SpaceToDepth, in which the channels lie together. The sizes may be unknown: h and w are multiples
of r, or the first reshape would not have as many elements as x.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.inference.symbolic import floor_divide, product
from onnxlift.stages import step

AXES = [0, 1, 3, 5, 2, 4]


@step("pixel-unshuffle")
def run(model: ir.Model) -> int:
    """Recognise pixel unshuffles; return how many."""
    return sweep(model, {"Reshape": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    turned = made_by(edit, node.inputs[0], "Transpose")
    split = made_by(edit, turned.inputs[0], "Reshape") if turned is not None else None
    order = permutation(turned) if turned is not None else None
    if turned is None or split is None or order is None or list(order) != AXES:
        return
    if not is_private(edit, node.inputs[0]) or not is_private(edit, turned.inputs[0]):
        return
    image, blocks, result = shape_of(split.inputs[0]), shape_of(split.outputs[0]), shape_of(node.outputs[0])
    if image is None or blocks is None or len(image) != 4:
        return
    n, c, h, w = image
    size = blocks[3]
    if not isinstance(size, int) or size < 2:
        return
    rows, columns = floor_divide(h, size), floor_divide(w, size)
    if blocks == (n, c, rows, size, columns, size) and result == (n, product((c, size, size)), rows, columns):
        edit.replace(node, "PixelUnshuffle", [split.inputs[0]], [ir.AttrInt64("size", size)], domain=DOMAIN)
        drop_unused(edit, [turned, split])
