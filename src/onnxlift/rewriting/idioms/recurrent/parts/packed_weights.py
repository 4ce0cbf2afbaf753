"""Find the parameters of a recurrent layer if nodes of the graph pack them into W, R and B.

    Unsqueeze(Concat(Slice(weight_ih, ..), ..))   ->   weight_ih

An exporter that does not optimise its graph brings PyTorch's parameters into ONNX's form by nodes of the graph. To find
them again, every element of every parameter gets a number of its own, the nodes are evaluated on these numbers, and the
result is unpacked. If it has the numbers of one parameter in order, it is that parameter, whatever the nodes were. If
W, R or B is a constant, it is unpacked as it is: an exporter that folds small tensors only leaves the matrices to the
graph, but not the biases.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.packed_weights import Array, unpacked_bias, unpacked_matrix
from onnxlift.ir.graph.types import INTEGERS
from onnxlift.ir.inference.evaluate import evaluate
from onnxlift.ir.origin.tensors import may_be_trained

_MOVES = ("Slice", "Concat", "Unsqueeze", "Squeeze", "Reshape", "Transpose")
_MAX_NODES = 100
_MAX_ELEMENTS = 1 << 26


def parameters(
    edit: Edit, kind: str, directions: int, w: ir.Value | None, r: ir.Value | None, b: ir.Value | None
) -> list[ir.Value] | None:
    """Return the parameters that the graph packs into W, R and B, for each direction in turn.

    They are weight_ih, weight_hh and, if there is a B, bias_ih and bias_hh. Return None if W, R and B are made in
    another way.
    """
    packing = _Packing(edit)
    found: list[ir.Value | Array | None] = []
    for direction in range(directions):
        unpack = partial(unpacked_matrix, kind, direction)
        found += [packing.part(value, unpack) for value in (w, r)]
        if b is not None:
            halves = (partial(unpacked_bias, kind, direction, half) for half in (0, 1))
            found += [packing.part(b, unpack) for unpack in halves]
    if any(part is None for part in found):
        return None
    return [
        edit.constant("weight", part) if isinstance(part, np.ndarray) else part for part in found if part is not None
    ]


class _Packing:
    """A record of which element of which parameter ends up where."""

    def __init__(self, edit: Edit) -> None:
        self.edit = edit
        self.nodes = 0
        self.elements = 0
        self.first: dict[int, ir.Value] = {}  # number of a parameter's first element -> the parameter
        self.known: dict[ir.Value, Array | None] = {}

    def part(self, packed: ir.Value | None, unpack: Callable[[Array], Array]) -> ir.Value | Array | None:
        """Return the parameter that `unpack` takes out of W, R or B; its elements, if `packed` is a constant."""
        tensor = constant(packed)
        array = self.numbers(packed) if tensor is None else tensor.numpy()
        if array is None:
            return None
        return self.owner(unpack(array)) if tensor is None else unpack(array)

    def numbers(self, value: ir.Value | None) -> Array | None:
        """Return the numbers of the parameters' elements that `value` is made of; integers as they are."""
        if value is None:
            return None
        if value not in self.known:
            self.known[value] = self._leaf(value) if constant(value) is not None else self._moved(value)
        return self.known[value]

    def _leaf(self, value: ir.Value) -> Array | None:
        tensor = constant(value)
        if tensor is None or not may_be_trained(value):
            return tensor.numpy() if tensor is not None and tensor.dtype in INTEGERS else None
        self.first[self.elements] = value
        start = self.elements
        self.elements += tensor.size
        if self.elements > _MAX_ELEMENTS:
            return None
        return np.arange(start, self.elements).reshape(tensor.shape.numpy())

    def _moved(self, value: ir.Value) -> Array | None:
        node = made_by(self.edit, value, *_MOVES)
        self.nodes += 1
        if node is None or self.nodes > _MAX_NODES:
            return None
        inputs = [self.numbers(each) for each in node.inputs]
        if any(array is None and each is not None for array, each in zip(inputs, node.inputs, strict=True)):
            return None
        return evaluate(node, self.edit.opset(node), inputs, typed=False)

    def owner(self, numbers: Array) -> ir.Value | None:
        """Return the parameter that has exactly these numbers, in their order."""
        start = int(numbers.reshape(-1)[0]) if numbers.size else -1
        value = self.first.get(start)
        tensor = constant(value)
        if tensor is None or tuple(tensor.shape.numpy()) != numbers.shape:
            return None
        return value if (numbers.reshape(-1) == np.arange(start, start + numbers.size)).all() else None
