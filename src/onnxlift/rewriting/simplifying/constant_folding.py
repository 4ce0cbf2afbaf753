"""Replace a node whose inputs are all constants by its result.

    z = Op(constants...)              ->   initialiser z
    a, b = Split(a nameless constant) ->   initialisers a and b

The second rule is for biases that an exporter has joined. Neither applies if

- one of the inputs is a parameter. The idioms must see `Transpose(weight)`. If it were folded, the module would not
  have the weight under its own name, and checkpoints with that name would not load. The older exporter's
  `onnx::Reshape_12` is no parameter: the exporter has folded what was in front of a Reshape (a lookup in a table) and
  lost the name. The same goes for pieces of a table in front of a Resize or a Concat.
- it only gives a buffer new axes, and the exporter tells the name of the buffer. PyTorch's newer exporter does so in
  front of a lookup (`biases[:, self.index]`). The idioms take the axes off again, and the buffer keeps its name.
- the result is larger than the inputs by more than 1 MiB, so that the file would grow (`ConstantOfShape`, `Expand`,
  `Tile`). For a runtime, which would compute it at each start, what is computed may grow by 16 MiB (the windows of a
  resampler); what is only filled or repeated is still computed there.
- the operator draws random numbers, holds graphs, or is not in the table of `ir.evaluate`. This has only operators that
  numpy computes exactly as ONNX defines them. Quantised weights keep their DequantizeLinear for the same reason as
  parameters keep their name.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.inference.evaluate import EVALUATED, evaluate
from onnxlift.ir.origin.tensors import may_be_trained, origin_of
from onnxlift.stages import step

_MAX_GROWTH = 1024 * 1024
_MAX_GROWTH_FOR_RUNTIME = 16 * 1024 * 1024
_REPEATED = ("ConstantOfShape", "Expand", "Tile")
_FOLDED = ("onnx::Reshape_", "onnx::Resize_", "onnx::Concat_")
_NEW_AXES = ("Expand", "Unsqueeze")
_MAX_INPUT_BYTES = 16 * 1024 * 1024


@step(
    "constant-folding",
    after={"static-shapes": "integers that inference knows need not be computed, and equal ones can be merged"},
    repeats=True,
)
def run(model: ir.Model, *, for_runtime: bool = False) -> int:
    """Fold nodes with constant inputs; return how many."""

    def visit(edit: Edit, node: ir.Node) -> None:
        is_large = for_runtime and node.op_type not in _REPEATED
        _computed(edit, node, _MAX_GROWTH_FOR_RUNTIME if is_large else _MAX_GROWTH)

    return sweep(model, {tuple(sorted(EVALUATED)): visit, "Split": _split})


def _computed(edit: Edit, node: ir.Node, growth: int) -> None:
    if len(node.outputs) != 1:
        return
    tensors = [constant(value) for value in node.inputs]
    if any(tensor is None and value is not None for tensor, value in zip(tensors, node.inputs, strict=True)):
        return
    if any(may_be_trained(value) and not _is_folded(value) for value in node.inputs) or _shapes_buffer(node):
        return
    size = sum(tensor.nbytes for tensor in tensors if tensor is not None)
    limit = size + growth
    if size > _MAX_INPUT_BYTES or not _fits(node.outputs[0], limit) or not tensors:
        return
    if node.op_type == "Identity" and edit.is_output(node.outputs[0]):
        return  # here an Identity is needed, see `identities.py`
    arrays: list[Array | None] = [None if tensor is None else tensor.numpy() for tensor in tensors]
    result = evaluate(node, edit.opset(node), arrays)
    if result is not None and result.nbytes <= limit:
        edit.fold(node, [result])


def _split(edit: Edit, node: ir.Node) -> None:
    value, axis = node.inputs[0], attribute(node, "axis", 0)
    tensor, shapes = constant(value), [shape_of(output) for output in node.outputs]
    if value is None or tensor is None or axis is None or any(shape is None for shape in shapes):
        return
    made_up = origin_of(value).is_computed or not may_be_trained(value)
    sizes = [shape[axis] for shape in shapes if shape is not None]
    if made_up and tensor.nbytes <= _MAX_INPUT_BYTES and all(isinstance(size, int) for size in sizes):
        edit.fold(node, np.split(tensor.numpy(), np.cumsum(sizes)[:-1], axis))


def _shapes_buffer(node: ir.Node) -> bool:
    """Tell whether a node only changes the axes of a buffer that the exporter names."""
    value = node.inputs[0] if node.op_type in _NEW_AXES else None
    origin = origin_of(value) if value is not None and value.const_value is not None else None
    return origin is not None and origin.is_buffer and origin.is_told


def _is_folded(value: ir.Value | None) -> bool:
    return value is not None and (value.name or "").startswith(_FOLDED)


def _fits(output: ir.Value, limit: int) -> bool:
    """Tell whether the result is known to be small enough, before it takes memory."""
    shape = shape_of(output)
    if shape is None or output.dtype is None or output.dtype == ir.DataType.STRING:
        return False
    sizes = [dim for dim in shape if isinstance(dim, int)]
    return len(sizes) == len(shape) and math.prod(sizes) * output.dtype.itemsize <= limit
