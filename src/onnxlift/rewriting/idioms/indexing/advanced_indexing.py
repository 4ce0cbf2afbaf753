"""Index arrays that were expanded and joined only to index with them are used as they are.

    GatherND(data, Concat(Unsqueeze(Expand(a, s), -1), Unsqueeze(Expand(b, s), -1), axis=-1))   ->   Index(data, a, b)
    GatherND(data, c), c a nameless constant of shape (..., 2)              ->   Index(data, c[..., 0], c[..., 1])

This is `data[a, b]`: indexing broadcasts its index arrays by itself. It applies if the last axis of the indices has one
entry for each array, there are no batch dimensions, and the arrays broadcast to the shape that they were expanded to.
(Then an Expand can be dropped. The joint shape without it must be known to be the same.) Constants may be among the
arrays that are joined. Nothing else may read the joined indices: they would stay, and nothing would be gained. Which
axes are indexed, and where they are in the result, is decided in `indexed_axes.py`.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import Shape, shape_of
from onnxlift.ir.inference.node_view import Unknown
from onnxlift.ir.inference.shape_rules import broadcast_shapes
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.stages import step

_MOST_ARRAYS = 8


@step(
    "advanced-indexing",
    after={
        "adaptive-pool": "its windows are looked up with one table",
        "nearest-resize": "its pixels are looked up with one table",
    },
)
def run(model: ir.Model) -> int:
    """Recognise advanced indexing; return how often."""
    return sweep(model, {"GatherND": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if attribute(node, "batch_dims", 0) != 0:
        return
    data, indices = node.inputs[0], node.inputs[1]
    joint = None if indices is None else shape_of(indices)
    if data is None or indices is None or joint is None or not is_private(edit, indices):
        return
    arrays = _joined(edit, indices, joint[:-1])
    if arrays and _broadcast(arrays) == joint[:-1]:
        edit.replace(node, "Index", [data, *arrays], domain=DOMAIN)


def _joined(edit: Edit, indices: ir.Value, joint: Shape) -> list[ir.Value]:
    """Return the arrays that are joined along the last axis; an empty list if a part is no array."""
    joined = made_by(edit, indices, "Concat")
    if joined is None:
        return _columns(edit, indices)
    if attribute(joined, "axis", None) not in (-1, len(joint)):
        return []
    arrays: list[ir.Value] = []
    for part in joined.inputs:
        array = _array(part, joint)
        found = _columns(edit, part) if array is None else [array]
        if not found:
            return []
        arrays += found
    return arrays


def _array(part: ir.Value | None, joint: Shape) -> ir.Value | None:
    """Return `a` of `Unsqueeze(a, -1)` or of `Unsqueeze(Expand(a, shape), -1)`."""
    node = part.producer() if part is not None else None
    if part is None or node is None or not is_standard(node, "Unsqueeze") or node.inputs[0] is None:
        return None
    if shape_of(part) != (*joint, 1):
        return None
    expand = node.inputs[0].producer()
    return expand.inputs[0] if expand is not None and is_standard(expand, "Expand") else node.inputs[0]


def _columns(edit: Edit, part: ir.Value | None) -> list[ir.Value]:
    """Return the columns of a constant that has no name of its own."""
    tensor = constant(part)
    if part is None or tensor is None or not origin_of(part).is_programs_own:
        return []
    numbers = tensor.numpy()
    if numbers.ndim < 2 or numbers.shape[-1] > _MOST_ARRAYS:
        return []
    return [edit.constant(f"{part.name}.index", numbers[..., column]) for column in range(numbers.shape[-1])]


def _broadcast(arrays: list[ir.Value]) -> Shape | None:
    """Return the common shape, if names and numbers decide it.

    All shapes are known, because that of the joined indices is.
    """
    try:
        return broadcast_shapes([shape for array in arrays if (shape := shape_of(array)) is not None], _unknown)
    except Unknown:
        return None


def _unknown() -> str:
    raise Unknown
