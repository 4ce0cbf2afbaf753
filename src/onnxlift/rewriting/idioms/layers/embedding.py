"""Rows of a parameter, picked by integers, are an embedding.

    Gather(table, indices, axis=0)   ->   Embedding(table, indices)
    Add(x, table)                    ->   Add(x, EmbeddingTable(table))    if all rows were looked up before the export

`table` is a parameter of two axes. `indices` has at least one axis: a single index picks a row, and is no embedding.

ONNX counts negative indices from the end, but `nn.Embedding` refuses them. So it must be unlikely that there are any.
Either the table is called `....weight`, which is PyTorch's name for the parameter of an embedding: then negative
indices were refused before the export, too. Or the indices are an input of the model, or are computed in a way that
cannot give a negative number. If there is a negative index in spite of that, it is an error at run time, never another
result.

Everything else stays a Gather. So does a lookup in a parameter with another name
(`attention.relative_position_bias_table`): as a layer it would have another key in the state dict. And so do rows by a
list of numbers, `self.embed.weight[[1, 4, 7]]`, in another module than the table's.

The second rule is for any reader of a table that `restoring/folded_names.py` has marked: all its rows are read in
order.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.marks import LOOKED_UP
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import elements_of, rank
from onnxlift.ir.graph.types import DataType
from onnxlift.ir.inference.symbolic import is_nonnegative
from onnxlift.ir.origin.module_paths import told_module
from onnxlift.ir.origin.tensors import may_be_trained
from onnxlift.rewriting.idioms.parts.parameter_names import parameter_name
from onnxlift.stages import step

# Operators that give no negative number: in any case; if their first input has none; if none of their inputs has one.
_COUNTS = frozenset({"Shape", "Size", "ArgMax", "ArgMin", "NonZero", "Abs"})
_MOVES = frozenset(
    {"Cast", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape", "Slice", "Split"}
    | {"Squeeze", "Tile", "Transpose", "Unsqueeze", "CumSum", "ReduceMax", "ReduceMin", "ReduceSum"}
)
_COMBINES = frozenset({"Add", "Mul", "Min", "Concat", "Where"})
_MAX_STEPS = 64

Given = Collection[ir.Value]  # the inputs of the model


@step(
    "embedding",
    after={
        "wrapped-indices": "indices that count from the end by themselves are no embedding's",
        "gathered-slices": "a lookup of whole rows may be an embedding",
    },
)
def run(model: ir.Model) -> int:
    """Make embeddings of lookups in parameters; return how many."""
    given = {*model.graph.inputs}
    return sweep(model, lambda edit, node: _visit(edit, node, given))


def _visit(edit: Edit, node: ir.Node, given: Given) -> None:
    for index, value in enumerate(node.inputs):
        if value is not None and LOOKED_UP in value.meta:
            node.replace_input_with(index, _rows(edit, node, value))
            edit.changes += 1
    if is_standard(node, "Gather"):
        _lookup(edit, node, given)


def _rows(edit: Edit, node: ir.Node, table: ir.Value) -> ir.Value:
    assert table.shape is not None
    rows = table.shape.numpy()
    return edit.insert(
        node, "EmbeddingTable", [table], like=table, shape=rows, name=f"{table.name}.rows", domain=DOMAIN
    )


def _lookup(edit: Edit, node: ir.Node, given: Given) -> None:
    table, indices = node.inputs
    if table is None or indices is None or not may_be_trained(table) or attribute(node, "axis", 0) not in (0, -2):
        return
    if rank(table) != 2 or not rank(indices):
        near_miss(node, "the table does not have two axes, or there is only one index")
        return
    name = str(table.name)
    if _is_list(indices) and told_module(node) not in (None, name.rpartition(".")[0]):
        near_miss(node, "rows by a list of numbers, in another module than the table's")
        return
    is_other = name != "weight" and parameter_name(table, node) is not None
    if name.endswith(".weight") or not (is_other or _may_be_negative(indices, given)):
        edit.replace(node, "Embedding", [table, indices], domain=DOMAIN)
    elif is_other:
        near_miss(node, "as a layer, the table `{}` would have another key in the state dict", name)
    else:
        near_miss(node, "an index may be negative, which nn.Embedding refuses")


def _is_list(indices: ir.Value) -> bool:
    return constant(indices) is not None and rank(indices) == 1


def _may_be_negative(value: ir.Value, given: Given) -> bool:
    """Tell whether we cannot prove that all elements are at least 0.

    Inputs of the model count as indices, which are not negative. Inputs of a loop's body do not: a loop may count down.
    """
    stack: list[ir.Value | None] = [value]
    for _ in range(_MAX_STEPS):
        if not stack:
            return False
        current = stack.pop()
        if current is None or _is_surely_nonnegative(current, given):
            continue
        node = current.producer()
        if node is None or node.domain != "":
            return True
        if node.op_type in _MOVES and _is_integer(node.inputs[0]):  # a Cast from a float may give a negative one
            stack.append(node.inputs[0])
        elif node.op_type in _COMBINES:
            stack.extend(node.inputs[1:] if node.op_type == "Where" else node.inputs)
        elif node.op_type == "Range":
            start, _, step = node.inputs
            if not _is_surely_nonnegative(step, given):
                return True
            stack.append(start)
        elif node.op_type not in _COUNTS:
            return True
    return True


def _is_surely_nonnegative(value: ir.Value | None, given: Given) -> bool:
    if value is None:
        return False
    if value in given or value.dtype == DataType.BOOL:
        return True
    elements = elements_of(value)
    if elements is not None:
        return all(element is not None and is_nonnegative(element) for element in elements)
    tensor = constant(value)
    return tensor is not None and bool((tensor.numpy() >= 0).all())


def _is_integer(value: ir.Value | None) -> bool:
    return value is not None and value.dtype in (DataType.INT64, DataType.INT32, DataType.BOOL)
