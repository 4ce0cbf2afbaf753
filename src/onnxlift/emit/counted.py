"""Constants that a line of code makes are not stored.

1. 0, 1, 2, ...                    ->   torch.arange(n)
2. ones, or one number, up to or   ->   torch.ones(n, n).tril(), torch.full((n, n), float("-inf")).triu(1)
   from a diagonal, else zeros
3. one integer, or one truth       ->   torch.zeros(2, n, dtype=torch.int64)

Exporters compute positions, segments and masks ahead of time where the sizes are fixed. This applies to what would
become a buffer, if the name was not given by a person, and every bit of it is as the line would make it. A list that
counts may have axes of one entry around it, a triangle before it. None is shorter than `SHORTEST`: so little says
nothing. Rule 3 leaves floats alone: a weight may be one number throughout before it is trained.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..code.expr import Device, Expr, Ref, torch, walk
from ..code.statements import Assign, Block, Statement, expressions, walk_statements
from ..ir.scopes import constant
from ..ir.types import DataType
from ..ops.create import new_filled
from ..ops.node import torch_dtype
from ..ops.operand import Dims, exact_number
from ..passes.edit import Array
from .constants import is_made_up

SHORTEST = 3
_LARGEST = 1 << 24
_COUNTING = frozenset({DataType.INT64, DataType.INT32, DataType.FLOAT})
_MARKING = _COUNTING | {DataType.BOOL}


def make_in_place(value: ir.Value, body: Block) -> bool:
    """Write the line that makes a constant before the first that reads it. False if no line does."""
    expr = _expression(value)
    if expr is None:
        return False
    place = next(place for place, statement in enumerate(body.statements) if _reads(statement, value))
    body.statements.insert(place, Assign([Ref(value)], expr))
    return True


def _reads(statement: Statement, value: ir.Value) -> bool:
    inside = (
        part for inner in walk_statements(Block([statement])) for expr in expressions(inner) for part in walk(expr)
    )
    return any(isinstance(part, Ref) and part._key is value for part in inside)


def _expression(value: ir.Value) -> Expr | None:
    tensor = constant(value)
    if tensor is None or tensor.dtype not in _MARKING or tensor.size > _LARGEST or not is_made_up(value):
        return None
    array = tensor.numpy()
    rules = (rule(array, tensor.dtype) for rule in (_counted, _triangle, _throughout))
    return next((found for found in rules if found is not None), None)


def _counted(array: Array, dtype: DataType) -> Expr | None:
    """Rule 1."""
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
    """Rule 2."""
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
    """Rule 3."""
    is_one = dtype != DataType.FLOAT and array.size >= SHORTEST and bool((array == array.flat[0]).all())
    return _filled(array.shape, array.flat[0], dtype) if is_one else None


def _filled(shape: tuple[int, ...], number: Any, dtype: DataType) -> Expr:
    return new_filled(Dims.of(shape), exact_number(number, dtype), dtype, Device())


def _is_same(array: Array, expected: Array) -> bool:
    """Whether the numbers are these, zeros with their signs."""
    return array.tobytes() == expected.astype(array.dtype).tobytes()
