"""A bias of an attention's scores that PyTorch's exporters have looked up ahead of time is a table to train again.

    Add(scores, bias (heads, n, n))   ->   Add(scores, Transpose(Gather(table, index), (2, 0, 1)))

The bias may also be added to a mask that is added to the scores. What the exporter has looked up may be a longer list
of rows, (n * n, heads), which nodes bring into the form of the bias: it looks up small tables only up to there.

Queries and keys are the n = rows * columns places of a window. The bias of two places depends only on the offset
between them: `table` has a row of biases for each of the (2 * rows - 1) * (2 * columns - 1) offsets, and `index` has
the row for each pair, counted as in the Swin Transformer and its successors. In front of the places there may be a
class token, which has no place: then the last three rows are for its queries, its keys, and both, as in BEiT. Table and
index have the names that they have there, unless the exporter has noted what it computed the bias from. If the note
tells that only one thing was reshaped, that was what came out of the lookup, and the index has one axis of n * n, as in
torchvision.

It applies if the bias is exactly of this form, number by number, for a window of at least 2 x 2. The bias may not be
the same for all places of one distance in reading order, like a causal mask or ALiBi: that is no table of offsets.

Not to a bias with a name of its own, which was itself a parameter; and not if others read it. Not if the exporter notes
that it was computed from other parameters, or by more than a lookup and moves: then the numbers of the table would not
be those of the parameter. Two kinds of arithmetic may be in the note. One makes the index: a sum of two coordinates,
each a difference that starts at 0, the first one times a width. The other is a resampling, which leaves a table for
this window as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, initialiser, sweep, weight_initialiser
from onnxlift.ir.editing.match import drop_unused, is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.marks import AXES, USUAL_NAME
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.ir.graph.types import DataType, is_float
from onnxlift.ir.inference.evaluate import evaluate
from onnxlift.ir.origin.metadata import CLASSES, NAME_SCOPES, string_list
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.rewriting.idioms.attention.parts.mask import is_score
from onnxlift.stages import step

LARGEST = 1 << 24  # elements of a bias

_MOVES = re.compile(
    r"(val|alias|clone|contiguous|expand|index|permute|reshape|select|slice|squeeze|transpose|t|unsqueeze|view)(_\d+)*"
)
_RESHAPED = re.compile(r"(flatten|reshape|view)(_\d+)*")
_MOVES_LEFT = ("Reshape", "Transpose", "Unsqueeze")
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
    """The name scope of the nodes that look the bias up, if it is known: `/encoder/bias`."""
    is_flat: bool = False
    """True if the index has a single axis."""


@step(
    "relative-positions",
    after={
        "embedding": "the lookup in the table that it makes is no embedding",
        "distance-biases": "what is the same in both directions is a table of distances",
        "window-biases": "the bias is apart from the mask by then",
    },
)
def run(model: ir.Model) -> int:
    """Turn biases into lookups in tables of relative positions; return how many."""
    return sweep(model, {"Add": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    for position, (bias, scores) in enumerate((node.inputs, node.inputs[::-1])):
        moves, stored = _before_moves(edit, bias)
        tensor, shape = constant(stored), shape_of(bias)
        if bias is None or stored is None or tensor is None or shape is None or len(shape) < 2 or not is_float(bias):
            continue
        *ones, _, rows, columns = (1, 1, 1, *shape)
        if rows != columns or {*ones} != {1} or tensor.size > LARGEST or not _meets_scores(edit, node, scores):
            continue
        axes = rank(scores)
        if not is_private(edit, stored) or axes is None or axes < max(len(shape), 3):  # the new bias has three axes
            continue
        names, numbers = _names(edit, stored, moves), _moved(edit, tensor.numpy(), moves)
        found = _table(numbers.reshape(-1, *numbers.shape[-2:])) if names is not None and numbers is not None else None
        if names is not None and found is not None:
            node.replace_input_with(position, _lookup(edit, node, bias, names, *found))
            drop_unused(edit, moves)
            edit.changes += 1
            return


def _before_moves(edit: Edit, value: ir.Value | None) -> tuple[list[ir.Node], ir.Value | None]:
    """Return the nodes that only move the elements of a constant until they are `value`, the last one first, and the
    constant. The nodes are none if `value` is a constant itself."""
    moves: list[ir.Node] = []
    while (move := made_by(edit, value, *_MOVES_LEFT)) is not None and is_private(edit, value):
        moves.append(move)
        value = move.inputs[0]
    return moves, value


def _moved(edit: Edit, array: Array, moves: list[ir.Node]) -> Array | None:
    """Return the numbers after the moves, the last of which comes first; None if they are not known."""
    result: Array | None = array
    for move in reversed(moves):
        others = [constant(value) for value in move.inputs[1:]]
        arrays = [result, *(None if other is None else other.numpy() for other in others)]
        result = evaluate(move, edit.opset(move), arrays)  # None, too, if the sizes are computed
    return result


def _meets_scores(edit: Edit, node: ir.Node, other: ir.Value | None) -> bool:
    """Tell whether a bias is added to scores, or to a mask that is then added to them.

    The mask may be that of an image's windows, which is repeated for the other images.
    """
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
    """Return the bias, looked up in the table in front of `node`."""
    reason = "the exporter has looked up the bias of each distance ahead of time"
    parameter = weight_initialiser(edit.graph, edit.names.fresh(names.table), table, reason, is_named=True)
    parameter.meta[AXES] = ("offsets", "heads")
    stored = index.reshape(-1) if names.is_flat else index
    places = initialiser(edit.graph, edit.names.fresh(names.index), stored, reason, is_named=True)
    along, order = [ir.AttrInt64("axis", 0)], [ir.AttrInt64s("perm", (2, 0, 1))]
    heads, name = table.shape[1], bias.name
    rows = edit.insert(
        node, "Gather", [parameter, places], along, like=bias, shape=(*stored.shape, heads), name=f"{name}.rows"
    )
    values, shape = [rows], (*index.shape, heads)
    if names.is_flat:
        inputs = [rows, edit.constant("shape", np.array(shape, np.int64))]
        values.append(edit.insert(node, "Reshape", inputs, like=bias, shape=shape, name=f"{name}.pairs"))
    shape = (heads, *index.shape)
    result = edit.insert(node, "Transpose", values[-1:], order, like=bias, shape=shape, name=f"{name}.heads")
    for value in (*values, result):
        value.meta[USUAL_NAME] = "bias"
        _place(value.producer(), names)
    return result


def _place(node: ir.Node | None, names: _Names) -> None:
    """Move a node into the module that owns the table, if that lies in the module where the bias is added."""
    assert node is not None
    if names.scope:
        node.name = f"{names.scope}/{node.op_type}"
    owner = names.table.rpartition(".")[0]
    scopes, classes = (string_list(node.metadata_props.get(key)) or [] for key in (NAME_SCOPES, CLASSES))
    if len(scopes) == len(classes) > 1 and owner.startswith(f"{scopes[-2]}."):
        name = "".join(word.capitalize() for word in owner.rpartition(".")[2].split("_"))
        node.metadata_props[NAME_SCOPES] = repr([*scopes[:-1], owner, scopes[-1]])
        node.metadata_props[CLASSES] = repr([*classes[:-1], name, classes[-1]])


def _names(edit: Edit, bias: ir.Value, moves: Sequence[ir.Node]) -> _Names | None:
    """Return the names of the table and its index; None if the bias was not computed from a table.

    `moves` are the nodes that come after what is noted."""
    origin = origin_of(bias)
    note = origin.computed_from
    if note is None:
        if not origin.is_programs_own:
            return None
        name = str(bias.name)
        scope = place = name.rpartition("/")[0] if name.startswith("/") else ""
        if not scope:
            place = edit.names.fresh("relative_positions")  # modules drop this part of the name, up to the slash
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
    reshaped = [*filter(_RESHAPED.fullmatch, note), *(move for move in moves if move.op_type == "Reshape")]
    is_flat = len(indices) == len(reshaped) == 1
    return _Names(tables[0], [*indices, f"{owner}{dot}{_Names.index}"][0], is_flat=is_flat)


def _table(bias: Array) -> tuple[Array, Array] | None:
    """Return table and index for a bias (heads, n, n); None if it is not one of offsets in a window."""
    if _is_of_distances(bias):
        return None
    return _of_window(bias) or _with_class_token(bias)


def _of_window(bias: Array) -> tuple[Array, Array] | None:
    """Return table and index, if all n are places of a window."""
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
    """Return table and index, if the first of the n is a class token, and all others are places of a window."""
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
    """Tell whether each head has one number for all places."""
    return bool((row == row[:, :1]).all())


def _index(height: int, width: int) -> Array:
    """Return the row of the table for each query and each key of a window, by their offset."""
    y, x = np.divmod(np.arange(height * width), width)
    down = y[:, None] - y + height - 1
    right = x[:, None] - x + width - 1
    return np.asarray(down * (2 * width - 1) + right, DataType.INT64.numpy())


def _is_of_distances(bias: Array) -> bool:
    """Tell whether each diagonal of the bias has one number."""
    return np.array_equal(bias[:, 1:, 1:], bias[:, :-1, :-1])
