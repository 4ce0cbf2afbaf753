"""Pick the elements of a list of sizes, where a graph moves them by way of a matrix.

    Reshape(Transpose(Slice(Reshape(sizes, (-1, 2)), [::-1])), (-1,))   ->   Gather(sizes, [4, 2, 0, 5, 3, 1])

PyTorch's older exporter writes the widths of `F.pad` so, if one of them is computed: PyTorch has a pair for each axis,
the last axis first; ONNX has what comes before all axes, and then what comes behind them.

It applies to a Reshape to a list, if the list that it comes from holds sizes and has a known length, and if all nodes
between them only move elements, by constants, at least one of them with more than one axis. Sound because the nodes are
applied to the positions of the elements: what comes out is the position of each element of the result. Not to lists
that hold data: what is written with `flip` and `T` reads better so.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep
from onnxlift.ir.editing.match import made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import elements_of, rank
from onnxlift.ir.inference.evaluate import evaluate
from onnxlift.stages import step

_MOVES = ("Reshape", "Slice", "Transpose", "Squeeze", "Unsqueeze", "Gather")
_MAX_MOVES = 8


@step("moved-sizes", repeats=True)
def run(model: ir.Model) -> int:
    """Write lists of sizes that went through a matrix as a Gather; return how many."""
    return sweep(model, {"Reshape": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    moves = [node]
    for _ in range(_MAX_MOVES):
        sizes = moves[-1].inputs[0]
        if rank(sizes) == 1:
            break
        before = made_by(edit, sizes, *_MOVES)
        if before is None:
            return
        moves.append(before)
    elements = elements_of(sizes)
    if len(moves) < 2 or rank(node.outputs[0]) != 1 or elements is None:
        return
    places = _after(edit, np.arange(len(elements)), moves[::-1])
    if places is not None:
        indices = edit.constant(f"{node.outputs[0].name}.places", places)
        edit.replace(node, "Gather", [sizes, indices], [ir.AttrInt64("axis", 0)])


def _after(edit: Edit, positions: Array, moves: list[ir.Node]) -> Array | None:
    """Return the positions after these nodes; None if one of them does not move elements by constants."""
    result: Array | None = positions
    for move in moves:
        others = [constant(value) for value in move.inputs[1:]]
        if result is None or None in others:
            return None
        arrays = [result, *(other.numpy() for other in others if other is not None)]
        result = evaluate(move, edit.opset(move), arrays, typed=False)
    return result
