"""A distance between two vectors, or the cosine of the angle between them, is one function.

    ReduceSum(Normalize(x, axis, eps) * Normalize(y, axis, eps), axis)   ->   CosineSimilarity(x, y, axis, eps)
    ReduceL2(x - y + 1e-6), of the last axis                             ->   PairwiseDistance(x, y)
    ReduceL1(x - y + 1e-6), of the last axis                             ->   PairwiseDistance(x, y, p=1)

`F.cosine_similarity` and `F.pairwise_distance` compute just that. Both vectors must have the same shape, so that
neither is broadcast along the axis. The small number that keeps a distance from being 0 must be the default of
PyTorch's function. Not if another node reads a value in between.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, made_by, with_number
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import DataType, is_close
from onnxlift.stages import step

_SMALL = 1e-6


@step("distances", after={"normalize": "a cosine is the product of two normalised vectors"})
def run(model: ir.Model) -> int:
    """Recognise distances and similarities; return how many."""
    return sweep(model, {("ReduceSum", "ReduceL1", "ReduceL2"): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if not is_private(edit, node.inputs[0]):
        return
    shape, axes, keepdims = shape_of(node.inputs[0]), axes_of(node), attribute(node, "keepdims", 1)
    if shape is None or axes is None or len(axes) != 1 or keepdims is None:
        return
    axis = axes[0] % len(shape)
    if node.op_type == "ReduceSum" and not keepdims:
        _similarity(edit, node, axis, len(shape))
    elif node.op_type != "ReduceSum" and axis == len(shape) - 1:
        _distance(edit, node, keepdims)


def _similarity(edit: Edit, node: ir.Node, axis: int, rank: int) -> None:
    product = made_by(edit, node.inputs[0], "Mul")
    found = (
        [made_by(edit, value, "Normalize", domain=DOMAIN) for value in product.inputs] if product is not None else []
    )
    parts = [part for part in found if part is not None and is_private(edit, part.outputs[0])]
    shapes = {shape_of(part.inputs[0]) for part in parts}
    if product is None or len(parts) != 2 or len(shapes) != 1:
        return
    spans = {(attribute(part, "axis", 0) % rank, attribute(part, "epsilon", 0.0)) for part in parts}
    if len(spans) != 1 or any(attribute(part, "p", 2) != 2 for part in parts):
        return
    along, eps = spans.pop()
    if along == axis:
        options = [ir.AttrInt64("axis", axis), ir.AttrFloat32("epsilon", eps)]
        edit.replace(node, "CosineSimilarity", [part.inputs[0] for part in parts], options, domain=DOMAIN)
        drop_unused(edit, [product, *parts])


def _distance(edit: Edit, node: ir.Node, keepdims: int) -> None:
    total = made_by(edit, node.inputs[0], "Add")
    found = with_number(total) if total is not None else None
    difference = made_by(edit, found[0], "Sub") if found is not None else None
    if total is None or found is None or difference is None or not is_close(found[1], _SMALL, found[0].dtype):
        return
    x, y = difference.inputs
    is_exact = found[0].dtype in (DataType.FLOAT, DataType.DOUBLE)  # half precision rounds 1e-6 to another number
    if is_exact and is_private(edit, found[0]) and shape_of(x) == shape_of(y) is not None:
        options = [ir.AttrInt64("p", int(node.op_type[-1])), ir.AttrInt64("keepdims", keepdims)]
        edit.replace(node, "PairwiseDistance", [x, y], options, domain=DOMAIN)
        drop_unused(edit, [total, difference])
