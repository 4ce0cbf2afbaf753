"""What a rule of shape inference sees of a node: the known shapes, elements and attributes of its inputs.

Accessors raise `Unknown` where the answer is not known, so that a rule is written for the case in which it is; whoever
calls a rule catches it and takes the result as unknown.
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
        """Gives a new symbol: a size of which nothing is known but that it is one."""
        self.bounds = bounds
        self._attributes = attributes

    def has(self, index: int) -> bool:
        """Whether the optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def shape(self, index: int = 0) -> Shape:
        shape = shape_of(self.inputs[index]) if index < len(self.inputs) else None
        if shape is None:
            raise Unknown
        return shape

    def axis(self, name: str, rank: int, default: Any = _REQUIRED) -> int:
        """The attribute as an axis counted from the front."""
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
        """The elements, which may each be None where only their number is known."""
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
        """A list that is an attribute in old opsets and an input in newer ones; `default` if it is in neither."""
        if self.has(index):
            elements = static_elements(self.inputs[index])
            if elements is None:
                raise Unknown
            return elements
        value = self.attribute(name, default)
        return value if not isinstance(value, int) else (value,)

    def attribute(self, name: str, default: Any = _REQUIRED) -> Any:
        """The plain value of an attribute, through a function's reference to its caller's."""
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
        """What the caller of the function that holds this node passes for its attribute `name`."""
        return self._attributes.get(name)

    def at_least_zero(self, dim: Dim) -> Dim | None:
        """`max(dim, 0)`."""
        return dim if self.bounds.is_nonnegative(dim) else symbolic.maximum(dim, 0)

    def known(self, dim: Dim | None) -> Dim:
        """`dim`, or a new symbol where it is not expressible."""
        return self.fresh() if dim is None else dim
