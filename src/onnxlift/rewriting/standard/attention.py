"""Write an attention that is spelled out as Attention, which ONNX has since opset 23.

    MatMul(Softmax(MatMul(q, k.T) * scale + mask), v)   ->   Attention(q, k, v, mask, scale=...)

The idiom `attention` says what counts as one. Queries, keys and values have four axes, (batch, heads, length,
features), or three, (batch, length, features): then there is one head. A query that sees no key gives 0 since opset 25.
Where the nodes have a guard that makes 0 of such a row, and not NaN, a mask that may hide all keys is only taken then.

Not with a dropout, which the operator lacks. Not of three axes with a mask that has three, which the operator would
read as one for each head.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.rewriting.idioms.attention import attention
from onnxlift.stages import step

from .parts.spelling import Recognised, Standard, fuse


@step("standard-attention")
def run(model: ir.Model) -> int:
    """Write attentions as Attention; return how many."""
    return fuse(model, attention.run, {"Attention": (23, _attention)})


def _attention(found: Recognised) -> Standard | None:
    q, k, v, mask = (found.input(index) for index in range(4))
    axes = rank(q)
    if q is None or k is None or v is None or axes not in (3, 4) or rank(k) != axes or rank(v) != axes:
        return None
    if "Dropout" in found.replaced or ("IsNaN" in found.replaced and mask is not None and found.opset < 25):
        return None
    if mask is not None:
        rows = rank(mask)
        if rows is None or rows < 2 or (axes == 3 and rows == 3):
            return None
        mask = wide_mask(found.edit, found.node, q, mask)
    heads = 1 if axes == 3 else None
    attributes = {
        "is_causal": found.option("is_causal"),
        "scale": found.option("scale"),
        "q_num_heads": heads,
        "kv_num_heads": heads,
    }
    return Standard("Attention", [q, k, v] if mask is None else [q, k, v, mask], attributes)


def wide_mask(edit: Edit, node: ir.Node, q: ir.Value, mask: ir.Value) -> ir.Value:
    """Return the mask of an attention, with a row for each query. ONNX lets it broadcast, ONNX Runtime does not.

    New nodes stand before `node`."""
    shape, rows = shape_of(q), shape_of(mask)
    if shape is None or rows is None or len(rows) < 2 or rows[-2] != 1 or shape[-2] == 1:
        return mask
    axis = len(shape) - 2
    length = edit.insert(
        node,
        "Shape",
        [q],
        [ir.AttrInt64("start", axis), ir.AttrInt64("end", axis + 1)],
        like=ir.Value(type=ir.TensorType(ir.DataType.INT64)),
        shape=[1],
        name=f"{q.name}.length",
    )
    one = edit.constant(f"{mask.name}.one", np.array([1], np.int64))
    joined = [ir.AttrInt64("axis", 0)]
    target = edit.insert(node, "Concat", [length, one], joined, like=length, shape=[2], name=f"{mask.name}.target")
    sizes = [*rows[:-2], shape[-2], rows[-1]]
    return edit.insert(node, "Expand", [mask, target], like=mask, shape=sizes, name=f"{mask.name}.wide")
