"""Moving strings: string tensors are numpy arrays, which no operation of PyTorch takes.

An operator that only moves elements is run on their positions instead, and the strings are taken from there:

    y = Reshape(words)   ->   y = take_strings(words, string_places(words).reshape(2, 3))

Of several string tensors, positions go on where those of the one before end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from ..code.expr import Expr, Subscript, to_expr
from ..ir.types import DataType, ValueType
from .kernel import kernel
from .node import Node, Result, Unpack
from .operand import Operand, Tensor


def moves_elements(function: Callable[..., Result]) -> Callable[..., Result]:
    """An operator function that works on strings too, because it only moves the elements of its inputs."""

    @functools.wraps(function)
    def on_positions(n: Node, *inputs: Any, **attributes: Any) -> Result:
        strings = [data for data in inputs if _is_strings(data)]
        if not strings:
            return function(n, *inputs, **attributes)
        moved = [_places(data, strings) if _is_strings(data) else data for data in inputs]
        result = function(n, *moved, **attributes)
        words = strings[0] if len(strings) == 1 else kernel("all_strings")(*strings)
        if isinstance(result, Unpack):
            parts = [Subscript(result.expr, (to_expr(i),)) for i in range(result.count)]
            return [kernel("take_strings")(words, part) for part in parts]
        return kernel("take_strings")(words, result) if isinstance(result, Expr) else result

    return on_positions


def _is_strings(data: Any) -> bool:
    return isinstance(data, Tensor) and data.type.dtype == DataType.STRING and data.type.kind == "tensor"


def _places(data: Tensor, strings: Sequence[Tensor]) -> Tensor:
    before = list(takewhile(lambda other: other is not data, strings))
    return Tensor(kernel("string_places")(data, *before), ValueType(DataType.INT64, data.type.shape))


def numbers_only(function: Callable[..., Result]) -> Callable[..., Result]:
    """An operator function that cannot work on strings, though ONNX allows them, and says so."""

    @functools.wraps(function)
    def checked(n: Node, *inputs: Any, **attributes: Any) -> Result:
        if any(isinstance(data, Operand) and data.type.dtype == DataType.STRING for data in inputs):
            n.fail("its input is of strings")
        return function(n, *inputs, **attributes)

    return checked
