"""Operators that make tensors out of sizes and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.shapes import elements_of
from onnxlift.ir.graph.types import DataType
from onnxlift.ir.inference import symbolic
from onnxlift.lifting.code.expr import Expr, builtin, torch
from onnxlift.lifting.ops.carry import carried
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result, data_type, torch_dtype
from onnxlift.lifting.ops.operand import (
    LITERAL_TYPES,
    Constant,
    Dims,
    Operand,
    Scalar,
    Tensor,
    exact_number,
    last_sizes,
    size_of,
)
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.math.cast import converted
from onnxlift.lifting.ops.standard.media.string_arrays import moves_elements, moves_or_fills

MOST_SIZES = 64
"""Longer lists of integers are data, not sizes."""


@op("Constant")
def Constant_(n: Node, **attributes: Any) -> Result:
    """Constants are initialisers by now, except those that a function body takes from its caller's attributes."""
    given = {name: value for name, value in attributes.items() if value is not None}
    if len(given) != 1:
        n.fail("it needs exactly one value")
    ((name, value),) = given.items()
    match name:
        case "value":
            tensor = value
        case "value_int" | "value_ints":
            tensor = ir.tensor(np.asarray(value, np.int64))
        case "value_float" | "value_floats":
            tensor = ir.tensor(np.asarray(value, np.float32))
        case "value_string" | "value_strings":
            strings = np.asarray(value, object)
            tensor = ir.StringTensor(strings, shape=ir.Shape(strings.shape))
        case _:
            n.fail(f"a constant given as {name} cannot be read")
    return constant(tensor, n.ir.outputs[0].name)


def constant(tensor: ir.TensorProtocol, name: str | None) -> Constant:
    """Return a tensor that the module keeps."""
    shape = ir.Shape(tensor.shape.numpy())
    return Constant(ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor))


@op("ConstantOfShape")
def ConstantOfShape(n: Node, input: Dims, *, value: ir.TensorProtocol | None) -> Result:
    if value is not None and value.size != 1:
        n.fail(f"its value has {value.size} elements")
    dtype = DataType.FLOAT if value is None else value.dtype
    number = np.float32(0) if value is None else value.numpy().reshape(-1)[0]
    sizes = input.static
    if dtype == DataType.INT64 and sizes is not None and len(sizes) == 1 and sizes[0] <= MOST_SIZES:
        return Dims.of([int(number)] * sizes[0])
    if value is not None and dtype not in LITERAL_TYPES:
        one = constant(_scalar(value), n.ir.outputs[0].name)
        return _repeat_strings(n, one, input) if dtype == DataType.STRING else one.expand(*_size_arguments(input))
    return filled(n, input, exact_number(number, dtype), dtype)


def _scalar(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Return the tensor of one element without its axis."""
    array = tensor.numpy().reshape(())
    if tensor.dtype == DataType.STRING:
        return ir.StringTensor(array, shape=ir.Shape(()))
    return ir.tensor(array, dtype=tensor.dtype)


def filled(n: Node, sizes: Dims, number: bool | int | float, dtype: DataType | None) -> Expr:
    """Return `torch.zeros(2, 3)`, `torch.ones(...)` or `torch.full((2, 3), number)` of the given element type. If the
    sizes are all those of a tensor, return `torch.zeros_like(x)` and the like."""
    model = _of_this_shape(sizes)
    if model is None:
        return new_filled(sizes, number, dtype, n.device)
    options = {} if model.type.dtype == dtype else {"dtype": torch_dtype(dtype)}
    if _is_positive_zero(number) or number == 1:
        return (torch.ones_like if number else torch.zeros_like)(model, **options)
    return torch.full_like(model, number, **options)


def new_filled(sizes: Dims, number: bool | int | float, dtype: DataType | None, device: Expr) -> Expr:
    """Return the same, but always made from the sizes."""
    options: dict[str, Any] = {} if dtype == DataType.FLOAT else {"dtype": torch_dtype(dtype)}
    options["device"] = device
    if _is_positive_zero(number) or number == 1:
        return (torch.ones if number else torch.zeros)(*_size_arguments(sizes), **options)
    return torch.full(sizes, number, **options)


def _is_positive_zero(number: bool | int | float) -> bool:
    return number == 0 and not np.signbit(float(number))


def _of_this_shape(sizes: Dims) -> Tensor | None:
    """Return `x`, if the sizes are `x.shape[0]`, `x.shape[1]` and so on to the last; else None."""
    x, axis = last_sizes(sizes.elements or ()) or (None, 0)
    return None if x is None or axis or x.type.dtype == DataType.STRING else x


def _size_arguments(sizes: Dims) -> list[Any]:
    """Return the sizes as arguments, `()` if there are none: a call without arguments would mean something else."""
    if sizes.elements is None:
        return [sizes]
    return list(sizes.elements) or [()]


@moves_elements
def _repeat_strings(n: Node, value: Tensor, sizes: Dims) -> Result:
    return value.expand(sizes)


@op("EyeLike")
def EyeLike(n: Node, input: Tensor, *, dtype: int | None, k: int) -> Result:
    result = data_type(dtype) if dtype is not None else input.type.dtype
    if result is None:
        n.fail("the element type of its input is not known")
    rows, columns = size_of(input, 0), size_of(input, 1)
    if k == 0 and result not in (DataType.UINT16, DataType.UINT32, DataType.UINT64):
        options = {} if result == DataType.FLOAT else {"dtype": torch_dtype(result)}
        return torch.eye(rows, columns, **options, device=n.device)
    return converted(kernel("diagonal_mask")(rows, columns, k, n.device), result)


@op("Range", ignores=("stash_type",))
def Range(n: Node, start: Operand, limit: Operand, delta: Operand) -> Result:
    """Half-precision ranges are computed in at least float32 (`stash_type`, opset 27), as PyTorch does anyway."""
    dtype = n.output.dtype or start.type.dtype
    first, last, step = (_number(n, operand) for operand in (start, limit, delta))
    options: dict[str, Any] = {} if dtype in (DataType.INT64, None) else {"dtype": torch_dtype(dtype)}
    options["device"] = n.device
    if step.number == 0:
        n.fail("its delta is 0")
    if not isinstance(step.number, int | float):
        result = kernel("float_range" if start.type.is_float else "integer_range")(first, last, step, n.device)
        return converted(result, dtype) if "dtype" in options else result
    if not _is_ahead(n, first, last, step.number):
        last = Scalar(builtin("max" if step.number > 0 else "min")(last, first), last.type.dtype or DataType.INT64)
    if step.number != 1:
        return torch.arange(first, last, step, **options)
    return torch.arange(last, **options) if first.number == 0 else torch.arange(first, last, **options)


def _number(n: Node, operand: Operand) -> Scalar:
    """Return a bound of a range as a Python number. A float gets its exact value, which decides how many elements there
    are."""
    dtype = operand.type.dtype or DataType.INT64
    match operand:
        case Scalar():
            return operand
        case Dims():
            return operand[0]
        case Constant():
            if operand.const.size != 1:
                n.fail(f"one of its bounds is not a number: it has {operand.const.size} elements")
            number = operand.const.reshape(-1)[0]
            return Scalar(float(number) if operand.type.is_float else int(number), dtype)
    return Scalar(operand.item(), dtype)


def _is_ahead(n: Node, first: Scalar, last: Scalar, step: int | float) -> bool:
    """Tell whether the limit is known to lie in the direction of the step. If not, ONNX gives an empty range, which
    PyTorch refuses."""
    if first.number is not None and last.number is not None:
        return (last.number - first.number) * step >= 0
    if first.number is not None and first.number <= 0 < step and last.nonnegative:
        return True
    begin, end = elements_of(n.ir.inputs[0]), elements_of(n.ir.inputs[1])
    if not begin or not end or begin[0] is None or end[0] is None:
        return False
    ahead = symbolic.subtract(end[0], begin[0]) if step > 0 else symbolic.subtract(begin[0], end[0])
    return ahead is not None and symbolic.is_nonnegative(ahead)


@op("OneHot")
@moves_elements
def OneHot(n: Node, indices: Tensor, depth: Scalar, values: Tensor, *, axis: int) -> Result:
    """Since opset 11 negative indices count from the end; before, they are out of range."""
    count = depth if depth.type.is_integer else Scalar(builtin("int")(depth))
    options: dict[str, Any] = {} if axis == -1 else {"axis": axis}
    if n.opset < 11:
        options["wrap"] = False
    hot = kernel("is_one_hot")(indices, count, **options)
    if values.const is not None and values.const.tolist() == [0, 1]:
        return hot if values.type.is_bool else converted(hot, values.type.dtype)
    return torch.where(hot, values[1], values[0])


@op("Trilu")
@moves_or_fills
def Trilu(n: Node, input: Tensor, k: Scalar | None, *, upper: int) -> Result:
    """`k` is the diagonal to start from; positive is above the main one."""
    arguments = [] if k is None or k.number == 0 else [k]
    return carried(lambda x: x.triu(*arguments) if upper else x.tril(*arguments), input)
