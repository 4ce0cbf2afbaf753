"""Find the precision in which each value of a model is computed: the lowest of all values that it depends on.

A model in half precision may take and give float32: its numbers are as coarse as half precision all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.walk import inner_nodes

HALVES: dict[ir.DataType, np.dtype[Any]] = {
    ir.DataType.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    ir.DataType.FLOAT16: np.dtype(np.float16),
}
"""The types of half precision, the coarser one first."""


def find_precisions(graph: ir.Graph, others: Iterable[ir.DataType]) -> Mapping[str, np.dtype[Any]]:
    """Return the half-precision type that each value depends on, by name; values that depend on none are left out.

    All values depend on the types `others`: those that the model has in the file, and in which it is lifted."""
    every = coarsest(others)
    found: dict[ir.Value, ir.DataType] = {}

    def note(value: ir.Value, read: Iterable[ir.Value | None]) -> None:
        types = [found[each] for each in read if each in found]
        least = coarsest([*types, *filter(None, [every, value.dtype])])
        if least is not None:
            found[value] = least

    for value in (*graph.inputs, *graph.initializers.values()):
        note(value, ())
    for node in graph:
        read = list(node.inputs)
        for inner in inner_nodes(node):
            for value in inner.outputs:
                note(value, inner.inputs)
            read += [*inner.inputs, *inner.outputs]
        for value in node.outputs:
            note(value, read)
    return {value.name: HALVES[dtype] for value, dtype in found.items() if value.name}


def coarsest(types: Iterable[ir.DataType]) -> ir.DataType | None:
    """Return the coarsest of the types that are of half precision; None if none is."""
    given = set(types)
    return next((dtype for dtype in HALVES if dtype in given), None)
