"""Merge the copies of a weight that exporters make for each call of a layer.

    Add(MatMul(x, c), bias), Add(MatMul(y, d), bias)   ->   Add(MatMul(x, c), bias), Add(MatMul(y, c), bias)
    Conv(x, c, a), Conv(y, d, b)                       ->   Conv(x, c, a), Conv(y, c, a)

A layer that is called several times holds its weight once; ALBERT has one layer for all its depth. At each call,
exporters fold the weight's transpose, or the batch norm behind the layer, into a nameless constant. Lifted as they are,
these constants would be separate parameters, which drift apart in training.

It applies to nameless matrices and kernels that are equal, element by element, and belong to one layer. They belong to
one layer if the same parameter is added to both products, or if both nodes have the name of one module (the older
exporter adds a number to the name for the second call). It does not apply if all elements are one number, as before
training: such weights are equal by chance. The biases of convolutions must be equal too, or be one. For functions that
read the weight of a layer, see `folded_parameters.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.constants import constant, varies
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.origin.metadata import NAME_SCOPES, string_list
from onnxlift.ir.origin.tensors import may_be_trained, origin_of
from onnxlift.stages import step

MOST_CANDIDATES = 8  # more different weights than this, and it is no single layer

LAYERS = ("MatMul", "Conv", "ConvTranspose")
_COUNTED = re.compile(r"_\d+$")


@step("copied-weights", repeats=True)
def run(model: ir.Model) -> int:
    """Let all calls of a layer share one weight; return how many copies were replaced."""
    seen: dict[object, list[tuple[ir.Value, ir.Value | None]]] = {}

    def visit(edit: Edit, node: ir.Node) -> None:
        weight = node.inputs[1]
        if weight is None or node.graph is not model.graph or not _is_nameless_matrix(weight):
            return
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        for owner in _owners(node):
            known = seen.setdefault(owner, [])
            if (weight, bias) in known:
                return
            original = next((pair for pair in known if _is_copy(weight, pair[0]) and _is_same(bias, pair[1])), None)
            if original is not None:
                for place, value in enumerate(original[: len(node.inputs) - 1], 1):
                    node.replace_input_with(place, value)
                edit.changes += 1
                return
            if len(known) < MOST_CANDIDATES:
                known.append((weight, bias))

    return sweep(model, {LAYERS: visit})


def _is_nameless_matrix(value: ir.Value) -> bool:
    return (
        constant(value) is not None
        and may_be_trained(value)
        and origin_of(value).has_made_up_name
        and len(value.shape or ()) >= 2
    )


def _owners(node: ir.Node) -> Iterator[object]:
    """Yield what identifies the layer that a node belongs to: the parameter that is added, and the module."""
    for user, _ in node.outputs[0].uses() if len(node.outputs[0].uses()) == 1 else ():
        if is_standard(user, "Add"):
            yield from (
                v for v in user.inputs if v is not None and may_be_trained(v) and not origin_of(v).has_made_up_name
            )
    scopes = string_list(node.metadata_props.get(NAME_SCOPES))
    if scopes is not None and len(scopes) > 1 and scopes[-2]:
        yield scopes[-2]
    elif scope := (node.name or "").rpartition("/")[0]:
        yield _COUNTED.sub("", scope)


def _is_same(bias: ir.Value | None, other: ir.Value | None) -> bool:
    if bias is None or other is None or not origin_of(bias).has_made_up_name or not origin_of(other).has_made_up_name:
        return bias is other
    mine, theirs = constant(bias), constant(other)
    return mine is not None and theirs is not None and np.array_equal(mine.numpy(), theirs.numpy())


def _is_copy(value: ir.Value, other: ir.Value) -> bool:
    mine, theirs = constant(value), constant(other)
    if mine is None or theirs is None or mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return False
    array, original = mine.numpy(), theirs.numpy()
    # Compare the first rows before all of both is read: they nearly always differ.
    return np.array_equal(array[:1], original[:1]) and np.array_equal(array, original) and varies(value)
