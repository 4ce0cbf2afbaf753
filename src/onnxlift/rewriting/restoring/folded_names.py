"""A table that PyTorch's exporter has folded the name away from gets it back.

    GatherND(val_142, i)   ->   GatherND(decoder.embed_positions.weight, i)
    Add(x, embedding)      ->   Add(x, encoder.embed_positions.weight), and the constant is marked as LOOKED_UP
    Mul(x, unsqueeze_1)    ->   Mul(x, Unsqueeze(block.layer_scale, (1, 2)))
    Mul(x, view)           ->   Mul(x, Unsqueeze(block.gamma, (0, 2, 3)))
    Add(x, alias)          ->   Add(x, pos_embedding)
    Add(x, embedding)      ->   Add(x, Gather(position_embedding.weight, [[0, 1, 2, ...]]))
    Tile(val_39, sizes)    ->   Tile(Unsqueeze(query_embed.weight, (1)), sizes)

The exporter's optimiser computes what depends on constants only, and notes all that it was computed from. The first
rule is for a table that rows are looked up in (`weight[positions]`), which was folded only because a lookup brings its
axis to the front, where it already is; the second for an embedding of positions (`embed_positions(torch.arange(n))`);
the third for a parameter that has only got new axes (`layer_scale[:, None, None]`), the fourth for a vector that has
(`gamma.view(1, -1, 1, 1)`), the fifth for one that is used as it is, after a slice that takes all of it, the sixth for
an embedding of the positions that a buffer has (`position_embedding(self.position_ids)`), and the seventh for learned
queries (`query_embed.weight.unsqueeze(1).repeat(1, batch, 1)`): to repeat, the exporter first expands to as many axes
as there are numbers of times, which changes nothing if there are as many.

It applies if the note names one parameter and no operation but, for the second rule, the `arange` beside it, for the
sixth the buffer, of one row, and for the third and seventh those that add an axis each, as many as the constant has
axes of size one: what was computed otherwise (`-A_log.exp()`) has other numbers than the parameter and must not be
called so. All that a constant was computed from is in the note, so that a single name in it is that of what was in the
model, and no operation; unless that made numbers of none (`ones`). Not if the parameter is still in the file, or
several constants came from it; and, by the first rule, not for other readers than lookups of rows: the matrix of a
linear layer, or of a lookup of columns, is folded to its transpose; by the seventh, not for readers that do not repeat
it; nor, by the third to fifth, for a mask and the like, which is no parameter. Never a number changes.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.edit import Edit, is_standard, sweep, weight_initialiser
from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.graph.walk import constant
from onnxlift.ir.inference.node_view import shape_of
from onnxlift.ir.origin.metadata import FX_NODE
from onnxlift.ir.origin.tensors import folded_from, mark_restored
from onnxlift.stages import step

LOOKED_UP = "looked_up"  # the key in `value.meta` of what an embedding gave for all its rows

LONGEST_NOTE = 1000
_REASON = "the exporter notes that it has the numbers of this parameter, and of nothing else"

_STEP = re.compile(r"val_\d+")
_LOOKUP = re.compile(r"embedding(_\d+)?")
_ARANGE = re.compile(r"arange(_\d+)?")
_NEW_AXIS = re.compile(r"unsqueeze(_\d+)?")
_VIEW = re.compile(r"(view|reshape)(_\d+)?")
_ALIAS = re.compile(r"alias(_\d+)?")
_MADE = re.compile(
    r"(arange|empty|eye|full|linspace|ones|rand\w*|scalar_tensor|tril|triu|zeros)\w*|\w*lifted_tensor\w*"
)
_BUFFER = re.compile(r"(.*[._])?(\w*mask|pe|\w*freqs?|\w*positions?|\w*index|\w*indices|\w*anchors?|mean|std)")
_POSITIONS = re.compile(r"(.*\.)?position(s|_ids)")
_REPEAT = re.compile(r"aten\.repeat\.default\]\(args = \(%(\w+), ")
_ROWS = re.compile(r"aten\.index\.Tensor\]\(args = \(%\w+, \[%\w+\]\)")


@step("folded-names")
def run(model: ir.Model) -> int:
    """Give such constants of the main graph their names; gives how many."""
    constants = (value for value in model.graph.initializers.values() if constant(value) is not None)
    tables = {value: name for value in constants if (name := _parameter(value)) is not None}
    owners = Counter(tables.values())
    found = {v: name for v, name in tables.items() if owners[name] == 1 and name not in model.graph.initializers}
    narrow: dict[ir.Value, ir.Value] = {}
    for table, name in found.items():
        if _LOOKUP.fullmatch(table.name or "") and len(table.shape or ()) == 2:
            table.meta[LOOKED_UP] = True
        elif _is_repeated(table) or not any(kind.fullmatch(table.name or "") for kind in (_STEP, _ALIAS)):
            narrow[table] = _without_new_axes(model.graph, table, name)
            continue
        table.name = name
        mark_restored(table, _REASON, is_named=True)

    def visit(edit: Edit, node: ir.Node) -> None:
        for index, value in enumerate(node.inputs):
            if value in narrow:
                is_lookup = _LOOKUP.fullmatch(value.name or "")
                restored = (_looked_up if is_lookup else _with_new_axes)(edit, node, value, narrow[value])
                node.replace_input_with(index, restored)

    if narrow:
        sweep(model, visit)
    return len(found)


def _without_new_axes(graph: ir.Graph, table: ir.Value, name: str) -> ir.Value:
    tensor = constant(table)
    assert tensor is not None
    array = tensor.numpy()
    is_lookup = _LOOKUP.fullmatch(table.name or "")
    parameter = array[0] if is_lookup else array.reshape([size for size in array.shape if size != 1])
    return weight_initialiser(graph, name, np.ascontiguousarray(parameter), _REASON, is_named=True)


def _with_new_axes(edit: Edit, node: ir.Node, table: ir.Value, parameter: ir.Value) -> ir.Value:
    shape = [int(size) for size in shape_of(table) or () if isinstance(size, int)]
    axes, attributes = edit.axes(node, [axis for axis, size in enumerate(shape) if size == 1])
    inputs = [parameter, *axes]
    return edit.insert(node, "Unsqueeze", inputs, attributes, like=table, shape=shape, name=f"{parameter.name}.axes")


def _looked_up(edit: Edit, node: ir.Node, table: ir.Value, parameter: ir.Value) -> ir.Value:
    """All rows of the parameter, in their order."""
    shape = shape_of(table) or ()
    positions = edit.constant("positions", np.arange(shape[1])[None])
    return edit.insert(node, "Gather", [parameter, positions], like=table, shape=shape, name=f"{parameter.name}.rows")


def _parameter(table: ir.Value) -> str | None:
    """The name of the one parameter that `table` has the numbers of."""
    if table.dtype not in FLOATS or table.shape is None:
        return None
    sources = folded_from(table)
    name = table.name or ""
    if _NEW_AXIS.fullmatch(name):
        return _unsqueezed(table, sources)
    if _VIEW.fullmatch(name):
        return only_source(sources) if sum(size != 1 for size in table.shape.numpy()) == 1 else None
    if _ALIAS.fullmatch(name):
        return only_source(sources)
    if _is_repeated(table):
        return _unsqueezed(table, sources)
    if _LOOKUP.fullmatch(name) and len(table.shape) == 3:
        return _of_positions(table, sources)
    if len(table.shape) != 2:
        return None
    steps = [source for source in sources if not source.endswith(".weight") and not _STEP.fullmatch(source)]
    parameters = [source for source in sources if source.endswith(".weight")]
    if len(parameters) != 1:
        return None
    if _LOOKUP.fullmatch(name):
        return parameters[0] if len(steps) == 1 and _ARANGE.fullmatch(steps[0]) else None
    is_table = all(index == 0 and _looks_up_rows(user) for user, index in table.uses())
    return parameters[0] if _STEP.fullmatch(name) and not steps and is_table else None


def _unsqueezed(table: ir.Value, sources: list[str]) -> str | None:
    """The third and seventh rule: what got as many axes as there are of size one, and nothing else."""
    assert table.shape is not None
    added = [source for source in sources if _NEW_AXIS.fullmatch(source)]
    parameter = only_source([source for source in sources if source not in added])
    is_last_step = _NEW_AXIS.fullmatch(table.name or "") is not None
    return parameter if table.shape.numpy().count(1) == len(added) + is_last_step else None


def _is_repeated(table: ir.Value) -> bool:
    """The seventh rule: whether all readers repeat a constant that the exporter made from one with new axes."""
    if not _STEP.fullmatch(table.name or ""):
        return False
    sources = folded_from(table)
    notes = [user.metadata_props.get(FX_NODE, "")[:LONGEST_NOTE] for user, _ in table.uses()]
    repeated = [match[1] for note in notes if (match := _REPEAT.search(note)) is not None]
    is_new = all(_NEW_AXIS.fullmatch(name) and name in sources for name in repeated)
    return bool(notes) and len(repeated) == len(notes) and is_new


def _of_positions(table: ir.Value, sources: list[str]) -> str | None:
    """The sixth rule: what was looked up at the positions of a buffer, and nothing else."""
    weights = [source for source in sources if source.endswith(".weight")]
    positions = [source for source in sources if _POSITIONS.fullmatch(source)]
    is_all = len(sources) == 2 and len(weights) == len(positions) == 1
    return weights[0] if is_all and table.shape is not None and table.shape[0] == 1 else None


def only_source(sources: list[str]) -> str | None:
    """The parameter that a constant was computed from, if it is from nothing else."""
    named = [source for source in sources if not _STEP.fullmatch(source)]
    if len(named) != 1 or _MADE.fullmatch(named[0]) or _BUFFER.fullmatch(named[0]):
        return None
    return named[0]


def _looks_up_rows(node: ir.Node) -> bool:
    return is_standard(node, "GatherND") and bool(_ROWS.search(node.metadata_props.get(FX_NODE, "")[:LONGEST_NOTE]))
