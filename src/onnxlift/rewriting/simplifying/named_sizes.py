"""Read a size of a value inside the model from the model's input that has it.

1. Gather(Shape(h), 1)   ->   Gather(Shape(input_ids), 1)            if both sizes are `sequence`
2. Gather(Shape(h), 0)   ->   Mul(Gather(Shape(input_ids), 0), 4)    if one is `4*batch`, and the other `batch`

The rules are also for a Slice that takes one size, and for a Shape of one axis. If several inputs have the size, it is
read from the first, unless the node measures an input that is there for its sizes alone.

PyTorch's tracing exporter reads a size from whichever tensor the code asked. So positions and masks that are the same
in all layers seem to depend on what each layer computes. Read from the input, they are the same expression, and are
computed once, above the layers.

It applies to single sizes that inference knows by the name of an input's size, or as a multiple of it. Sound because
equal names are equal sizes. The source reads sizes from what is at hand anyway (`modules/statements/size_sources.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import elements_of, shape_of
from onnxlift.stages import step


@dataclass(frozen=True)
class SizeSource:
    """The size of one axis of an input, multiplied by a factor."""

    value: ir.Value
    axis: int
    factor: int = 1


@step("named-sizes", repeats=True)
def run(model: ir.Model) -> int:
    """Read sizes from inputs; return how many."""
    inputs: dict[str, SizeSource] = {}
    for value in model.graph.inputs:
        for axis, size in enumerate(shape_of(value) or ()):
            if isinstance(size, str) and value.const_value is None:
                inputs.setdefault(size, SizeSource(value, axis))

    def visit(edit: Edit, node: ir.Node) -> None:
        tensor = _measured(node) if edit.graph is model.graph else None
        elements = None if tensor is None else elements_of(node.outputs[0])
        if tensor is None or elements is None or len(elements) != 1 or not isinstance(size := elements[0], str):
            return
        source = inputs.get(size) or (None if tensor.is_graph_input() else _multiple(size, inputs))
        if source is not None and source.value is not tensor and not (tensor.is_graph_input() and _is_size(tensor)):
            _read(edit, node, source)

    return sweep(model, {("Shape", "Gather", "Slice"): visit}) if inputs else 0


def _measured(node: ir.Node) -> ir.Value | None:
    """Return the value whose sizes a node gives; None if it gives none."""
    shape = node if is_standard(node, "Shape") else None
    if is_standard(node, "Gather", "Slice") and node.inputs[0] is not None:
        shape = node.inputs[0].producer()
    return shape.inputs[0] if shape is not None and is_standard(shape, "Shape") else None


def _is_size(value: ir.Value) -> bool:
    """Tell whether a value is there for its sizes alone. They are read from itself, or it would have no use."""
    return all(user.op_type == "Shape" for user, _ in value.uses())


def _multiple(size: str, inputs: Mapping[str, SizeSource]) -> SizeSource | None:
    """Return where to read `batch`, with the factor 4, if `size` is `4*batch`."""
    factor, _, name = size.partition("*")
    if not factor.isdecimal() or not name.isidentifier() or name not in inputs:
        return None
    return replace(inputs[name], factor=int(factor))


def _read(edit: Edit, node: ir.Node, source: SizeSource) -> None:
    output = node.outputs[0]
    shape = () if output.shape is None else output.shape.numpy()
    index = edit.constant(f"{output.name}.axis", np.full(shape, source.axis, np.int64))
    inputs, options = [edit.shape(node, source.value), index], [ir.AttrInt64("axis", 0)]
    if source.factor == 1:
        edit.replace(node, "Gather", inputs, options)
        return
    size = edit.insert(node, "Gather", inputs, options, like=output, shape=shape, name=f"{output.name}.size")
    factor = edit.constant(f"{output.name}.factor", np.array(source.factor, np.int64))
    edit.replace(node, "Mul", [size, factor])
