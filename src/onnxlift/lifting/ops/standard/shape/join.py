"""Operators that put tensors together and take them apart."""

from __future__ import annotations

from collections.abc import Sequence

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Display, Expr, Star, torch
from onnxlift.lifting.ops.axes import as_written
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result, Unpack
from onnxlift.lifting.ops.operand import LITERAL_TYPES, Constant, Dims, Operand, Scalar, Tensor, exact_number
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.media.string_arrays import moves_elements

from .create import MOST_SIZES


@op("Concat")
def Concat(n: Node, *inputs: Operand, axis: int = 1) -> Result:
    """Until opset 3 the axis may be left out, and is then 1. Lists of sizes give a list of sizes."""
    if any(isinstance(operand, Dims) for operand in inputs) and all(_is_list(operand) for operand in inputs):
        return _concatenated([_as_dims(operand) for operand in inputs])
    if len(inputs) == 1:
        return inputs[0]
    tensors = [n.tensor(operand) for operand in inputs]
    rank = next((t.type.rank for t in tensors if t.type.rank is not None), None)
    if tensors[0].type.dtype == DataType.STRING:
        return kernel("concatenate_strings")(tuple(tensors), axis)
    return torch.cat(tuple(tensors), *_dim(axis, rank))


def _dim(axis: int, rank: int | None) -> list[int]:
    """Return the argument `dim` in a list, which is empty if it is 0, the default."""
    axis = as_written(axis, rank)
    return [axis] if axis else []


def _is_list(operand: Operand) -> bool:
    """Tell whether an operand is sizes, or integers that go with sizes: constants, or a single one that is computed at
    run time."""
    match operand:
        case Dims():
            return True
        case Constant():
            is_list = operand.type.rank == 1 and (operand.type.size or 0) <= MOST_SIZES
            return is_list and operand.type.dtype in LITERAL_TYPES
        case Tensor():
            return operand.type.is_integer and operand.type.shape == (1,)
    return False


def _as_dims(operand: Operand) -> Dims:
    dtype = operand.type.dtype or DataType.INT64
    match operand:
        case Dims():
            return operand
        case Constant():
            return Dims([Scalar(exact_number(size, dtype), dtype) for size in operand.const])
    return Dims([Scalar(operand.item(), dtype)])


def _concatenated(parts: Sequence[Dims]) -> Dims:
    elements = [part.elements for part in parts if part.elements is not None]
    if len(elements) == len(parts) and sum(map(len, elements)) <= MOST_SIZES:
        return Dims([size for own in elements for size in own])
    items: list[Expr] = []
    for part in parts:
        items.extend(part.elements if part.elements is not None else [Star(part.as_expr())])
    lengths = [part.length for part in parts]
    known = [length for length in lengths if length is not None]
    total = sum(known) if len(known) == len(lengths) else None
    return Dims(None, Display(items, "()"), total, parts[0].type.dtype)


@op("Split")
@moves_elements
def Split(n: Node, input: Operand, split: Dims | None, *, axis: int | None, num_outputs: int | None = None) -> Result:
    """Split into pieces of the given sizes, or into equal ones. From opset 18 on, the last of equal pieces may be
    smaller."""
    count = len(n.ir.outputs)
    if num_outputs not in (None, count):
        n.fail(f"it has {count} outputs and says that it has {num_outputs}")
    axis = axis or 0  # no default in opset 1
    if isinstance(input, Dims) and input.elements is not None and (split is None or split.static is not None):
        return _split_sizes(input.elements, _piece_sizes(n, len(input.elements), split, count) or ())
    x = n.tensor(input)
    if count == 1:
        return x
    dim = _dim(axis, x.type.rank)
    size = x.type.dim(axis)
    sizes = _piece_sizes(n, size if isinstance(size, int) else None, split, count)
    if sizes is None:
        return Unpack(x.chunk(count, *dim) if split is None else x.split(split, *dim), count)
    if len(set(sizes)) == 1 and sizes[0] > 0:
        return Unpack(x.chunk(count, *dim), count)
    if len(set(sizes[:-1])) == 1 and 0 < sizes[-1] < sizes[0]:
        return Unpack(x.split(sizes[0], *dim), count)
    return Unpack(x.split(list(sizes), *dim), count)


def _piece_sizes(n: Node, size: int | None, split: Dims | None, count: int) -> tuple[int, ...] | None:
    """Return the sizes of the pieces, if they are known already; else None."""
    if split is not None:
        return split.static
    if size is None:
        return None
    piece = -(-size // count)
    last = size - piece * (count - 1)
    if last < 0 or (last != piece and n.opset < 18):
        n.fail(f"an axis of size {size} cannot be split into {count} pieces")
    return (piece,) * (count - 1) + (last,)


def _split_sizes(elements: Sequence[Scalar], sizes: Sequence[int]) -> list[Dims]:
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [Dims(list(elements[end - size : end])) for size, end in zip(sizes, ends, strict=True)]
