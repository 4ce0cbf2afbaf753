"""Masks that exporters turn into lists of places are used as they are.

    places = Transpose(NonZero(x))                ->   places = Places(x)        x.nonzero()
    GatherND(data, Places(mask))                  ->   Masked(data, mask)        data[mask]
    ScatterND(data, Places(mask), Expand(a, n))   ->   Where(mask, a, data)      data[mask] = a

The second and third rule are for masks of booleans with at least one axis. The mask must have the first sizes of the
data: PyTorch refuses to index with a smaller mask. In the third rule the mask has all sizes of the data, and `a` is one
number. Sound because a mask takes elements in the order of their places, and no place is there twice. A ScatterND with
a reduction stays; so do a GatherND with batch dimensions, and data of strings, which are no tensors.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.constants import number
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import DataType
from onnxlift.stages import step


@step("boolean-indexing")
def run(model: ir.Model) -> int:
    """Recognise indexing with masks; return how many."""
    return sweep(model, {"Transpose": _places}) + sweep(model, {("GatherND", "ScatterND"): _masked})


def _places(edit: Edit, node: ir.Node) -> None:
    order = permutation(node)
    if order is None or list(order) != [1, 0]:
        return
    found = made_by(edit, node.inputs[0], "NonZero")
    if found is not None and is_private(edit, node.inputs[0]):
        edit.replace(node, "Places", [found.inputs[0]], domain=DOMAIN)
        drop_unused(edit, [found])


def _masked(edit: Edit, node: ir.Node) -> None:
    data, places = node.inputs[0], made_by(edit, node.inputs[1], "Places", domain=DOMAIN)
    mask = places.inputs[0] if places is not None else None
    sizes, masked = shape_of(data), shape_of(mask)
    if data is None or places is None or mask is None or sizes is None or not masked or mask.dtype != DataType.BOOL:
        return
    if data.dtype == DataType.STRING or sizes[: len(masked)] != masked:
        return
    if node.op_type == "GatherND":
        if attribute(node, "batch_dims", 0) == 0:
            edit.replace(node, "Masked", [data, mask], domain=DOMAIN)
            drop_unused(edit, [places])
    elif attribute(node, "reduction", "none") == "none" and sizes == masked:
        spread = made_by(edit, node.inputs[2], "Expand")
        filler = spread.inputs[0] if spread is not None else None
        if spread is not None and number(filler) is not None:
            edit.replace(node, "Where", [mask, filler, data])
            drop_unused(edit, [places, spread])
