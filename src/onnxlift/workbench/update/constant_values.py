"""Constants that nodes read: as they are, or after other nodes have moved their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.inference.evaluate import evaluate

from .traced import Array

MOVES = frozenset({"Reshape", "Transpose", "Unsqueeze", "Squeeze", "Slice", "Gather", "Concat", "Identity"})
DEEPEST = 8


@dataclass(frozen=True)
class ConstantValue:
    """A constant, or what a node makes of constants. It stays what it is when the graph changes."""

    tensor: ir.TensorProtocol | None = None
    node: ir.Node | None = None
    opset: int = 0
    inputs: Sequence[ConstantValue | None] = ()

    def array(self) -> Array | None:
        """Return its numbers, traced; None if they are not known."""
        if self.node is None:
            return None if self.tensor is None else self.tensor.numpy()
        arrays = [None if each is None else each.array() for each in self.inputs]
        if any(array is None and each is not None for array, each in zip(arrays, self.inputs, strict=True)):
            return None
        return evaluate(self.node, self.opset, arrays)


def constants_read(model: ir.Model) -> list[tuple[ir.Node, int, ir.Value, ConstantValue]]:
    """Return all inputs of nodes that are constants, or made of constants by moving their numbers."""
    known: dict[ir.Value, ConstantValue | None] = {}
    found: list[tuple[ir.Node, int, ir.Value, ConstantValue]] = []
    for region in regions(model):
        for node in region.graph:
            for place, value in enumerate(node.inputs):
                if value is None:
                    continue
                if value not in known:
                    known[value] = _value(value, region.opsets.get("", 1), known)
                held = known[value]
                if held is not None:
                    found.append((node, place, value, held))
    return found


def _value(
    value: ir.Value, opset: int, known: dict[ir.Value, ConstantValue | None], depth: int = 0
) -> ConstantValue | None:
    tensor = constant(value)
    if tensor is not None:
        return ConstantValue(tensor)
    node = value.producer()
    if node is None or node.domain != "" or node.op_type not in MOVES or depth > DEEPEST:
        return None
    inputs = [
        None if each is None else known.get(each) or _value(each, opset, known, depth + 1) for each in node.inputs
    ]
    if any(held is None and each is not None for held, each in zip(inputs, node.inputs, strict=True)):
        return None
    return ConstantValue(None, node, node.version or opset, inputs)
