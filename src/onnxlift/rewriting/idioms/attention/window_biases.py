"""Bias and mask of an attention in shifted windows, which exporters have added up ahead of time, are split again.

    Tile(total (w, h, n, m), (b, 1, 1, 1))   ->   Tile(Add(bias (h, n, m), mask (w, 1, n, m)), (b, 1, 1, 1))

All windows of an image have the same bias, which differs between heads. All heads have the same mask: one negative
number where two places of a window do not see each other, and 0 elsewhere. The first window hides nothing, so that its
total is the bias.

It applies if the sum of bias and mask is exactly the total, number by number, and if the total is added to scores. Not
to a total with a name of its own, which was itself a parameter; nor if others read it; nor if no window hides anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, initialiser, sweep
from onnxlift.ir.editing.match import is_private
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.types import is_float
from onnxlift.ir.origin.tensors import mark_computed, origin_of
from onnxlift.rewriting.idioms.attention.parts.mask import is_score
from onnxlift.stages import step

LARGEST = 1 << 24  # elements of a total

_ADDITION = re.compile(r"add(_\d+)*")


@step("window-biases")
def run(model: ir.Model) -> int:
    """Split totals into bias and mask; return how many."""
    return sweep(model, {"Tile": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if not _meets_scores(edit, node) or not is_private(edit, node.inputs[0]):
        return
    total = node.inputs[0]
    tensor = constant(total)
    if total is None or tensor is None or not is_float(total):
        return
    origin = origin_of(total)
    if not origin.is_computed and not origin.is_programs_own:
        return
    found = _parts(tensor.numpy()) if len(tensor.shape) == 4 and 0 < tensor.size <= LARGEST else None
    if found is not None:
        node.replace_input_with(0, _sum(edit, node, total, origin.computed_from or (), *found))
        edit.changes += 1


def _meets_scores(edit: Edit, tile: ir.Node) -> bool:
    if not is_private(edit, tile.outputs[0]):
        return False
    ((reader, _),) = tile.outputs[0].uses()
    return is_standard(reader, "Add") and any(is_score(edit, value) for value in reader.inputs)


def _parts(total: Array) -> tuple[Array, Array] | None:
    """Return bias and mask, if the total is the sum of a bias and a mask of this form."""
    bias = total[0]
    hidden = (total != bias).any(axis=1)
    if not hidden.any():
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        least = np.rint(np.median((total - bias).transpose(0, 2, 3, 1)[hidden]))  # rint undoes the rounding of the sums
        mask = np.where(hidden[:, None], least, 0).astype(total.dtype)
        return (bias, mask) if np.array_equal(bias + mask, total) else None


def _sum(edit: Edit, node: ir.Node, total: ir.Value, note: Sequence[str], bias: Array, mask: Array) -> ir.Value:
    """Return the total as the sum of two constants, in front of `node`; the bias takes over the exporter's note."""
    masks = [name for name in note if name.endswith("mask")]
    place = edit.names.fresh("windows")  # modules drop this part of the name, up to the slash
    name = masks[0] if len(masks) == 1 else f"{place}/attn_mask"
    constants = [
        edit.constant(f"{total.name}.bias", np.ascontiguousarray(bias)),
        initialiser(edit.graph, edit.names.fresh(name), mask),
    ]
    if note:
        rest = [name for name in note if name not in masks and not _ADDITION.fullmatch(name)]
        mark_computed(constants[0], rest)
    shape = np.broadcast_shapes(bias.shape, mask.shape)
    return edit.insert(node, "Add", constants, like=total, shape=shape, name=f"{total.name}.sum")
