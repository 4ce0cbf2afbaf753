"""A transposed copy of a parameter that an exporter stored beside it is that parameter again.

    MatMul(x, c), c a nameless constant equal to the transpose of the parameter w   ->   MatMul(x, Transpose(w))
    Gemm(x, c, b)                                                                   ->   Gemm(x, w, b), transB turned

Exporters fold `Transpose(w)` away and keep w, if another node uses it: an output head that shares the embedding's
matrix would become a second parameter, free to drift away from the first in training. It applies to matrices only; all
elements are compared. Nameless is also what the newer exporter's optimiser has computed and called by the operation.
The Transpose is undone when the product becomes a linear layer.

What that optimiser has computed from a parameter that is not in the file is this parameter, if another constant, which
was computed from nothing else and so is the matrix of a linear layer, is its transpose: `F.linear(x, fc.weight.t())`.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ..ir.domain import STATE_KEY
from ..ir.exported import folded_from
from ..ir.metadata import FOLDED_FROM
from ..ir.scopes import constant
from .edit import Edit, attribute, has_generated_name, is_parameter, is_standard, sweep, varies
from .folded_names import only_source


def run(model: ir.Model) -> int:
    """Recognise transposed copies; gives how many."""
    restored = _restore_names(model.graph)
    named: dict[tuple[int, ...], list[ir.Value]] = {}
    for value in model.graph.initializers.values():
        if is_parameter(value) and not has_generated_name(value) and value.shape is not None and len(value.shape) == 2:
            named.setdefault(tuple(value.shape.numpy()), []).append(value)

    def visit(edit: Edit, node: ir.Node) -> None:
        if is_standard(node, "MatMul", "Gemm") and len(node.inputs) > 1 and node.graph is model.graph:
            original = _original(node.inputs[1], named)
            turned = attribute(node, "transB", 0)
            if original is not None and node.op_type == "Gemm" and turned is not None:
                node.replace_input_with(1, original)
                node.attributes["transB"] = ir.AttrInt64("transB", int(not turned))
                edit.changes += 1
            elif original is not None and node.op_type == "MatMul":
                rows, columns = original.shape.numpy()  # type: ignore[union-attr]  # it is among those with a shape
                order = [ir.AttrInt64s("perm", [1, 0])]
                name = f"{original.name}.T"
                shape = (columns, rows)
                back = edit.insert(node, "Transpose", [original], order, like=original, shape=shape, name=name)
                node.replace_input_with(1, back)
                edit.changes += 1

    return restored + (sweep(model, visit) if named else 0)


def _restore_names(graph: ir.Graph) -> int:
    """Give parameters that only other constants were computed from their names back."""
    computed = [value for value in graph.initializers.values() if FOLDED_FROM in value.metadata_props]
    matrices = [value for value in computed if constant(value) is not None and len(value.shape or ()) == 2]
    layers = {name: value for value in matrices if (name := only_source(folded_from(value))) is not None}
    count = 0
    for value in matrices:
        for name in folded_from(value):
            layer = layers.get(name, value)
            if layer is not value and name not in graph.initializers and _are_transposes(value, layer):
                value.name = name
                value.meta[STATE_KEY] = True
                del value.metadata_props[FOLDED_FROM]
                count += 1
                break
    return count


def _are_transposes(value: ir.Value, other: ir.Value) -> bool:
    """Whether one constant is the transpose of the other, and not by chance."""
    mine, theirs = constant(value), constant(other)
    are_equal = mine is not None and theirs is not None and np.array_equal(mine.numpy(), theirs.numpy().T)
    return are_equal and varies(value)


def _original(copy: ir.Value | None, named: dict[tuple[int, ...], list[ir.Value]]) -> ir.Value | None:
    tensor = constant(copy)
    if copy is None or tensor is None or copy.shape is None or len(copy.shape) != 2:
        return None
    if not has_generated_name(copy) and FOLDED_FROM not in copy.metadata_props:
        return None
    rows, columns = copy.shape.numpy()
    candidates = [v for v in named.get((columns, rows), ()) if v.const_value is not None and v.dtype == copy.dtype]
    if not candidates:
        return None
    array = tensor.numpy()
    for value in candidates:
        assert value.const_value is not None
        other = value.const_value.numpy()
        # The first row decides nearly always, before all of both is read.
        if np.array_equal(array[0], other[:, 0]) and np.array_equal(array, other.T):
            return value
    return None
