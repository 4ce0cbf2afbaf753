"""What a rule of shape inference sees of a node: the known shapes, elements and attributes of its inputs.

Accessors raise `Unknown` where the answer is not known, so that a rule is written for the case in which it is; whoever
calls a rule catches it and takes the result as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.schema import plain
from onnxlift.ir.graph.types import INTEGERS
from onnxlift.ir.graph.walk import constant

from . import symbolic
from .bounds import Bounds
from .symbolic import Dim

Shape = tuple[Dim, ...]
Element = int | str | None
Elements = tuple[Element, ...]

MAX_ELEMENTS = 128
"""Longer integer tensors are data, not shapes."""

_COUNTABLE = INTEGERS | {ir.DataType.BOOL}
_REQUIRED: Any = object()


class Unknown(Exception):  # noqa: N818 - it is an answer, not a failure
    """The rule needs something that is not known before the model runs."""


def shape_of(value: ir.Value | None) -> Shape | None:
    """The shape of a tensor with every size an int or a name; None if its rank is unknown or it is no tensor."""
    if value is None or value.shape is None or not isinstance(value.type, ir.TensorType):
        return None
    dims = tuple([d if isinstance(d, int) else d.value for d in value.shape])
    return None if None in dims else dims  # type: ignore[return-value]


def elements_of(value: ir.Value | None) -> Elements | None:
    """The elements of a small integer or bool tensor of rank 0 or 1, each an int, a symbolic size, or None.

    Inference keeps them in `value.meta["dims"]`, as a tuple for rank 1 and bare for rank 0.
    """
    if value is None:
        return None
    meta = value.meta
    if "dims" in meta:
        known = meta["dims"]
        return known if isinstance(known, tuple) else (known,)
    tensor = constant(value)
    if tensor is None or tensor.dtype not in _COUNTABLE or len(tensor.shape) > 1 or tensor.size > MAX_ELEMENTS:
        return None
    array = tensor.numpy()
    elements = tuple(int(element) for element in array.reshape(-1))
    meta["dims"] = elements if array.ndim else elements[0]
    return elements


def static_elements(value: ir.Value | None) -> tuple[int, ...] | None:
    """The elements of `value` if every one is a known int."""
    elements = elements_of(value)
    if elements is None or not all(isinstance(element, int) for element in elements):
        return None
    return elements  # type: ignore[return-value]


def static_slice(node: ir.Node) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """Where a Slice starts, along which axes, and in what steps, if all of that is known. None also before opset 10,
    where attributes say it."""
    if len(node.inputs) < 3:
        return None
    _, start, _, axis, step = (*node.inputs, None, None)[:5]
    starts = static_elements(start) or ()
    axes = tuple(range(len(starts))) if axis is None else static_elements(axis)
    steps = (1,) * len(starts) if step is None else static_elements(step)
    return None if not starts or axes is None or steps is None else (starts, axes, steps)


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
