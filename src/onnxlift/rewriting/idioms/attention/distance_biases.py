"""A bias of an attention's scores that depends on distances, and was looked up ahead of time, is a table again.

    Add(scores, bias (heads, n, m))   ->   Add(scores, Gather(table (heads, m), index (n, m), axis=1))

Keys are the m = rows * columns places of a window. Queries are the same places, or those of every second, third or
fourth row and column. The bias of a query and a key depends only on how many rows and columns they are apart, in
whichever direction: `table` has a column for each of these distances, as in LeViT and EfficientFormer. Both look the
biases up once, when they are put in evaluation mode, so that exporters see only the result. Table and index have the
names that they have there, unless PyTorch's newer exporter lists the parameter.

It applies if the bias is exactly of this form, number by number, for a window of at least 2 x 2, and not the same for
all distances. The first query is in the corner of the window, so that its biases are the table.

Not to a bias that is itself in the state dict, nor if others read it. The newer exporter may note that it was computed
from one parameter by a lookup and moves only. It may also say that it was neither parameter nor buffer: then its module
must have exactly one parameter that the file does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from math import isqrt

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, initialiser, sweep, weight_initialiser
from onnxlift.ir.editing.match import is_private
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.marks import AXES, USUAL_NAME
from onnxlift.ir.graph.shapes import rank
from onnxlift.ir.graph.types import DataType
from onnxlift.ir.origin.exported import parameters_in_order, state_names
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.rewriting.idioms.attention.parts.mask import is_score
from onnxlift.stages import step

LARGEST = 1 << 24  # elements of a bias
LARGEST_STRIDE = 4

_TABLE, _INDEX = "attention_biases", "attention_bias_idxs"
_REASON = "the model has looked up the bias of each distance ahead of time"
_MOVES = re.compile(r"(val|alias|clone|contiguous|index|permute|reshape|slice|squeeze|transpose|unsqueeze|view)(_\d+)*")


@step("distance-biases", after={"embedding": "the lookup in the table that it makes is no embedding"})
def run(model: ir.Model) -> int:
    """Turn biases into lookups in tables of distances; return how many."""
    return sweep(model, {"Add": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    for place, (bias, scores) in enumerate((node.inputs, node.inputs[::-1])):
        tensor, axes = constant(bias), rank(scores)
        if bias is None or tensor is None or axes is None or not is_score(edit, scores):
            continue
        if tensor.size > LARGEST:  # for speed
            continue
        *ones, _, queries, keys = (1, 1, 1, *tensor.shape.numpy())
        if {*ones} != {1} or axes < max(len(tensor.shape), 3) or not is_private(edit, bias):
            continue
        key = _key(edit, bias)
        found = _table(tensor.numpy().reshape(-1, queries, keys)) if key is not None else None
        if key is not None and found is not None:
            node.replace_input_with(place, _lookup(edit, node, bias, key, *found))
            edit.changes += 1
            return


def _key(edit: Edit, bias: ir.Value) -> str | None:
    """Return the key of the table; None if the bias was not looked up in one."""
    origin, name = origin_of(bias), str(bias.name)
    lost = [key for key in parameters_in_order(edit.graph) if key not in edit.graph.initializers]
    listed = state_names(edit.graph)
    if origin.computed_from is not None:
        tables = [source for source in origin.computed_from if source in lost]
        is_moved = all(source in listed or _MOVES.fullmatch(source) for source in origin.computed_from)
        return tables[0] if len(tables) == 1 and is_moved else None
    owner, dot, _ = name.rpartition(".")
    if dot:
        tables = [key for key in lost if key.rpartition(".")[0] == owner]
        return tables[0] if len(tables) == 1 and name not in listed else None
    if not origin.is_programs_own:
        return None
    scope = name.rpartition("/")[0] if name.startswith("/") else edit.names.fresh("distances")
    return f"{scope}/{_TABLE}"  # modules drop what comes before the slash


def _table(bias: Array) -> tuple[Array, Array] | None:
    """Return table and index for a bias (heads, queries, keys); None if it is not one of distances in a window."""
    table = bias[:, 0]
    if (bias == bias[:, :1, :1]).all():
        return None
    for height, width, stride in _windows(*bias.shape[1:]):
        index = _index(height, width, stride)
        if np.array_equal(table[:, index], bias):
            return np.ascontiguousarray(table), index
    return None


def _windows(queries: int, keys: int) -> Iterator[tuple[int, int, int]]:
    """Yield the height, the width and the stride of the windows with so many places, the squarest first."""
    for side, stride in product(range(isqrt(keys), 1, -1), range(1, LARGEST_STRIDE + 1)):
        for height, width in {(side, keys // side): None, (keys // side, side): None}:
            is_query = len(range(0, height, stride)) * len(range(0, width, stride)) == queries
            if is_query and height * width == keys:  # for speed
                yield height, width, stride


def _index(height: int, width: int, stride: int) -> Array:
    """Return the column of the table for each query and each key of a window, by their distance."""
    y, x = np.divmod(np.arange(height * width), width)
    is_query = (y % stride == 0) & (x % stride == 0)
    down, right = (np.abs(places[is_query][:, None] - places) for places in (y, x))
    return np.asarray(down * width + right, DataType.INT64.numpy())


def _lookup(edit: Edit, node: ir.Node, bias: ir.Value, key: str, table: Array, index: Array) -> ir.Value:
    """Return the bias, looked up in the table in front of `node`."""
    parameter = weight_initialiser(edit.graph, edit.names.fresh(key), table, _REASON, is_named=True)
    parameter.meta[AXES] = ("heads", "length")
    beside = key.removesuffix(re.split(r"[./]", key)[-1])
    places = initialiser(edit.graph, edit.names.fresh(f"{beside}{_INDEX}"), index, _REASON, is_named=True)
    along, shape = [ir.AttrInt64("axis", 1)], (len(table), *index.shape)
    result = edit.insert(node, "Gather", [parameter, places], along, like=bias, shape=shape, name=f"{bias.name}.rows")
    result.meta[USUAL_NAME] = "bias"
    return result
