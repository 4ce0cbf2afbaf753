"""Questions about shapes, and about the elements of tensors that hold sizes, as known before the model runs."""

from __future__ import annotations

import onnx_ir as ir

from .constants import constant
from .types import INTEGERS

Dim = int | str
"""A size: a number, or the text of a symbol or expression (inference/symbolic.py). Equal texts are equal sizes."""
Shape = tuple[Dim, ...]
Element = int | str | None
Elements = tuple[Element, ...]

MAX_ELEMENTS = 128
"""The most elements of a tensor that may hold sizes. Longer integer tensors are data, not shapes."""

_COUNTABLE = INTEGERS | {ir.DataType.BOOL}


def shape_of(value: ir.Value | None) -> Shape | None:
    """Return the shape of a tensor with every size an int or a name; None if its rank is unknown or it is no tensor."""
    if value is None or value.shape is None or not isinstance(value.type, ir.TensorType):
        return None
    dims = tuple([d if isinstance(d, int) else d.value for d in value.shape])
    return None if None in dims else dims  # type: ignore[return-value]


def elements_of(value: ir.Value | None) -> Elements | None:
    """Return the elements of a small integer or bool tensor of rank 0 or 1, each an int, a symbolic size, or None.

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
    """Return the elements of `value` if every one is a known int."""
    elements = elements_of(value)
    if elements is None or not all(isinstance(element, int) for element in elements):
        return None
    return elements  # type: ignore[return-value]


def rank(value: ir.Value | None) -> int | None:
    """Return the number of axes, if known."""
    return None if value is None or value.shape is None else len(value.shape)


def same_shape(a: ir.Value, b: ir.Value) -> bool:
    """Tell whether two values are known to have the same shape in every run."""
    shape = shape_of(a)
    return shape is not None and shape == shape_of(b)
