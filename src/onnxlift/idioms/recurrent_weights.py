"""The weights of recurrent layers: how ONNX packs them, and how PyTorch keeps them.

ONNX has W (directions, gates * hidden, input), R likewise for the state, and B (directions, 2 * gates * hidden): the
biases for W and then those for R. PyTorch has a tensor for each of these and each direction, with the gates in another
order.

An exporter that does not optimise its graph packs the parameters by nodes of the graph (Slice, Concat, Unsqueeze).
`parameters` finds them again: every element of a parameter gets a number of its own, the nodes are evaluated on the
numbers, and if what PyTorch would make of the result are the numbers of one parameter in order, then it is that one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..ir.evaluate import evaluate
from ..ir.scopes import constant
from ..passes.edit import Edit, is_parameter
from .match import made_by

Array = np.ndarray[Any, Any]

# PyTorch's gates by their place in ONNX: LSTM has i, o, f, c -> i, f, c, o; GRU has z, r, h -> r, z, h.
GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}

_MOVES = ("Slice", "Concat", "Unsqueeze", "Squeeze", "Reshape", "Transpose")
_MAX_NODES = 100
_MAX_ELEMENTS = 1 << 26


def matrix(kind: str, direction: int, packed: Array) -> Array:
    """One direction of W or R as PyTorch has it."""
    gates: Array = packed[direction].reshape(len(GATES[kind]), -1, packed.shape[-1])
    return gates[list(GATES[kind])].reshape(-1, packed.shape[-1])


def bias(kind: str, direction: int, half: int, packed: Array) -> Array:
    """One direction of B as PyTorch has it: the biases for W (`half` 0) or for R."""
    gates: Array = packed[direction].reshape(2, len(GATES[kind]), -1)[half]
    return gates[list(GATES[kind])].reshape(-1)


def parameters(
    edit: Edit, kind: str, directions: int, w: ir.Value | None, r: ir.Value | None, b: ir.Value | None
) -> list[ir.Value] | None:
    """For each direction the parameters weight_ih, weight_hh and, if there is B, bias_ih, bias_hh, that the graph packs
    into W, R and B; None if it does not, or if it makes something else of them."""
    packing = _Packing(edit)
    packed = [packing.numbers(value) for value in (w, r, b) if value is not None]
    if any(numbers is None or numbers.shape[:1] != (directions,) for numbers in packed):
        return None
    found: list[ir.Value | None] = []
    for direction in range(directions):
        found += [packing.owner(matrix(kind, direction, numbers)) for numbers in packed[:2] if numbers is not None]
        for numbers in packed[2:]:
            if numbers is not None:
                found += [packing.owner(bias(kind, direction, half, numbers)) for half in (0, 1)]
    owners = [value for value in found if value is not None]
    return owners if len(owners) == len(found) else None


class _Packing:
    """Which element of which parameter ends up where."""

    def __init__(self, edit: Edit) -> None:
        self.edit = edit
        self.nodes = 0
        self.elements = 0
        self.first: dict[int, ir.Value] = {}  # number of a parameter's first element -> the parameter
        self.known: dict[ir.Value, Array | None] = {}

    def numbers(self, value: ir.Value | None) -> Array | None:
        """The elements of `value`, each as the number of the parameter's element that it is."""
        if value is None:
            return None
        if value not in self.known:
            self.known[value] = self._leaf(value) if constant(value) is not None else self._moved(value)
        return self.known[value]

    def _leaf(self, value: ir.Value) -> Array | None:
        tensor = constant(value)
        if tensor is None or not is_parameter(value):
            return None if tensor is None else tensor.numpy()
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
        return evaluate(node, self.edit.scope.opset(node), inputs)

    def owner(self, numbers: Array) -> ir.Value | None:
        """The parameter that `numbers` are, all of it and in its order."""
        start = int(numbers.reshape(-1)[0]) if numbers.size else -1
        value = self.first.get(start)
        tensor = constant(value)
        if tensor is None or tuple(tensor.shape.numpy()) != numbers.shape:
            return None
        return value if (numbers.reshape(-1) == np.arange(start, start + numbers.size)).all() else None
