"""Restore the names of parameters that PyTorch's exporter has stored under another name or in another shape.

The exporter's optimiser computes what depends on constants only. Beside the result it notes the names of all that it
was computed from. There is a rule for each way to fold a parameter that changes none of its numbers:

1. New axes: `layer_scale[:, None, None]`.

       Mul(x, unsqueeze_1)   ->   Mul(x, Unsqueeze(block.layer_scale, (1, 2)))

2. A view of a vector: `gamma.view(1, -1, 1, 1)`.

       Mul(x, view)          ->   Mul(x, Unsqueeze(block.gamma, (0, 2, 3)))

3. A slice that takes all of it.

       Add(x, alias)         ->   Add(x, pos_embedding)

4. Learned queries: `query_embed.weight.unsqueeze(1).repeat(1, batch, 1)`. The exporter first expands the tensor to as
   many axes as `repeat` has arguments. This changes nothing if it has as many already.

       Tile(val_39, sizes)   ->   Tile(Unsqueeze(query_embed.weight, (1)), sizes)

5. An embedding of the positions in a buffer: `position_embedding(self.position_ids)`.

       Add(x, embedding)     ->   Add(x, Gather(position_embedding.weight, [[0, 1, 2, ...]]))

6. An embedding of all positions: `embed_positions(torch.arange(n))`. The constant is marked as LOOKED_UP.

       Add(x, embedding)     ->   Add(x, encoder.embed_positions.weight)

7. A table that rows are looked up in: `weight[positions]`. It was folded only because the exporter moves the axis of a
   lookup to the front, where it is already.

       GatherND(val_142, i)  ->   GatherND(decoder.embed_positions.weight, i)

A rule applies if the note names one parameter, and no operation except those of the rule. For 1 and 4 these are
operations that add one axis each, as many as the constant has axes of size one; for 5 the buffer, of one row; for 6 the
`arange`. Other computations (`-A_log.exp()`) give other numbers than the parameter's, and must not get its name. The
note lists everything that the constant was computed from. So a single name in it is that of a tensor of the model, not
of an operation, unless the operation makes numbers from nothing (`ones`).

No rule applies if the parameter is still in the file, or if several constants came from it. Rules 1 to 4 do not apply
to masks and the like, which are no parameters. Rule 4 is only for readers that repeat, rule 7 only for readers that
look up rows: the matrix of a linear layer, or of a lookup of columns, is folded to its transpose. Numbers never change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep, weight_initialiser
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.marks import LOOKED_UP
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.origin.metadata import FX_NODE
from onnxlift.ir.origin.tensors import folded_from, mark_restored
from onnxlift.stages import step

LONGEST_NOTE = 1000
_REASON = "the exporter notes that it has the numbers of this parameter, and of nothing else"

# Names that the exporter gives to results of operations and to steps of its optimiser.
_STEP = re.compile(r"val_\d+")
_LOOKUP = re.compile(r"embedding(_\d+)?")
_ARANGE = re.compile(r"arange(_\d+)?")
_NEW_AXIS = re.compile(r"unsqueeze(_\d+)?")
_VIEW = re.compile(r"(view|reshape)(_\d+)?")
_ALIAS = re.compile(r"alias(_\d+)?")
_MADE = re.compile(
    r"(arange|empty|eye|full|linspace|ones|rand\w*|scalar_tensor|tril|triu|zeros)\w*|\w*lifted_tensor\w*"
)

# Names that authors give to buffers.
_BUFFER = re.compile(r"(.*[._])?(\w*mask|pe|\w*freqs?|\w*positions?|\w*index|\w*indices|\w*anchors?|mean|std)")
_POSITIONS = re.compile(r"(.*\.)?position(s|_ids)")

# Calls in the exporter's note on a node.
_REPEAT = re.compile(r"aten\.repeat\.default\]\(args = \(%(\w+), ")
_ROWS = re.compile(r"aten\.index\.Tensor\]\(args = \(%\w+, \[%\w+\]\)")


@step("folded-names")
def run(model: ir.Model) -> int:
    """Give the folded constants of the main graph their names; return how many."""
    folded = _find_folded(model.graph)
    parameters: dict[ir.Value, ir.Value] = {}  # constant -> the parameter, where that has another shape
    for table, (name, rule) in folded.items():
        if rule.change is not None:
            parameters[table] = _parameter(model.graph, table, name, rule.change)
        else:
            _rename(table, name, rule)

    def visit(edit: Edit, node: ir.Node) -> None:
        for index, value in enumerate(node.inputs):
            if value in parameters:
                change = folded[value][1].change
                assert change is not None
                node.replace_input_with(index, change.redo(edit, node, value, parameters[value]))

    if parameters:
        sweep(model, visit)
    return len(folded)


def _find_folded(graph: ir.Graph) -> dict[ir.Value, tuple[str, Rule]]:
    """Return each constant that alone has the numbers of a parameter, with the name of the parameter and the rule."""
    tables: dict[ir.Value, tuple[str, Rule]] = {}
    for value in graph.initializers.values():
        if constant(value) is None or value.dtype not in FLOATS or value.shape is None:
            continue
        rule = next((rule for rule in RULES if rule.applies(value)), None)
        name = rule.parameter(value, folded_from(value)) if rule is not None else None
        if rule is not None and name is not None:
            tables[value] = (name, rule)
    owners = Counter(name for name, _ in tables.values())
    return {v: (name, r) for v, (name, r) in tables.items() if owners[name] == 1 and name not in graph.initializers}


def _rename(table: ir.Value, name: str, rule: Rule) -> None:
    """Give a constant that is the unchanged parameter the name of the parameter."""
    if rule.is_lookup:
        table.meta[LOOKED_UP] = True
    table.name = name
    mark_restored(table, _REASON, is_named=True)


def _parameter(graph: ir.Graph, table: ir.Value, name: str, change: ShapeChange) -> ir.Value:
    """Add the parameter that a constant was made from by this change."""
    tensor = constant(table)
    assert tensor is not None
    return weight_initialiser(graph, name, np.ascontiguousarray(change.undo(tensor.numpy())), _REASON, is_named=True)


@dataclass(frozen=True)
class ShapeChange:
    """A change that the exporter made to the shape of a parameter. `undo` computes the parameter's numbers from those
    of the constant; `redo` inserts the node that makes the constant's value from the parameter."""

    undo: Callable[[np.ndarray], np.ndarray]
    redo: Callable[[Edit, ir.Node, ir.Value, ir.Value], ir.Value]


def _without_new_axes(array: np.ndarray) -> np.ndarray:
    return array.reshape([size for size in array.shape if size != 1])


def _insert_unsqueeze(edit: Edit, node: ir.Node, table: ir.Value, parameter: ir.Value) -> ir.Value:
    """Insert a node before `node` that gives the parameter an axis wherever the constant has one of size one."""
    shape = [int(size) for size in shape_of(table) or () if isinstance(size, int)]
    axes, attributes = edit.axes(node, [axis for axis, size in enumerate(shape) if size == 1])
    inputs = [parameter, *axes]
    return edit.insert(node, "Unsqueeze", inputs, attributes, like=table, shape=shape, name=f"{parameter.name}.axes")


def _first_row(array: np.ndarray) -> np.ndarray:
    row: np.ndarray = array[0]
    return row


def _insert_lookup(edit: Edit, node: ir.Node, table: ir.Value, parameter: ir.Value) -> ir.Value:
    """Insert a node before `node` that looks up all rows of the parameter, in order."""
    shape = shape_of(table) or ()
    positions = edit.constant("positions", np.arange(shape[1])[None])
    return edit.insert(node, "Gather", [parameter, positions], like=table, shape=shape, name=f"{parameter.name}.rows")


NEW_AXES = ShapeChange(_without_new_axes, _insert_unsqueeze)
ALL_ROWS = ShapeChange(_first_row, _insert_lookup)


@dataclass(frozen=True)
class Rule:
    """One way in which the exporter folds a parameter.

    `applies` tells whether a constant looks like it. `parameter` then gives the name of the one parameter whose numbers
    the constant has, from the names in the exporter's note, or None. `change` is what was done to the shape; if None,
    the constant is the parameter itself, and `is_lookup` tells whether an embedding gave it.
    """

    applies: Callable[[ir.Value], bool]
    parameter: Callable[[ir.Value, Sequence[str]], str | None]
    change: ShapeChange | None = None
    is_lookup: bool = False


def only_source(sources: Sequence[str]) -> str | None:
    """Return the name of the parameter that a constant was computed from; None if it was computed from anything else
    too."""
    named = [source for source in sources if not _STEP.fullmatch(source)]
    if len(named) != 1 or _MADE.fullmatch(named[0]) or _BUFFER.fullmatch(named[0]):
        return None
    return named[0]


def _only_weight(sources: Sequence[str]) -> str | None:
    """Return the weight of a layer in the note; None unless there is exactly one."""
    weights = [source for source in sources if source.endswith(".weight")]
    return weights[0] if len(weights) == 1 else None


def _other_names(sources: Sequence[str]) -> list[str]:
    """Return the names in the note that are neither weights of layers nor steps of the optimiser."""
    return [source for source in sources if not source.endswith(".weight") and not _STEP.fullmatch(source)]


def _has_new_axes(table: ir.Value) -> bool:
    return _NEW_AXIS.fullmatch(table.name or "") is not None


def _unsqueezed(table: ir.Value, sources: Sequence[str]) -> str | None:
    """Return the parameter that got as many new axes as the constant has axes of size one; None if anything else was
    done to it."""
    assert table.shape is not None
    added = [source for source in sources if _NEW_AXIS.fullmatch(source)]
    parameter = only_source([source for source in sources if source not in added])
    return parameter if table.shape.numpy().count(1) == len(added) + _has_new_axes(table) else None


def _is_view(table: ir.Value) -> bool:
    return _VIEW.fullmatch(table.name or "") is not None


def _viewed(table: ir.Value, sources: Sequence[str]) -> str | None:
    """Return the parameter that the constant is a view of, if it is a vector. In a view of a matrix the numbers could
    be in another order."""
    assert table.shape is not None
    return only_source(sources) if sum(size != 1 for size in table.shape.numpy()) == 1 else None


def _is_alias(table: ir.Value) -> bool:
    return _ALIAS.fullmatch(table.name or "") is not None


def _is_repeated(table: ir.Value) -> bool:
    """Tell whether all readers repeat the constant, and the exporter made it from a tensor with new axes."""
    if not _STEP.fullmatch(table.name or ""):
        return False
    sources = folded_from(table)
    notes = [user.metadata_props.get(FX_NODE, "")[:LONGEST_NOTE] for user, _ in table.uses()]
    repeated = [match[1] for note in notes if (match := _REPEAT.search(note)) is not None]
    is_new = all(_NEW_AXIS.fullmatch(name) and name in sources for name in repeated)
    return bool(notes) and len(repeated) == len(notes) and is_new


def _is_lookup_of_rank_3(table: ir.Value) -> bool:
    return _LOOKUP.fullmatch(table.name or "") is not None and len(table.shape or ()) == 3


def _looked_up_at_buffer(table: ir.Value, sources: Sequence[str]) -> str | None:
    """Return the weight that was looked up at the positions in a buffer of one row, if the note names nothing else."""
    positions = [source for source in sources if _POSITIONS.fullmatch(source)]
    is_all = len(sources) == 2 and len(positions) == 1
    return _only_weight(sources) if is_all and table.shape is not None and table.shape[0] == 1 else None


def _is_lookup_of_rank_2(table: ir.Value) -> bool:
    return _LOOKUP.fullmatch(table.name or "") is not None and len(table.shape or ()) == 2


def _looked_up_at_arange(table: ir.Value, sources: Sequence[str]) -> str | None:
    """Return the weight that was looked up at an `arange`, if the note names nothing else."""
    steps = _other_names(sources)
    return _only_weight(sources) if len(steps) == 1 and _ARANGE.fullmatch(steps[0]) else None


def _is_step_of_rank_2(table: ir.Value) -> bool:
    return _STEP.fullmatch(table.name or "") is not None and len(table.shape or ()) == 2


def _table_of_rows(table: ir.Value, sources: Sequence[str]) -> str | None:
    """Return the weight that all readers look up rows in, if the note names nothing else."""
    is_table = all(index == 0 and _looks_up_rows(user) for user, index in table.uses())
    return _only_weight(sources) if is_table and not _other_names(sources) else None


def _looks_up_rows(node: ir.Node) -> bool:
    return is_standard(node, "GatherND") and bool(_ROWS.search(node.metadata_props.get(FX_NODE, "")[:LONGEST_NOTE]))


# The name of the constant decides which rule applies. Only the name of an optimiser's step fits two rules: the one for
# readers that repeat is tried first, and the last rule is for all others.
RULES = (
    Rule(_has_new_axes, _unsqueezed, NEW_AXES),
    Rule(_is_view, _viewed, NEW_AXES),
    Rule(_is_alias, lambda _, sources: only_source(sources)),
    Rule(_is_repeated, _unsqueezed, NEW_AXES),
    Rule(_is_lookup_of_rank_3, _looked_up_at_buffer, ALL_ROWS),
    Rule(_is_lookup_of_rank_2, _looked_up_at_arange, is_lookup=True),
    Rule(_is_step_of_rank_2, _table_of_rows),
)
