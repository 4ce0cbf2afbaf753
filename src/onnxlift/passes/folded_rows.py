"""Some rows of a parameter that an exporter cut out, and stored beside it, are rows of the parameter again.

    MatMul(x, c), c equal to the transposed rows 2 to 6 of w   ->   MatMul(x, Transpose(Slice(w, 2, 7)))
    Gemm(x, c), with transB                                    ->   MatMul(x, Transpose(Slice(w, 2, 7)))

An output head of a part of the vocabulary, `F.linear(x, self.embed.weight[:n])`, would become a second parameter. It
applies to a product with a nameless constant, for a parameter of the main graph with a name and more rows; all elements
are compared, and rows that are of one number only are none to know a parameter by.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir

from ..ir.metadata import FOLDED_FROM
from ..ir.scopes import constant
from .edit import Array, Edit, attribute, has_generated_name, is_parameter, is_standard, sweep

MOST_PLACES = 8  # that begin with the same number; in a matrix with more, rows tell little


@dataclass
class Table:
    """A parameter that has more rows than somebody may need."""

    value: ir.Value

    @cached_property
    def first_column(self) -> Array:
        return np.ascontiguousarray(self.rows[:, 0])

    @property
    def rows(self) -> Array:
        tensor = constant(self.value)
        assert tensor is not None
        return tensor.numpy()

    def find(self, rows: Array) -> int | None:
        """Where these rows begin, if the table has them and more."""
        if len(self.rows) <= len(rows) or self.rows.dtype != rows.dtype:
            return None
        places = np.flatnonzero(self.first_column[: 1 - len(rows) or None] == rows[0, 0])
        for place in places[:MOST_PLACES]:
            if np.array_equal(self.rows[place], rows[0]) and np.array_equal(self.rows[place:][: len(rows)], rows):
                return int(place)
        return None


def run(model: ir.Model) -> int:
    """Take such rows from their parameters; gives how often."""
    tables: dict[int, list[Table]] = {}
    for value in model.graph.initializers.values():
        if is_parameter(value) and not has_generated_name(value) and value.shape is not None and len(value.shape) == 2:
            rows, columns = value.shape.numpy()
            if FOLDED_FROM not in value.metadata_props and rows > 1 and columns:
                tables.setdefault(columns, []).append(Table(value))

    def visit(edit: Edit, node: ir.Node) -> None:
        if node.graph is not model.graph or not _is_product(node) or edit.scope.opset(node) < 10:
            return
        rows = _rows(node.inputs[1], turned=bool(attribute(node, "transB", 0)))
        if rows is None:
            return
        for table in tables.get(rows.shape[1], ()):
            start = table.find(rows)
            if start is not None and (rows != rows[0, 0]).any():
                _take(edit, node, table.value, start, rows.shape)
                return

    return sweep(model, visit) if tables else 0


def _is_product(node: ir.Node) -> bool:
    if is_standard(node, "MatMul"):
        return True
    is_plain = attribute(node, "transA", 0) == 0 and attribute(node, "alpha", 1.0) == 1.0
    return is_standard(node, "Gemm") and len(node.inputs) == 2 and is_plain


def _rows(copy: ir.Value | None, *, turned: bool) -> Array | None:
    """The constant of a product, as (out, in), if it has no name."""
    tensor = constant(copy)
    if copy is None or tensor is None or not is_parameter(copy) or len(tensor.shape) != 2 or 0 in tensor.shape:
        return None
    if not has_generated_name(copy) and FOLDED_FROM not in copy.metadata_props:
        return None
    return tensor.numpy() if turned else tensor.numpy().T


def _take(edit: Edit, node: ir.Node, table: ir.Value, start: int, shape: tuple[int, ...]) -> None:
    count, columns = shape
    bounds = [edit.constant("rows", np.array([number])) for number in (start, start + count, 0)]
    taken = edit.insert(node, "Slice", [table, *bounds], like=table, shape=shape, name=f"{table.name}.rows")
    order = [ir.AttrInt64s("perm", [1, 0])]
    turned = edit.insert(node, "Transpose", [taken], order, like=table, shape=(columns, count), name=f"{table.name}.T")
    edit.replace(node, "MatMul", [node.inputs[0], turned])
