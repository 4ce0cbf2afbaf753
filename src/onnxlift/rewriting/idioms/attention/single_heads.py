"""An attention with a single head is split into heads like those with several, so that all have one class.

    Unsqueeze(x, 1)                                    ->   Transpose(SplitHeads(x), (0, 2, 1, 3))
    Transpose(Reshape(x, (b, n, 1, d)), (0, 2, 1, 3))  ->   Transpose(SplitHeads(x), (0, 2, 1, 3))
    Squeeze(y, 1)                                      ->   MergeHeads(Transpose(y, (0, 2, 1, 3)))
    Reshape(Transpose(y, (0, 2, 1, 3)), (b, n, d))     ->   MergeHeads(Transpose(y, (0, 2, 1, 3)))

SplitHeads is `x.unflatten(-1, (1, d))` and MergeHeads is `y.flatten(2)`. With several heads, these are reshapes.

It applies to the queries, keys and values of an attention and to its result y, if all four have one of these forms and
nothing else reads them. Some attention of the model must be split into heads by a reshape: if none is, the model has no
notion of heads. Sound because moving an axis of size 1 moves no element.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, LiftedOperator, sweep
from onnxlift.ir.editing.match import DOMAIN, is_private, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.nodes import is_lifted, is_standard
from onnxlift.ir.graph.shapes import Shape, shape_of
from onnxlift.ir.graph.walk import regions
from onnxlift.stages import step

_SWAP = (0, 2, 1, 3)


@step("single-heads", after={"multihead-attention": "it looks for heads in other spellings"})
def run(model: ir.Model) -> int:
    """Split single heads like several; return for how many attentions."""
    attentions = [node for region in regions(model) for node in region.graph if is_lifted(node, "Attention")]
    if not any(_is_cut(node) for node in attentions):
        return 0
    return sweep(model, {LiftedOperator("Attention"): _visit})


def _is_cut(attention: ir.Node) -> bool:
    """Tell whether a reshape splits the queries into heads."""
    q = attention.inputs[0]
    swap = None if q is None else q.producer()
    if swap is None or tuple(permutation(swap) or ()) != _SWAP or swap.inputs[0] is None:
        return False
    cut = swap.inputs[0].producer()
    return cut is not None and cut.op_type == "Reshape"


def _visit(edit: Edit, node: ir.Node) -> None:
    (y,) = node.outputs
    splits = [_split(edit, value) for value in node.inputs[:3]]
    merge = _merge(edit, y)
    if merge is None or not all(splits):
        return
    for split in splits:
        if split is not None:
            _write_split(edit, split)
    _write_merge(edit, merge, y)


def _split(edit: Edit, value: ir.Value | None) -> ir.Node | None:
    """Return the node that gives (batch, length, features) an axis for one head, before or after the length."""
    if not is_private(edit, value):
        return None
    swap = made_by(edit, value, "Transpose")
    if swap is not None and tuple(permutation(swap) or ()) != _SWAP:
        return None
    cut = value if swap is None else swap.inputs[0]
    node = made_by(edit, cut, "Unsqueeze", "Reshape")
    if node is None or not is_private(edit, cut):
        return None
    axis = 1 if swap is None else 2
    return node if _adds_axis(shape_of(node.inputs[0]), shape_of(cut), axis) else None


def _merge(edit: Edit, y: ir.Value) -> ir.Node | None:
    """Return the node that removes the axis of the head from (batch, 1, length, features), perhaps after a swap."""
    axis = 1
    node = _reader(edit, y)
    if node is not None and tuple(permutation(node) or ()) == _SWAP:
        (y,) = node.outputs
        axis, node = 2, _reader(edit, y)
    if node is None or not is_standard(node, "Squeeze", "Reshape"):
        return None
    return node if _adds_axis(shape_of(node.outputs[0]), shape_of(y), axis) else None


def _reader(edit: Edit, value: ir.Value) -> ir.Node | None:
    if not is_private(edit, value):
        return None
    ((node, _),) = value.uses()
    return node if node.graph is edit.graph else None


def _adds_axis(narrow: Shape | None, wide: Shape | None, axis: int) -> bool:
    return narrow is not None and len(narrow) == 3 and wide == (*narrow[:axis], 1, *narrow[axis:])


def _write_split(edit: Edit, node: ir.Node) -> None:
    x, shape = node.inputs[0], shape_of(node.inputs[0])
    assert x is not None and shape is not None
    if _is_swapped(node.outputs[0]):
        edit.replace(node, "SplitHeads", [x], domain=DOMAIN)
        return
    name = f"{x.name}.heads"
    cut = edit.insert(node, "SplitHeads", [x], like=x, shape=(*shape[:2], 1, shape[2]), name=name, domain=DOMAIN)
    edit.replace(node, "Transpose", [cut], [ir.AttrInt64s("perm", _SWAP)])


def _is_swapped(value: ir.Value) -> bool:
    return any(tuple(permutation(user) or ()) == _SWAP for user, _ in value.uses())


def _write_merge(edit: Edit, node: ir.Node, y: ir.Value) -> None:
    swapped = node.inputs[0]
    if swapped is y:
        order, shape = [ir.AttrInt64s("perm", _SWAP)], shape_of(node.outputs[0])
        assert shape is not None
        heads = (*shape[:2], 1, shape[2])
        swapped = edit.insert(node, "Transpose", [y], order, like=y, shape=heads, name=f"{y.name}.swapped")
    edit.replace(node, "MergeHeads", [swapped], domain=DOMAIN)
