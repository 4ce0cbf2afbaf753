"""Two rows of numbers, each repeated for all numbers of the other, are the coordinates of a grid.

    Expand(Unsqueeze(a, 1), sizes), Expand(Unsqueeze(b, 0), sizes)   ->   Meshgrid(a, b)

a and b have one axis. Both results have a row for each number of a and a column for each number of b, read the same
`sizes`, and are in one module. All readers of both results must stand after both nodes in the graph, so that there is a
place for the new node.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, made_by
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.marks import USUAL_NAME
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.ir.origin.module_paths import module_of
from onnxlift.stages import step


@step(
    "meshgrid",
    after={
        "advanced-indexing": "index arrays that are expanded to be joined are no grid",
        "repeat-interleave": "rows that are repeated and flattened are no grid",
    },
)
def run(model: ir.Model) -> int:
    """Recognise grids; return how many."""
    places: dict[ir.Node, int] = {}
    return sweep(model, {"Expand": lambda edit, node: _visit(edit, node, places)})


def _visit(edit: Edit, node: ir.Node, places: dict[ir.Node, int]) -> None:
    rows = _repeated(edit, node, axis=1)
    if rows is None:
        return
    for other, _ in node.inputs[1].uses() if node.inputs[1] is not None else ():
        columns = _repeated(edit, other, axis=0)
        if columns is None or not _is_grid(node, other, rows, columns):
            continue
        if node not in places:
            places.update((each, place) for place, each in enumerate(edit.graph))
        later = max(node, other, key=lambda each: places[each])
        readers = [user for each in (node, other) for user, _ in each.outputs[0].uses()]
        if all(places.get(user, -1) > places[later] for user in readers):
            raised = [each.inputs[0].producer() for each in (node, other) if each.inputs[0] is not None]
            grid = edit.join([node, other], "Meshgrid", [rows, columns], before=later, domain=DOMAIN)
            for value, name in zip(grid.outputs, ("rows", "columns"), strict=True):
                value.meta[USUAL_NAME] = name
            drop_unused(edit, [each for each in raised if each is not None])
            return


def _repeated(edit: Edit, node: ir.Node, axis: int) -> ir.Value | None:
    """Return the row that an Expand repeats along this one of two axes."""
    raised = made_by(edit, node.inputs[0], "Unsqueeze") if is_standard(node, "Expand") else None
    if raised is None or node.graph is not edit.graph or rank(raised.inputs[0]) != 1:
        return None
    return raised.inputs[0] if axes_of(raised) in ((axis,), (axis - 2,)) else None


def _is_grid(node: ir.Node, other: ir.Node, rows: ir.Value, columns: ir.Value) -> bool:
    sizes = tuple(size for row in (rows, columns) for size in shape_of(row) or ())
    is_whole = shape_of(node.outputs[0]) == shape_of(other.outputs[0]) == sizes
    return is_whole and rows.dtype == columns.dtype and module_of(node) == module_of(other)
