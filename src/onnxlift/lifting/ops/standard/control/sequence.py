"""Sequences as Python lists. No list is ever changed: an operator that adds or removes returns a new one."""

from __future__ import annotations

from typing import Any

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Expr, Star, builtin, either, to_expr, torch
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Constant, Dims, Operand, Scalar, Tensor, size_of
from onnxlift.lifting.ops.registry import op


@op("SequenceEmpty", ignores=["dtype"])
def SequenceEmpty(n: Node) -> Result:
    return _list()


@op("SequenceConstruct")
def SequenceConstruct(n: Node, *inputs: Tensor) -> Result:
    return _list(*inputs)


@op("SequenceLength")
def SequenceLength(n: Node, input_sequence: Tensor) -> Result:
    return Scalar(builtin("len")(input_sequence), nonnegative=True)


@op("SequenceAt")
def SequenceAt(n: Node, input_sequence: Tensor, position: Scalar) -> Result:
    return input_sequence[position]


@op("SequenceInsert")
def SequenceInsert(n: Node, input_sequence: Tensor, tensor: Tensor, position: Scalar | None) -> Result:
    """The tensor goes to the end, unless a position is given."""
    if position is None:
        return _list(Star(input_sequence), tensor)
    if position.number == 0:
        return _list(tensor, Star(input_sequence))
    return _list(Star(input_sequence[:position]), tensor, Star(input_sequence[position:]))


@op("SequenceErase")
def SequenceErase(n: Node, input_sequence: Tensor, position: Scalar | None) -> Result:
    """The last tensor is removed, unless a position is given."""
    if position is None or position.number == -1:
        return input_sequence[:-1]
    if position.number is None:
        return kernel("without_item")(input_sequence, position)
    if position.number == 0:
        return input_sequence[1:]
    return _list(Star(input_sequence[:position]), Star(input_sequence[position.number + 1 :]))


@op("SplitToSequence")
def SplitToSequence(n: Node, input: Tensor, split: Operand | None, *, axis: int, keepdims: int) -> Result:
    """`split` gives the lengths of all pieces, or one length for all pieces except a shorter last one. Without it the
    pieces have length 1, and lose the axis if not `keepdims`."""
    where = [axis] if axis else []
    if input.type.dtype == DataType.STRING:
        places = Tensor(kernel("string_places")(input), input.type)
        pieces = _pieces(places, split, where, axis, bool(keepdims))
        return kernel("take_string_pieces")(input, pieces)
    return builtin("list")(_pieces(input, split, where, axis, bool(keepdims)))


def _pieces(input: Tensor, split: Operand | None, where: list[int], axis: int, keepdims: bool) -> Expr:
    if split is None and not keepdims:
        return input.unbind(*where)
    if split is not None and split.type.rank == 1:
        return input.split(_lengths(split), *where)
    pieces: Expr = input.split(1 if split is None else _length(split), *where)
    size = size_of(input, axis)
    return pieces if size.number else either(size, pieces, ())  # for an empty axis, `split` gives one empty piece


def _length(split: Operand) -> Any:
    match split:
        case Scalar():
            return split
        case Dims():
            return split[0]
    return split.item() if split.number is None else split.number


def _lengths(split: Operand) -> Expr:
    if isinstance(split, Constant):
        return _list(*(int(length) for length in split.const))
    if isinstance(split, Dims):
        return _list(*split.args())
    return split.tolist()


@op("ConcatFromSequence")
def ConcatFromSequence(n: Node, input_sequence: Tensor, *, axis: int, new_axis: int) -> Result:
    """With `new_axis` the tensors are stacked along a new axis."""
    where = [axis] if axis else []
    if input_sequence.type.dtype == DataType.STRING:
        return kernel("stack_strings" if new_axis else "concatenate_strings")(input_sequence, axis)
    return (torch.stack if new_axis else torch.cat)(input_sequence, *where)


def _list(*items: object) -> Expr:
    return to_expr(list(items))
