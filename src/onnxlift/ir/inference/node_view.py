"""The view of a node that rules of inference get: its attributes, and the known shapes and elements of its inputs.

The methods raise `Unknown` if the answer is not known. So a rule is written for the case in which everything is known.
The caller of the rule catches `Unknown`, and takes the result as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.schema import plain
from onnxlift.ir.graph.shapes import MAX_ELEMENTS, Dim, Elements, Shape, elements_of, shape_of, static_elements

from . import symbolic
from .bounds import Bounds

_REQUIRED: Any = object()


class Unknown(Exception):  # noqa: N818 - it is an answer, not a failure
    """The rule needs something that is not known before the model runs."""


class NodeView:
    """A node with what is known about its inputs."""

    __slots__ = ("_attributes", "bounds", "fresh", "inputs", "node", "opset")

    def __init__(
        self,
        node: ir.Node,
        opset: int,
        attributes: Mapping[str, ir.Attr],
        fresh: Callable[[], str],
        bounds: Bounds,
    ) -> None:
        self.node = node
        self.inputs: Sequence[ir.Value | None] = node.inputs
        self.opset = opset
        self.fresh = fresh
        """A function that returns a new symbol, for a size of which nothing is known."""
        self.bounds = bounds
        self._attributes = attributes

    def has(self, index: int) -> bool:
        """Tell whether the optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def shape(self, index: int = 0) -> Shape:
        shape = shape_of(self.inputs[index]) if index < len(self.inputs) else None
        if shape is None:
            raise Unknown
        return shape

    def axis(self, name: str, rank: int, default: Any = _REQUIRED) -> int:
        """Return the attribute `name` as an axis of a tensor of this rank, counted from the front."""
        axis = self.attribute(name, default)
        if not isinstance(axis, int) or not -rank <= axis < rank:
            raise Unknown
        return axis % rank

    def dtype(self, index: int = 0) -> ir.DataType:
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None or not isinstance(value.type, ir.TensorType):
            raise Unknown
        return value.type.dtype

    def elements(self, index: int) -> Elements:
        """Return the elements of an input; an element is None if it is not known, though the number of elements is."""
        value = self.inputs[index] if index < len(self.inputs) else None
        elements = elements_of(value)
        if elements is not None:
            return elements
        shape = shape_of(value)
        if shape == ():
            return (None,)
        if shape is not None and len(shape) == 1 and isinstance(shape[0], int) and shape[0] <= MAX_ELEMENTS:
            return (None,) * shape[0]
        raise Unknown

    def ints(self, name: str, index: int, default: Any = _REQUIRED) -> tuple[int, ...]:
        """Return a list that is an attribute in old opsets and an input in newer ones; `default` if it is neither."""
        if self.has(index):
            elements = static_elements(self.inputs[index])
            if elements is None:
                raise Unknown
            return elements
        value = self.attribute(name, default)
        return value if not isinstance(value, int) else (value,)

    def attribute(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return the value of an attribute as a plain Python value.

        A reference to an attribute of the function around the node gives what the caller of the function passes."""
        attribute = self.node.attributes.get(name)
        if attribute is not None and attribute.is_ref():
            attribute = self.resolve(attribute.ref_attr_name or "")
            if attribute is None:
                raise Unknown
        if attribute is None:
            if default is _REQUIRED:
                raise Unknown
            return default
        return plain(attribute.value)

    def resolve(self, name: str) -> ir.Attr | None:
        """Return the attribute `name` that the caller passes to the function around this node; None if unknown."""
        return self._attributes.get(name)

    def at_least_zero(self, dim: Dim) -> Dim | None:
        """Return `max(dim, 0)`; None if it cannot be expressed."""
        return dim if self.bounds.is_nonnegative(dim) else symbolic.maximum(dim, 0)

    def known(self, dim: Dim | None) -> Dim:
        """Return `dim`, or a new symbol if `dim` is None."""
        return self.fresh() if dim is None else dim
