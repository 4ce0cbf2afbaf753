"""Questions about one constant: its tensor, and the number that it holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from .marks import STORED
from .types import INTEGERS, PRECISION

Array = np.ndarray[Any, Any]


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of an initialiser that no caller can override, else None."""
    if value is None or value.const_value is None or not value.is_initializer() or value.is_graph_input():
        return None
    return value.const_value


def stored_tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """Return the tensor that the numbers of a constant come from: the same one for copies of a constant."""
    tensor = value.const_value
    found: ir.TensorProtocol | None = None if tensor is None else tensor.meta.get(STORED, tensor)
    return found


def contiguous(array: Array) -> Array:
    """Return an array whose numbers lie in their order, with one axis or more, as numpy's function of that name does.

    Unlike that, keep the class of the array: it tells where the numbers come from (workbench/update/traced.py)."""
    array = array if array.ndim else array.reshape(1)
    return array if array.flags.c_contiguous else array.copy()


def number(value: ir.Value | None) -> float | None:
    """Return the number that a constant of one element holds; None for any other value."""
    if value is None or value.const_value is None:
        return None
    if "number" not in value.meta:
        tensor = constant(value)
        fits = tensor is not None and tensor.size == 1 and (tensor.dtype in PRECISION or tensor.dtype in INTEGERS)
        value.meta["number"] = float(tensor.numpy().reshape(-1)[0]) if tensor is not None and fits else None
    found: float | None = value.meta["number"]
    return found


def varies(value: ir.Value) -> bool:
    """Tell whether a constant has elements that differ. Those of an untrained weight are often all equal."""
    tensor = constant(value)
    array = tensor.numpy() if tensor is not None else np.zeros(())
    return bool((array != array.flat[:1]).any())
