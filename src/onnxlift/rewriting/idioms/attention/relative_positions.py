"""A bias of an attention's scores that PyTorch's exporters have computed ahead of time is a table to train again.

    Add(scores, bias (heads, n, n))   ->   Add(scores, Transpose(Gather(table, index), (2, 0, 1)))

What the bias is added to may also be a mask that is added to the scores.

Queries and keys are the n = rows * columns places of a window, and the bias of two of them depends only on how far one
is from the other: `table` has a row of biases for each of the (2 * rows - 1) * (2 * columns - 1) offsets, and `index`
says which row is whose, counted as in the Swin Transformer and all that follow it. In front of the places there may be
a class token, which has no place: then the last three rows are for its queries, its keys, and both, as in BEiT. Table
and index are called as there, unless the exporter has noted what it computed the bias from.

It applies if that is so exactly, number by number, for a window of at least 2 x 2, and if the bias is not the same for
all places of one distance in reading order, as a causal mask or ALiBi is: that is no table of offsets. Not to a bias
with a name of its own, which was a parameter as it is; not if others read it; and not if the exporter notes that it was
computed from other parameters, or by more than a lookup and moves: then the numbers of a table are not the parameter's.
But the arithmetic that makes the index may be noted there (one sum of two coordinates, each a difference that starts at
0, the first one times a width), and a resampling, which leaves a table for this window as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from math import isqrt

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, initialiser, sweep, weight_initialiser
from onnxlift.ir.editing.match import is_private
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.marks import AXES, USUAL_NAME
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import rank
from onnxlift.ir.graph.types import DataType, is_float
from onnxlift.ir.origin.metadata import CLASSES, NAME_SCOPES, string_list
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.rewriting.idioms.attention.parts.mask import is_score
from onnxlift.stages import step

LARGEST = 1 << 24  # elements of a bias

_MOVES = re.compile(
    r"(val|alias|clone|contiguous|expand|index|permute|reshape|select|slice|squeeze|transpose|t|unsqueeze|view)(_\d+)*"
)
_INDEX_STEP = re.compile(
    r"(add|arange|cat|copy|fill|mul|select_scatter|shape|slice_scatter|stack|sub|sum|upsample_bilinear2d|value|zeros)"
    r"(_\d+)*|.*\blifted_tensor_\d+"
)
_INDEX_ARITHMETIC = Counter({"sub": 1, "add": 2, "mul": 1, "sum": 1})


@dataclass
class _Names:
    table: str = "relative_position_bias_table"
    index: str = "relative_position_index"
    scope: str = ""
    """Of the nodes that look the bias up, if it is known: `/encoder/bias`."""


@step(
    "relative-positions",
    after={
        "embedding": "the lookup in the table that it makes is no embedding",
        "window-biases": "the bias is apart from the mask by then",
    },
)
def run(model: ir.Model) -> int:
    """Make tables of relative positions of such biases; gives how many."""
    return sweep(model, {"Add": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    for position, (bias, scores) in enumerate((node.inputs, node.inputs[::-1])):
        tensor = constant(bias)
        if bias is None or tensor is None or not is_float(bias) or not _meets_scores(edit, node, scores):
            continue
        *ones, _, rows, columns = (1, 1, 1, *tensor.shape.numpy())
        names = _names(edit, bias)
        if names is None or rows != columns or {*ones} != {1} or not is_private(edit, bias):
            continue
        axes = rank(scores)
        if tensor.size > LARGEST or axes is None or axes < max(len(tensor.shape), 3):  # what is looked up has three
            continue
        found = _table(tensor.numpy().reshape(-1, rows, columns))
        if found is not None:
            node.replace_input_with(position, _lookup(edit, node, bias, names, *found))
            edit.changes += 1
            return


def _meets_scores(edit: Edit, node: ir.Node, other: ir.Value | None) -> bool:
    """Whether a bias is added to scores, or first to what is added to them: a mask, perhaps that of an image's windows,
    which is repeated for the others."""
    if is_score(edit, other):
        return True
    (total,) = node.outputs
    if not is_private(edit, total):
        return False
    ((reader, _),) = total.uses()
    if is_standard(reader, "Tile") and is_private(edit, reader.outputs[0]):
        ((reader, _),) = reader.outputs[0].uses()
    return is_standard(reader, "Add") and any(is_score(edit, value) for value in reader.inputs)


def _lookup(edit: Edit, node: ir.Node, bias: ir.Value, names: _Names, table: Array, index: Array) -> ir.Value:
    """The bias, looked up in the table in front of `node`."""
    reason = "the exporter has looked up the bias of each distance ahead of time"
    parameter = weight_initialiser(edit.graph, edit.names.fresh(names.table), table, reason, is_named=True)
    parameter.meta[AXES] = ("offsets", "heads")
    places = initialiser(edit.graph, edit.names.fresh(names.index), index, reason, is_named=True)
    rows = edit.insert(
        node,
        "Gather",
        [parameter, places],
        [ir.AttrInt64("axis", 0)],
        like=bias,
        shape=(*index.shape, table.shape[1]),
        name=f"{bias.name}.rows",
    )
    order, shape = [ir.AttrInt64s("perm", (2, 0, 1))], (table.shape[1], *index.shape)
    result = edit.insert(node, "Transpose", [rows], order, like=bias, shape=shape, name=f"{bias.name}.heads")
    result.meta[USUAL_NAME] = "bias"
    for value in (rows, result):
        _place(value.producer(), names)
    return result


def _place(node: ir.Node | None, names: _Names) -> None:
    """Let a node be in the module that owns the table, if that lies in the one where the bias is added."""
    assert node is not None
    if names.scope:
        node.name = f"{names.scope}/{node.op_type}"
    owner = names.table.rpartition(".")[0]
    scopes, classes = (string_list(node.metadata_props.get(key)) or [] for key in (NAME_SCOPES, CLASSES))
    if len(scopes) == len(classes) > 1 and owner.startswith(f"{scopes[-2]}."):
        name = "".join(word.capitalize() for word in owner.rpartition(".")[2].split("_"))
        node.metadata_props[NAME_SCOPES] = repr([*scopes[:-1], owner, scopes[-1]])
        node.metadata_props[CLASSES] = repr([*classes[:-1], name, classes[-1]])


def _names(edit: Edit, bias: ir.Value) -> _Names | None:
    """What the table and its index are called; None if the bias is not computed from such."""
    origin = origin_of(bias)
    note = origin.computed_from
    if note is None:
        if not origin.is_programs_own:
            return None
        name = str(bias.name)
        scope = place = name.rpartition("/")[0] if name.startswith("/") else ""
        if not scope:
            place = edit.names.fresh("relative_positions")  # of which modules forget all up to the slash
        return _Names(f"{place}/{_Names.table}", f"{place}/{_Names.index}", scope)
    sources = [source for source in note if not _MOVES.fullmatch(source)]
    if any(source.startswith("arange") for source in sources):
        steps = [source for source in sources if _INDEX_STEP.fullmatch(source)]
        arithmetic = Counter(word for step in steps if (word := step.partition("_")[0]) in _INDEX_ARITHMETIC)
        if arithmetic != _INDEX_ARITHMETIC:
            return None
        sources = [source for source in sources if source not in steps]
    tables = [source for source in sources if not source.endswith("index")]
    indices = [source for source in sources if source.endswith("index")]
    if len(tables) != 1 or len(indices) > 1:
        return None
    owner, dot, _ = tables[0].rpartition(".")
    return _Names(tables[0], [*indices, f"{owner}{dot}{_Names.index}"][0])


def _table(bias: Array) -> tuple[Array, Array] | None:
    """Table and index for a bias (heads, n, n); None if it is not one of offsets in a window."""
    if _is_of_distances(bias):
        return None
    return _of_window(bias) or _with_class_token(bias)


def _of_window(bias: Array) -> tuple[Array, Array] | None:
    """Table and index, if all n are places of a window."""
    length = bias.shape[-1]
    square = isqrt(length)
    for rows in sorted((r for r in range(2, square + 1) if length % r == 0), reverse=True):
        for height, width in {(rows, length // rows): None, (length // rows, rows): None}:
            index = _index(height, width)
            table = np.empty(((2 * height - 1) * (2 * width - 1), len(bias)), bias.dtype)
            table[index] = bias.transpose(1, 2, 0)
            if np.array_equal(table[index], bias.transpose(1, 2, 0)):
                return table, index
    return None


def _with_class_token(bias: Array) -> tuple[Array, Array] | None:
    """Table and index, if all but the first are."""
    inner, queries, keys = bias[:, 1:, 1:], bias[:, 0, 1:], bias[:, 1:, 0]
    if _is_of_distances(inner) or not (_is_one(queries) and _is_one(keys)):
        return None
    found = _of_window(inner)
    if found is None:
        return None
    table, places = found
    index = np.empty(bias.shape[1:], places.dtype)
    index[1:, 1:] = places
    index[0, :], index[:, 0], index[0, 0] = (len(table) + row for row in range(3))
    return np.concatenate([table, [queries[:, 0], keys[:, 0], bias[:, 0, 0]]], dtype=bias.dtype), index


def _is_one(row: Array) -> bool:
    """Whether each head has one number for all places."""
    return bool((row == row[:, :1]).all())


def _index(height: int, width: int) -> Array:
    """For each query and each key of a window, the row of the table for their offset."""
    y, x = np.divmod(np.arange(height * width), width)
    down = y[:, None] - y + height - 1
    right = x[:, None] - x + width - 1
    return np.asarray(down * (2 * width - 1) + right, DataType.INT64.numpy())


def _is_of_distances(bias: Array) -> bool:
    """Whether each of its diagonals has one number."""
    return np.array_equal(bias[:, 1:, 1:], bias[:, :-1, :-1])
