"""Mark constants that can only be buffers, in a model whose exporter does not tell buffers from parameters.

1. mask in Equal(Slice(mask, ...), 0)      ->   mask is a buffer: no gradient passes a comparison
2. pe in Add(x, pe), of sines and cosines  ->   pe is a buffer: nobody trains a table that a formula makes

PyTorch's older exporter writes parameters and buffers alike. Taken for a parameter, a mask would be trained, or at
least be changed by an optimiser's weight decay.

Rule 1 applies to a named constant that is read only by comparisons, casts to integers or booleans, and the like:
directly, or after it was cut or its shape changed. Rule 2 applies to a table in which each column has the sines, or the
cosines, of 0, 1, 2, ... times a frequency of the column. The positions may be along either axis, and there may be axes
of size one anywhere. Each cosine must have the frequency of a sine beside it or half a row away. A table called
`weight` belongs to an `nn.Embedding`, which is trained even if it begins like this.

Neither applies to a constant without a name, which is a buffer anyway, nor if the newer exporter tells which is which.
No number changes.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import FLOATS, DataType
from onnxlift.ir.origin.exported import read_program
from onnxlift.ir.origin.tensors import mark_told, may_be_trained, origin_of
from onnxlift.stages import step

FEWEST_ROWS = 3
MOST_READERS = 64
_ROUNDING = 4e-7

_PASSING_NO_GRADIENT = frozenset(
    "ArgMax ArgMin Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual NonZero Shape Size".split()
)
_MOVING = frozenset(
    {"Expand", "Flatten", "Gather", "GatherND", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)


@step("untrained-buffers", after={"folded-parameters": "what is computed from a parameter shows that it is trained"})
def run(model: ir.Model) -> int:
    """Mark these buffers of the main graph; return how many."""
    if read_program(model.graph) is not None:
        return 0
    named = [value for value in model.graph.initializers.values() if _is_named(value)]
    found = {value: reason for value in named if (reason := _reason(value)) is not None}
    for value, reason in found.items():
        mark_told(value, is_buffer=True, reason=reason)
    return len(found)


def _is_named(value: ir.Value) -> bool:
    origin = origin_of(value)
    return not origin.is_told and not origin.has_lost_its_name and may_be_trained(value)


def _reason(value: ir.Value) -> str | None:
    """Return why a constant can only be a buffer; None if it may be trained."""
    if _is_untouched_by_gradients(value):
        return "no gradient passes the comparisons and the like that read it"
    return "it has the sines and cosines of positions, which a formula makes" if is_wave_table(value) else None


def _is_untouched_by_gradients(value: ir.Value) -> bool:
    """Tell whether rule 1 applies."""
    seen = {value: None}
    waiting = [value]
    while waiting:
        read = waiting.pop()
        if read.is_graph_output() or len(seen) > MOST_READERS:
            return False
        for reader, place in read.uses():
            if is_standard(reader, *_PASSING_NO_GRADIENT) or _makes_no_float(reader):
                continue
            if place != 0 or not is_standard(reader, *_MOVING):
                return False
            waiting += [output for output in reader.outputs if output not in seen]
            seen.update(dict.fromkeys(reader.outputs))
    return len(seen) > 1 or bool(value.uses())


def _makes_no_float(reader: ir.Node) -> bool:
    return is_standard(reader, "Cast") and attribute(reader, "to", None) not in (None, *map(int, FLOATS))


def is_wave_table(value: ir.Value) -> bool:
    """Tell whether rule 2 applies to a constant: each column has the sines or the cosines of positions."""
    sizes = [int(size) for size in shape_of(value) or () if isinstance(size, int) and size != 1]
    tensor = constant(value)
    is_weight = (value.name or "").rpartition(".")[2] == "weight"
    if tensor is None or tensor.dtype != DataType.FLOAT or is_weight or len(sizes) != 2:
        return False
    table = tensor.numpy().reshape(sizes)
    return _has_waves(table) or _has_waves(table.T)


def _has_waves(table: Array) -> bool:
    """Tell whether each column has the sines or the cosines of positions that grow from row to row."""
    if len(table) < FEWEST_ROWS:
        return False
    first, columns = table[0], table.shape[1]
    sines, cosines = np.flatnonzero(first == 0), np.flatnonzero(first == 1)
    if not len(sines) or not len(cosines) or len(sines) + len(cosines) != columns:
        return False
    frequencies = np.zeros(columns)
    with np.errstate(invalid="ignore"):
        frequencies[sines] = np.arcsin(table[1, sines].astype(np.float64))
    if len(np.unique(frequencies[sines])) < len(sines) or not (np.abs(frequencies) > 0)[sines].all():
        return False
    positions = np.arange(len(table), dtype=np.float64)[:, None]
    for offset in (1, -1, len(sines), -len(cosines), -len(sines), len(cosines)):
        partners = cosines - offset
        if ((partners >= 0) & (partners < columns)).all() and np.isin(partners, sines).all():
            frequencies[cosines] = frequencies[partners]
            angles = positions * frequencies
            expected = np.where(first == 0, np.sin(angles), np.cos(angles))
            if (np.abs(table - expected) <= _ROUNDING * (4 + np.abs(angles))).all():
                return True
    return False
