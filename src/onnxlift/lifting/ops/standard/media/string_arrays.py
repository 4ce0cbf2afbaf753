"""Move strings. String tensors are numpy arrays, which no operation of PyTorch takes.

An operator that only moves elements is run on their positions instead. The result says which strings to take:

    y = Reshape(words)   ->   y = take_strings(words, string_places(words).reshape(2, 3))

If there are several string tensors, their positions are counted on from one to the next. If the operator also fills
places with zeros, positions begin at 1, and 0 stands for the empty string:

    y = Trilu(words)     ->   y = take_strings_or_empty(words, (string_places(words) + 1).triu())
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from onnxlift.ir.graph.types import DataType, ValueType
from onnxlift.lifting.code.expr import Expr, Subscript, to_expr
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result, Unpack
from onnxlift.lifting.ops.operand import Tensor


def moves_elements(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return an operator function that works on strings too. The given one must only move the elements of its
    inputs."""
    return _on_positions(function, fills=False)


def moves_or_fills(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return the same for one that also fills places with zeros, which become empty strings."""
    return _on_positions(function, fills=True)


def _on_positions(function: Callable[..., Result], fills: bool) -> Callable[..., Result]:
    take = "take_strings_or_empty" if fills else "take_strings"

    @functools.wraps(function)
    def on_positions(n: Node, *inputs: Any, **attributes: Any) -> Result:
        strings = [data for data in inputs if _is_strings(data)]
        if not strings:
            return function(n, *inputs, **attributes)
        moved = [_places(data, strings, int(fills)) if _is_strings(data) else data for data in inputs]
        result = function(n, *moved, **attributes)
        words = strings[0] if len(strings) == 1 else kernel("all_strings")(*strings)
        if isinstance(result, Unpack):
            parts = [Subscript(result.expr, (to_expr(i),)) for i in range(result.count)]
            return [kernel(take)(words, part) for part in parts]
        return kernel(take)(words, result) if isinstance(result, Expr) else result

    return on_positions


def _is_strings(data: Any) -> bool:
    return isinstance(data, Tensor) and data.type.dtype == DataType.STRING and data.type.kind == "tensor"


def _places(data: Tensor, strings: Sequence[Tensor], first: int) -> Tensor:
    before = list(takewhile(lambda other: other is not data, strings))
    places: Expr = kernel("string_places")(data, *before)
    return Tensor(places + first if first else places, ValueType(DataType.INT64, data.type.shape))
