"""The parameters of a recurrent layer, where the graph packs them into W, R and B.

    Unsqueeze(Concat(Slice(weight_ih, ..), ..))   ->   weight_ih

An exporter that does not optimise its graph brings PyTorch's parameters into ONNX's form by nodes of the graph. To find
them again, every element of every parameter gets a number of its own, the nodes are evaluated on these numbers, and
what comes out is unpacked: if these are the numbers of one parameter in order, it is that parameter, whatever the nodes
were.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ..ir.evaluate import evaluate
from ..ir.packed_weights import Array, unpacked_bias, unpacked_matrix
from ..ir.scopes import constant
from ..passes.edit import Edit, is_parameter
from .match import made_by

_MOVES = ("Slice", "Concat", "Unsqueeze", "Squeeze", "Reshape", "Transpose")
_MAX_NODES = 100
_MAX_ELEMENTS = 1 << 26


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
        found += [
            packing.owner(unpacked_matrix(kind, direction, numbers)) for numbers in packed[:2] if numbers is not None
        ]
        for numbers in packed[2:]:
            if numbers is not None:
                found += [packing.owner(unpacked_bias(kind, direction, half, numbers)) for half in (0, 1)]
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
        return evaluate(node, self.edit.scope.opset(node), inputs, typed=False)

    def owner(self, numbers: Array) -> ir.Value | None:
        """The parameter that `numbers` are, all of it and in its order."""
        start = int(numbers.reshape(-1)[0]) if numbers.size else -1
        value = self.first.get(start)
        tensor = constant(value)
        if tensor is None or tuple(tensor.shape.numpy()) != numbers.shape:
            return None
        return value if (numbers.reshape(-1) == np.arange(start, start + numbers.size)).all() else None
