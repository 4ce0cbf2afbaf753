"""A lookup of the nearest pixels, as PyTorch's newer exporter writes it, resizes an image.

    Transpose(GatherND(Transpose(x, 2 3 0 1), table), 2 3 0 1)   ->   NearestExact(x, sizes)

This is `F.interpolate(x, size=..., mode="nearest-exact")`. The same holds for three axes of space, and with Gather for
a signal, if it becomes longer: a signal that becomes shorter may as well be a slice.

Element i of k along an axis of L is element floor((i + 0.5) * L / k). PyTorch computes that in float32 or in double, so
both must give the table, and L must be known. x is floating-point, has batch and channels, and at least one element.
Not if another node reads a value in between. Sound because elements are only moved.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import is_float
from onnxlift.stages import step

_LARGEST = 1 << 24


@step(
    "nearest-resize",
    after={"linear-resize": "one of the two lookups of an interpolation may look like the nearest elements"},
)
def run(model: ir.Model) -> int:
    """Recognise images that are resized to the nearest pixels; return how many."""
    return sweep(model, {"Transpose": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    taken = made_by(edit, node.inputs[0], "Gather", "GatherND")
    front = made_by(edit, taken.inputs[0], "Transpose") if taken is not None else None
    if taken is None or front is None or not is_private(edit, node.inputs[0]) or not is_float(front.inputs[0]):
        return
    before, after, table = shape_of(front.inputs[0]), shape_of(node.outputs[0]), constant(taken.inputs[1])
    if before is None or after is None or table is None or table.size > _LARGEST or len(before) not in (3, 4, 5):
        return
    space = len(before) - 2
    first, last = permutation(front), permutation(node)
    if first is None or last is None or before[1] == 0 or table.size == 0:
        return
    if list(first) != [*range(2, space + 2), 0, 1] or list(last) != [space, space + 1, *range(space)]:
        return
    # A Gather indexes one axis, so its table lacks the last axis of a GatherND's. It must be along the signal's axis,
    # as no other would become longer. A GatherND with so many places has batch_dims=0: else its result had fewer axes.
    places = table.numpy()[..., None] if taken.op_type == "Gather" else table.numpy()
    old, new = (tuple(size for size in sizes[2:] if isinstance(size, int)) for sizes in (before, after))
    if len(old) != space or places.shape != (*new, space) or (space == 1 and new <= old):
        return
    if all(_is_nearest(places[..., axis], axis, old[axis]) for axis in range(space)):
        edit.replace(node, "NearestExact", [front.inputs[0]], [ir.AttrInt64s("sizes", new)], domain=DOMAIN)
        drop_unused(edit, [taken, front])


def _is_nearest(places: Array, axis: int, size: int) -> bool:
    """Tell whether the places along this axis are the nearest of `size` elements, the same at all places of the other
    axes.
    """
    count = places.shape[axis]
    middles = np.arange(count) + 0.5
    single = np.floor(middles.astype(np.float32) * (np.float32(size) / np.float32(count)))
    wanted = np.minimum(np.floor(middles * (size / count)), size - 1)
    shape = [count if other == axis else 1 for other in range(places.ndim)]
    is_sure = np.array_equal(np.minimum(single, size - 1), wanted)
    return is_sure and bool(np.all(places == wanted.reshape(shape)))
