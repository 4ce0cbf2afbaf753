"""Moving strings: string tensors are numpy arrays, which no operation of PyTorch takes.

An operator that only moves elements is run on their positions instead, and the strings are taken from there:

    y = Reshape(words)   ->   y = take_strings(words, string_places(words).reshape(2, 3))
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..code.expr import Expr, Subscript, to_expr
from ..ir.types import DataType, ValueType
from .kernel import kernel
from .node import Node, Result, Unpack
from .operand import Operand, Tensor


def moves_elements(function: Callable[..., Result]) -> Callable[..., Result]:
    """An operator function that works on strings too, because it only moves the elements of its first input."""

    @functools.wraps(function)
    def on_positions(n: Node, *inputs: Any, **attributes: Any) -> Result:
        data = inputs[0] if inputs else None
        if not isinstance(data, Tensor) or data.type.dtype != DataType.STRING or data.type.kind != "tensor":
            return function(n, *inputs, **attributes)
        places = Tensor(kernel("string_places")(data), ValueType(DataType.INT64, data.type.shape))
        result = function(n, places, *inputs[1:], **attributes)
        if isinstance(result, Unpack):
            parts = [Subscript(result.expr, (to_expr(i),)) for i in range(result.count)]
            return [kernel("take_strings")(data, part) for part in parts]
        return kernel("take_strings")(data, result) if isinstance(result, Expr) else result

    return on_positions


def numbers_only(function: Callable[..., Result]) -> Callable[..., Result]:
    """An operator function that cannot work on strings, though ONNX allows them, and says so."""

    @functools.wraps(function)
    def checked(n: Node, *inputs: Any, **attributes: Any) -> Result:
        if any(isinstance(data, Operand) and data.type.dtype == DataType.STRING for data in inputs):
            n.fail("its input is of strings")
        return function(n, *inputs, **attributes)

    return checked
