"""Write constants that a line of code can make as that line, and do not store them.

1. 0, 1, 2, ...                    ->   torch.arange(n)
2. ones, or one number, up to or   ->   torch.ones(n, n).tril(), torch.full((n, n), float("-inf")).triu(1)
   from a diagonal, else zeros
3. one integer, or one truth       ->   torch.zeros(2, n, dtype=torch.int64)
4. an identity matrix, or its rows ->   torch.eye(n), torch.eye(n).flatten(), ~torch.eye(n, dtype=torch.bool)
   one after the other, or all else
5. the places in a triangle        ->   torch.tril_indices(n, n, -1)

Exporters compute positions, segments and masks ahead of time if the sizes are fixed. Applies to a constant that would
become a buffer, if no person gave it its name, and the line makes every bit of it. A list that counts may have axes of
size 1 around it; a triangle or an identity may have them before it. None is shorter than `SHORTEST`: so few numbers say
nothing. Rule 3 leaves floats alone, and rule 4 leaves those alone that a layer could have as its weight: before
training, a weight may be one number throughout, or an identity.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.types import DataType
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.code.expr import Device, Expr, Ref, torch
from onnxlift.lifting.code.reads import values_read
from onnxlift.lifting.code.statements import Assign, Block
from onnxlift.lifting.ops.layer_nodes import is_weighted
from onnxlift.lifting.ops.node import torch_dtype
from onnxlift.lifting.ops.operand import Dims, exact_number
from onnxlift.lifting.ops.standard.shape.create import new_filled

SHORTEST = 3
_LARGEST = 1 << 24
_COUNTING = frozenset({DataType.INT64, DataType.INT32, DataType.FLOAT})
_MARKING = _COUNTING | {DataType.BOOL}


def write_computation(value: ir.Value, body: Block) -> bool:
    """Write the line that makes a constant before the first statement that reads it. Return False if there is no such
    line."""
    expr = _expression(value)
    if expr is None:
        return False
    place = next(place for place, statement in enumerate(body.statements) if value in values_read(statement))
    body.statements.insert(place, Assign([Ref(value)], expr))
    return True


def _expression(value: ir.Value) -> Expr | None:
    tensor = constant(value)
    if tensor is None or tensor.dtype not in _MARKING or tensor.size > _LARGEST or not origin_of(value).is_unnamed:
        return None
    array = tensor.numpy()
    rules = (rule(array, tensor.dtype) for rule in (_counted, _triangle, _throughout, _places))
    found = next((found for found in rules if found is not None), None)
    return _identity(array, tensor.dtype) if found is None and not _is_factor(value) else found


def _counted(array: Array, dtype: DataType) -> Expr | None:
    """Write 0, 1, 2, ... as an `arange`, by rule 1."""
    long = [axis for axis, size in enumerate(array.shape) if size != 1]
    if dtype not in _COUNTING or len(long) != 1 or array.size < SHORTEST:
        return None
    if not _is_same(array.reshape(-1), np.arange(array.size)):
        return None
    options = {} if dtype == DataType.INT64 else {"dtype": torch_dtype(dtype)}
    positions = torch.arange(array.size, **options, device=Device())
    if array.ndim == 1:
        return positions
    if array.ndim == 2:
        return positions.unsqueeze(1 - long[0])
    return positions.view(*(-1 if axis in long else 1 for axis in range(array.ndim)))


def _triangle(array: Array, dtype: DataType) -> Expr | None:
    """Write a triangle of one number, by rule 2."""
    if array.ndim < 2 or min(array.shape[-2:]) < SHORTEST or array.size != array.shape[-2] * array.shape[-1]:
        return None
    upper, lower = (array.reshape(array.shape[-2:])[corner] for corner in ((0, -1), (-1, 0)))
    if bool(upper) == bool(lower):
        return None
    number, cut = (upper, np.triu) if upper else (lower, np.tril)
    for diagonal in (0, 1, -1):
        if _is_same(array, cut(np.full_like(array, number), diagonal)):
            whole = _filled(array.shape, number, dtype)
            return (whole.triu if upper else whole.tril)(*([diagonal] if diagonal else []))
    return None


def _throughout(array: Array, dtype: DataType) -> Expr | None:
    """Write a constant that is one integer or one truth value throughout, by rule 3."""
    is_one = dtype != DataType.FLOAT and array.size >= SHORTEST and bool((array == array.flat[0]).all())
    return _filled(array.shape, array.flat[0], dtype) if is_one else None


def _identity(array: Array, dtype: DataType) -> Expr | None:
    """Write an identity matrix, by rule 4."""
    long = [axis for axis, size in enumerate(array.shape) if size != 1]
    rows = columns = math.isqrt(array.size)
    if len(long) == 2 and long == [array.ndim - 2, array.ndim - 1]:
        rows, columns = array.shape[-2:]
    elif len(long) != 1:
        return None
    if min(rows, columns) < SHORTEST or rows * columns != array.size:
        return None
    expected: Array = np.eye(rows, columns, dtype=array.dtype)
    is_rest = dtype == DataType.BOOL and _is_same(array, np.logical_not(expected))
    if not is_rest and not _is_same(array, expected):
        return None
    options = {} if dtype == DataType.FLOAT else {"dtype": torch_dtype(dtype)}
    identity = torch.eye(rows, *([columns] if columns != rows else []), **options, device=Device())
    identity = ~identity if is_rest else identity
    if len(long) == 2:
        if array.ndim == 2:
            return identity
        return identity.unsqueeze(0) if array.ndim == 3 else identity.view(*array.shape)
    return (
        identity.flatten()
        if array.ndim == 1
        else identity.view(*(-1 if axis in long else 1 for axis in range(array.ndim)))
    )


def _is_factor(value: ir.Value) -> bool:
    return value.dtype == DataType.FLOAT and any(is_weighted(reader) for reader, _ in value.uses())


def _places(array: Array, dtype: DataType) -> Expr | None:
    """Write the indices of a triangle, by rule 5."""
    if dtype != DataType.INT64 or array.ndim != 2 or 2 not in array.shape or array.size < 2 * SHORTEST:
        return None
    is_turned = array.shape[0] != 2
    places = array.T if is_turned else array
    size = int(places.max()) + 1
    if size < 2 or size * (size - 1) // 2 > places.shape[1]:  # the smallest triangle of this size has more places
        return None
    for name, make in (("tril_indices", np.tril_indices), ("triu_indices", np.triu_indices)):
        for diagonal in (0, -1, 1):
            expected = make(size, diagonal)
            if places.shape[1] == len(expected[0]) and (places == expected).all():
                arguments = [size, size, *([diagonal] if diagonal else [])]
                found: Expr = getattr(torch, name)(*arguments, device=Device())
                return found.T if is_turned else found
    return None


def _filled(shape: tuple[int, ...], number: Any, dtype: DataType) -> Expr:
    return new_filled(Dims.of(shape), exact_number(number, dtype), dtype, Device())


def _is_same(array: Array, expected: Array) -> bool:
    """Tell whether the numbers are equal bit by bit, even in the signs of zeros."""
    return array.tobytes() == expected.astype(array.dtype).tobytes()
