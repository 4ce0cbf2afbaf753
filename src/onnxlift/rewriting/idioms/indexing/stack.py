"""Tensors that get a new axis and are joined along it are stacked.

    Concat(Unsqueeze(a, k), Unsqueeze(b, k), axis=k)   ->   Stack(a, b, axis=k)      `torch.stack((a, b), k)`

Every part must be an Unsqueeze of one axis, the axis along which they are joined. Numbers without an axis stay as they
are, since lists of sizes are made that way. Runs late: rotary embeddings are joined like this too.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, made_by
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank
from onnxlift.stages import step


@step(
    "stack",
    after={
        "unrolled-rnn": "the results of its steps are joined along a new axis",
        "rotary": "its halves are joined along a new axis",
        "attention": "its keys may be repeated by joining them",
        "repeat-interleave": "elements may be repeated by joining them",
        "advanced-indexing": "index arrays are joined along a new axis",
        "stacked-parts": "parts that are assigned one by one are joined along a new axis by then",
        "assigned-parts": "coordinates are joined along a new axis",
    },
)
def run(model: ir.Model) -> int:
    """Recognise stacks; return how many."""
    return sweep(model, {"Concat": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    axes, axis = rank(node.outputs[0]), attribute(node, "axis", None)
    if axes is None or axes < 2 or axis is None or node.outputs[0].dtype == ir.DataType.STRING:
        return
    parts = [made_by(edit, value, "Unsqueeze") for value in node.inputs]
    sources = [part.inputs[0] for part in parts if part is not None and _adds_only(part, axis % axes, axes)]
    if len(sources) == len(parts):
        edit.replace(node, "Stack", sources, [ir.AttrInt64("axis", axis)], domain=DOMAIN)
        drop_unused(edit, [part for part in parts if part is not None])


def _adds_only(unsqueeze: ir.Node, axis: int, axes: int) -> bool:
    added = axes_of(unsqueeze)
    return added is not None and [each % axes for each in added] == [axis]
