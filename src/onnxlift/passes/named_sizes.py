"""A size of something inside the model is read from the input that has it.

    Gather(Shape(h), 1)   ->   Gather(Shape(input_ids), 1)      if both sizes are `sequence`

PyTorch's tracing exporter reads a size from whichever tensor the code asked, so that positions and masks that are the
same in all layers seem to depend on what each layer computes. Read from the input, they are the same expression, and
are computed once, above the layers. Applies to single sizes that inference knows by the name of a size of an input.
Sound because equal names are equal sizes. The source reads sizes from what is at hand anyway (`emit/size_sources.py`).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ..ir.node_view import elements_of, shape_of
from .edit import Edit, is_standard, sweep


def run(model: ir.Model) -> int:
    """Read sizes from inputs; gives how many."""
    sources: dict[str, tuple[ir.Value, int]] = {}
    for value in model.graph.inputs:
        for axis, size in enumerate(shape_of(value) or ()):
            if isinstance(size, str) and value.const_value is None:
                sources.setdefault(size, (value, axis))

    def visit(edit: Edit, node: ir.Node) -> None:
        if edit.graph is not model.graph or not is_standard(node, "Gather") or not sources:
            return
        measured = node.inputs[0].producer() if node.inputs[0] is not None else None
        elements = elements_of(node.outputs[0])
        if measured is None or not is_standard(measured, "Shape") or elements is None or len(elements) != 1:
            return
        tensor, size = measured.inputs[0], elements[0]
        if not isinstance(size, str) or size not in sources or tensor is None or tensor.is_graph_input():
            return
        source, axis = sources[size]
        shape = () if node.outputs[0].shape is None else node.outputs[0].shape.numpy()
        index = edit.constant(f"{node.outputs[0].name}.axis", np.full(shape, axis, np.int64))
        edit.replace(node, "Gather", [edit.shape(node, source), index], [ir.AttrInt64("axis", 0)])

    return sweep(model, visit)
