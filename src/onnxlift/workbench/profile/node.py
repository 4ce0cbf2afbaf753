"""The view of a node that cost functions get: the sizes of its inputs and outputs as formulas, and its attributes.

Where the number of axes is not known, `shape` raises `NotKnownError`, so that a cost function is written for the case
in which it is. A single size that is not known is `UNKNOWN`, which computes like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.schema import attributes_of
from onnxlift.ir.graph.shapes import shape_of, static_elements

from .formula import UNKNOWN, Size, divided, product, size_of

Shape = tuple[Size, ...]


class NotKnownError(Exception):
    """The cost depends on something that is not known before the model runs. The text says what."""


class CostNode:
    """A node with the sizes of what it reads and writes."""

    __slots__ = ("_attributes", "node", "opset")

    def __init__(self, node: ir.Node, opset: int) -> None:
        self.node = node
        self.opset = opset
        self._attributes: Mapping[str, Any] | None = None

    @property
    def op_type(self) -> str:
        return self.node.op_type

    @property
    def inputs(self) -> Sequence[ir.Value | None]:
        return self.node.inputs

    def has(self, index: int) -> bool:
        """Tell whether the optional input is given."""
        return self.input(index) is not None

    def input(self, index: int) -> ir.Value | None:
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def shape(self, index: int = 0) -> Shape:
        """Return the shape of an input."""
        return self._shape(self.input(index), "an input")

    def output_shape(self, index: int = 0) -> Shape:
        """Return the shape of an output."""
        return self._shape(self.node.outputs[index], "an output")

    def size(self, index: int = 0) -> Size:
        """Return the number of elements of an input; 0 if it is left out."""
        value = self.input(index)
        return 0 if value is None else elements_in(value)

    def output_size(self, index: int = 0) -> Size:
        """Return the number of elements of an output."""
        return elements_in(self.node.outputs[index])

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute, with the default of the operator's schema, or else `default`."""
        if self._attributes is None:
            self._attributes = attributes_of(self.node, self.opset)
        found = self._attributes.get(name)
        return default if found is None else found

    def ints(self, name: str, index: int) -> tuple[int, ...] | None:
        """Return a list that is an attribute in old opsets and an input in newer ones; None if it is neither."""
        if self.has(index):
            elements = static_elements(self.input(index))
            if elements is None:
                raise NotKnownError(f"its {name} are computed")
            return elements
        found: tuple[int, ...] | None = self.attribute(name)
        return found

    def axis(self, name: str, rank: int, default: int = 0) -> int:
        """Return an attribute as an axis of a tensor with so many axes, counted from the front."""
        axis = self.attribute(name, default)
        if not -rank <= axis < max(rank, 1):
            raise NotKnownError(f"its {name} is no axis of its input")
        return int(axis) % max(rank, 1)

    def bytes(self, index: int) -> Size:
        """Return the bytes of an input; 0 if it is left out."""
        value = self.input(index)
        return 0 if value is None else bytes_of(value)

    def output_bytes(self, index: int = 0) -> Size:
        """Return the bytes of an output."""
        return bytes_of(self.node.outputs[index])

    def output_bits(self, index: int = 0) -> int:
        """Return the bits of an element of an output; 0 if its type is not known."""
        dtype = self.node.outputs[index].dtype
        return 0 if dtype in (None, ir.DataType.UNDEFINED, ir.DataType.STRING) else dtype.bitwidth

    def _shape(self, value: ir.Value | None, what: str) -> Shape:
        shape = shape_of(value)
        if shape is None:
            raise NotKnownError(f"the number of axes of {what} is not known")
        return tuple(map(size_of, shape))


def elements_in(value: ir.Value) -> Size:
    """Return the number of elements of a tensor; UNKNOWN for what is no tensor, or of an unknown shape."""
    shape = shape_of(value)
    return UNKNOWN if shape is None else _elements(shape)


@lru_cache(maxsize=1 << 14)
def _elements(shape: tuple[int | str, ...]) -> Size:
    return product(map(size_of, shape))


def bytes_of(value: ir.Value) -> Size:
    """Return the bytes that a value takes, packed if its elements have less than 8 bits; UNKNOWN for strings."""
    tensor = constant(value)
    if tensor is not None:
        return tensor.nbytes if tensor.dtype != ir.DataType.STRING else UNKNOWN
    if isinstance(value.type, ir.SequenceType):
        return _bytes_of_sequence(value)
    if not isinstance(value.type, ir.TensorType):
        return UNKNOWN
    dtype = value.type.dtype
    if dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
        return UNKNOWN
    return divided(elements_in(value) * dtype.bitwidth, 8)


def _bytes_of_sequence(value: ir.Value) -> Size:
    """Return the bytes of a sequence that holds the pieces of a tensor, or tensors that are known."""
    node = value.producer()
    if node is None or node.domain or node.op_type not in ("SplitToSequence", "SequenceConstruct"):
        return UNKNOWN
    return total_bytes(node.inputs[:1] if node.op_type == "SplitToSequence" else node.inputs)


def total_bytes(values: Iterable[ir.Value | None]) -> Size:
    """Return the bytes of several values; what is named twice counts once."""
    total: Size = 0
    for value in dict.fromkeys(values):
        if value is not None:
            total = total + bytes_of(value)
    return total
