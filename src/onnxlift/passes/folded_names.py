"""A table that PyTorch's exporter has folded the name away from gets it back.

    GatherND(val_142, i)   ->   GatherND(decoder.embed_positions.weight, i)
    Add(x, embedding)      ->   Add(x, encoder.embed_positions.weight), and the constant is marked as LOOKED_UP

The exporter's optimiser computes what depends on constants only, and notes all that it was computed from. The first
rule is for a table that rows are looked up in (`weight[positions]`), which was folded only because a lookup brings its
axis to the front, where it already is; the second for an embedding of positions (`embed_positions(torch.arange(n))`).

It applies if the note names one parameter and, for the second rule, the `arange` beside it and no other operation: what
was computed otherwise (`-A_log.exp()`) has other numbers than the parameter and must not be called so. Not if the
parameter is still in the file, or several constants came from it; and not for other readers than lookups of rows: the
matrix of a linear layer, or of a lookup of columns, is folded to its transpose. Only a name changes, never a number.
"""

from __future__ import annotations

import re
from collections import Counter

import onnx_ir as ir

from ..ir.metadata import FOLDED_FROM, FX_NODE, string_list
from ..ir.types import FLOATS
from .edit import is_standard

LOOKED_UP = "looked_up"  # the key in `value.meta` of what an embedding gave for all its rows

LONGEST_NOTE = 1000

_STEP = re.compile(r"val_\d+")
_LOOKUP = re.compile(r"embedding(_\d+)?")
_ARANGE = re.compile(r"arange(_\d+)?")
_ROWS = re.compile(r"aten\.index\.Tensor\]\(args = \(%\w+, \[%\w+\]\)")


def run(model: ir.Model) -> int:
    """Rename such constants of the main graph; gives how many."""
    tables = {value: name for value in model.graph.initializers.values() if (name := _parameter(value)) is not None}
    owners = Counter(tables.values())
    renamed = 0
    for table, name in tables.items():
        if owners[name] == 1 and name not in model.graph.initializers:
            if _LOOKUP.fullmatch(table.name or ""):
                table.meta[LOOKED_UP] = True
            table.name = name
            renamed += 1
    return renamed


def _parameter(table: ir.Value) -> str | None:
    """The name of the one parameter that `table` has the rows of."""
    if table.dtype not in FLOATS or table.shape is None or len(table.shape) != 2:
        return None
    sources = string_list(table.metadata_props.get(FOLDED_FROM)) or []
    name = table.name or ""
    steps = [source for source in sources if not source.endswith(".weight") and not _STEP.fullmatch(source)]
    parameters = [source for source in sources if source.endswith(".weight")]
    if len(parameters) != 1:
        return None
    if _LOOKUP.fullmatch(name):
        return parameters[0] if len(steps) == 1 and _ARANGE.fullmatch(steps[0]) else None
    is_table = all(index == 0 and _looks_up_rows(user) for user, index in table.uses())
    return parameters[0] if _STEP.fullmatch(name) and not steps and is_table else None


def _looks_up_rows(node: ir.Node) -> bool:
    return is_standard(node, "GatherND") and bool(_ROWS.search(node.metadata_props.get(FX_NODE, "")[:LONGEST_NOTE]))
