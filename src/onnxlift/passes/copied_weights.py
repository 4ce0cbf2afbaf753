"""The copies of a matrix that exporters make for each call of a layer are one matrix again.

    Add(MatMul(x, c), bias), Add(MatMul(y, d), bias)   ->   Add(MatMul(x, c), bias), Add(MatMul(y, c), bias)

A layer that is called several times (ALBERT has one for all its depth) holds its weight once. The exporters fold the
transpose of it into a nameless constant at each call: lifted as they are, these would be parameters of their own, free
to drift apart in training.

It applies to nameless matrices that are equal, element by element, and that belong to one layer: the same parameter is
added to both products, or both nodes have the name of one module (for the second call, the older exporter adds a number
to it). Not to matrices of a single number, as weights are before training: these are equal by chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from ..ir.metadata import NAME_SCOPES, string_list
from ..ir.scopes import constant
from .edit import Edit, has_generated_name, is_parameter, is_standard, sweep

MOST_CANDIDATES = 8  # that belong to one layer and differ: then it is no layer

_COUNTED = re.compile(r"_\d+$")


def run(model: ir.Model) -> int:
    """Let all calls of a layer have one matrix; gives how many copies were replaced."""
    seen: dict[object, list[ir.Value]] = {}

    def visit(edit: Edit, node: ir.Node) -> None:
        matrix = node.inputs[1] if is_standard(node, "MatMul") and len(node.inputs) == 2 else None
        if matrix is None or node.graph is not model.graph or not _is_nameless(matrix):
            return
        for owner in _owners(node):
            known = seen.setdefault(owner, [])
            if matrix in known:
                return
            original = next((value for value in known if _is_copy(matrix, value)), None)
            if original is not None:
                node.replace_input_with(1, original)
                edit.changes += 1
                return
            if len(known) < MOST_CANDIDATES:
                known.append(matrix)

    return sweep(model, visit)


def _is_nameless(value: ir.Value) -> bool:
    return (
        constant(value) is not None
        and is_parameter(value)
        and has_generated_name(value)
        and len(value.shape or ()) == 2
    )


def _owners(node: ir.Node) -> Iterator[object]:
    """What tells the layer that the product belongs to."""
    for user, _ in node.outputs[0].uses() if len(node.outputs[0].uses()) == 1 else ():
        if is_standard(user, "Add"):
            yield from (v for v in user.inputs if v is not None and is_parameter(v) and not has_generated_name(v))
    scopes = string_list(node.metadata_props.get(NAME_SCOPES))
    if scopes is not None and len(scopes) > 1 and scopes[-2]:
        yield scopes[-2]
    elif scope := (node.name or "").rpartition("/")[0]:
        yield _COUNTED.sub("", scope)


def _is_copy(value: ir.Value, other: ir.Value) -> bool:
    mine, theirs = constant(value), constant(other)
    if mine is None or theirs is None or mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return False
    array, original = mine.numpy(), theirs.numpy()
    # The first row decides nearly always, before all of both is read.
    if not np.array_equal(array[:1], original[:1]) or not np.array_equal(array, original):
        return False
    return bool((array != array[:1, :1]).any())
