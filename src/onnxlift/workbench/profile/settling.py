"""Find sizes that inference alone does not, by changing a copy of the model.

What is folded, or taken apart, in a copy tells more: the widths of a padding that went through a matrix, the pieces
of a sequence. Values that are still there under their names have the same shapes in both.
"""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.walk import all_nodes
from onnxlift.ir.inference.infer import infer, is_invented_size
from onnxlift.ir.origin.tensors import mark_made
from onnxlift.rewriting.simplifying import moved_sizes, split_sequences
from onnxlift.rewriting.stages import NORMAL_FORM, SIMPLIFYING
from onnxlift.stages import Record


def settle_sizes(model: ir.Model) -> None:
    """Infer the types of a model again with what changed copies tell, as long as there are sizes that are not known."""
    told: dict[str, ir.Value] = {}
    for change in (_move_sizes, _simplify):
        if all(map(_is_settled, _values(model).values())):
            return
        copy = model.clone()
        try:
            change(copy)
        except OnnxLiftError:
            continue  # then these sizes stay unknown
        infer(copy)
        told |= {
            name: value for name, value in _values(copy).items() if name not in told or not _is_settled(told[name])
        }
        infer(model, told=told)


def _move_sizes(model: ir.Model) -> None:
    """Replace only what hides sizes; all values keep their names."""
    moved_sizes.run(model)
    split_sequences.run(model)


def _simplify(model: ir.Model) -> None:
    """Simplify all that can be."""
    record = Record()
    record.run(NORMAL_FORM, model, for_runtime=True)
    for value in model.graph.initializers.values():
        mark_made(value, "only its shape is asked for")
    record.run(SIMPLIFYING, model, for_runtime=True)


def _values(model: ir.Model) -> dict[str, ir.Value]:
    """Return the values that nodes compute, and the constants, by name, if no two have it."""
    values = [value for node in all_nodes(model.graph) for value in node.outputs if value.name]
    values += model.graph.initializers.values()
    times = Counter(value.name for value in values)
    return {value.name: value for value in values if value.name and times[value.name] == 1}


def _is_settled(value: ir.Value) -> bool:
    if not isinstance(value.type, ir.TensorType):
        return True  # a sequence has no shape, and an unknown type is not found by these changes
    shape = shape_of(value)
    return shape is not None and not any(isinstance(size, str) and is_invented_size(size) for size in shape)
