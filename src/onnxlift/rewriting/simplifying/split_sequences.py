"""Replace a split into a sequence by a Split, if every piece is taken out of the sequence by its number.

    s = SplitToSequence(x, sizes, axis), SequenceAt(s, 0), SequenceAt(s, 1)   ->   Split(x, sizes, axis)

PyTorch's newer exporter writes `x.split(...)` and `x.chunk(...)` so when it does not optimise. It applies if the sizes
of the axis and of the pieces are known, each piece is taken out once, and nothing else reads the sequence. Sound
because the pieces are the same.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import shape_of, static_elements
from onnxlift.stages import step

MOST_PIECES = 1000
OLDEST = 13  # the first opset in which the sizes of Split are an input


@step("split-sequences", repeats=True)
def run(model: ir.Model) -> int:
    """Replace these sequences by tensors; return how many."""
    return sweep(model, {"SplitToSequence": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if len(node.inputs) < 2 or edit.opset(node) < OLDEST:
        return
    (sequence,) = node.outputs
    sizes = _sizes(node)
    readers = [reader for reader, _ in sequence.uses()]
    if not sizes or len(readers) != len(sizes) or edit.is_output(sequence):
        return
    pieces: dict[int, ir.Node] = {}
    for reader in readers:
        place = static_elements(reader.inputs[1]) if is_standard(reader, "SequenceAt") else None
        if place is None or len(place) != 1 or not isinstance(place[0], int) or reader.graph is not edit.graph:
            return
        pieces[place[0] % len(sizes)] = reader
    if len(pieces) == len(sizes):
        lengths = edit.constant(f"{sequence.name}.sizes", np.array(sizes, np.int64))
        axis = ir.AttrInt64("axis", attribute(node, "axis", 0))
        edit.join([pieces[i] for i in range(len(sizes))], "Split", [node.inputs[0], lengths], [axis], before=node)


def _sizes(node: ir.Node) -> list[int] | None:
    """Return the sizes of the pieces; None if they are not known."""
    shape, axis = shape_of(node.inputs[0]), attribute(node, "axis", 0)
    given = static_elements(node.inputs[1])
    if not shape or axis is None or not given or not -len(shape) <= axis < len(shape):
        return None
    total, sizes = shape[axis], [size for size in given if isinstance(size, int) and size > 0]
    if not isinstance(total, int) or len(sizes) != len(given):
        return None
    # A scalar is the size of all pieces except perhaps the last.
    if not (node.inputs[1].shape if node.inputs[1] is not None else None):
        whole, rest = divmod(total, sizes[0])
        if whole > MOST_PIECES:
            return None
        sizes = [sizes[0]] * whole + [rest] * bool(rest)
    return sizes if sum(sizes) == total else None
