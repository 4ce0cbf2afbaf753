"""The forms in which operator functions get their inputs. The annotation of a parameter says which form it wants:

    Tensor     a torch.Tensor at run time (a `Constant` if the model fixes it: then `.const` is its numpy array)
    Dims       a list of sizes: Python ints at run time, whatever they were computed from
    Scalar     one Python number at run time
    Operand    whichever of these the value happens to be

The registry converts. So no function has to ask for the form, and sizes become a tensor only where a tensor is needed.

All forms except `Dims` are expressions, to be used in place of the value. `.type` and `.const` are what the compiler
knows of the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.types import DataType, ValueType, type_of
from onnxlift.lifting.code.expr import (
    FLOAT32_MAX,
    Attribute,
    Display,
    Expr,
    Literal,
    Ref,
    Star,
    Subscript,
    Wrapped,
    to_expr,
)
from onnxlift.lifting.code.roots import root_of_single

LITERAL_TYPES = frozenset(
    {DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16, DataType.INT64, DataType.INT32}
    | {DataType.INT16, DataType.INT8, DataType.UINT8, DataType.BOOL}
)


class Tensor(Wrapped):
    """A tensor of the running model, or a sequence, an optional or a string array (see `.type.kind`)."""

    __slots__ = ("type",)

    def __init__(self, expr: Expr, type: ValueType) -> None:
        super().__init__(expr)
        self.type = type

    @property
    def const(self) -> np.ndarray[Any, Any] | None:
        return None

    @property
    def number(self) -> bool | int | float | None:
        """The value as a Python literal, if the model fixes it and it has one element."""
        return None


class Constant(Tensor):
    """A tensor that the model fixes. Used directly, it becomes a parameter or a buffer of the module."""

    __slots__ = ("value",)

    def __init__(self, value: ir.Value, expr: Expr | None = None) -> None:
        super().__init__(Ref(value) if expr is None else expr, type_of(value))
        self.value = value

    @property
    def const(self) -> np.ndarray[Any, Any]:
        assert self.value.const_value is not None
        return self.value.const_value.numpy()

    @property
    def number(self) -> bool | int | float | None:
        if self.type.size != 1 or self.type.dtype not in LITERAL_TYPES:
            return None
        return exact_number(self.const.reshape(-1)[0], self.type.dtype)


class Scalar(Wrapped):
    """A Python number at run time: a size, or a number computed from sizes. `nonnegative` if it cannot be below 0."""

    __slots__ = ("nonnegative", "type")

    def __init__(self, expr: Any, dtype: DataType = DataType.INT64, nonnegative: bool = False) -> None:
        inner = to_expr(expr)
        super().__init__(inner._expr if isinstance(inner, Scalar) else inner)
        self.type = ValueType(dtype, ())
        value = self.number
        self.nonnegative = nonnegative or (value is not None and value >= 0)

    @property
    def number(self) -> bool | int | float | None:
        """The number itself, if it is known already."""
        inner = self._expr
        if isinstance(inner, Literal) and isinstance(inner._value, bool | int | float):
            return inner._value
        return None

    @property
    def const(self) -> np.ndarray[Any, Any] | None:
        return None if self.number is None else np.asarray(self.number, self.type.dtype.numpy())  # type: ignore[union-attr]


class Dims:
    """A list of sizes, or of numbers computed from sizes, all of one element type. Either its elements are known one by
    one (`elements`), or only the list as a whole (`whole`)."""

    __slots__ = ("elements", "type", "whole")

    def __init__(
        self,
        elements: Sequence[Scalar] | None,
        whole: Expr | None = None,
        length: int | None = None,
        dtype: DataType | None = DataType.INT64,
    ) -> None:
        """Make a list of `elements`, or of `whole`. `dtype` is that of the `whole`, or of an empty list of elements."""
        assert (elements is None) != (whole is None)
        self.elements = None if elements is None else list(elements)
        self.whole = whole
        dtype = elements[0].type.dtype if elements else dtype
        self.type = ValueType(dtype, (len(elements) if elements is not None else length,))

    @classmethod
    def of(cls, values: Sequence[int | Scalar]) -> Dims:
        return cls([v if isinstance(v, Scalar) else Scalar(int(v)) for v in values])

    @property
    def static(self) -> tuple[int, ...] | None:
        """The sizes as ints, if all of them are known already."""
        if self.elements is None:
            return None
        numbers = [e.number for e in self.elements]
        return None if any(n is None for n in numbers) else tuple(int(n) for n in numbers if n is not None)

    @property
    def length(self) -> int | None:
        shape = self.type.shape
        return shape[0] if shape and isinstance(shape[0], int) else None

    def __getitem__(self, index: int) -> Scalar:
        if self.elements is not None:
            return self.elements[index]
        assert self.whole is not None
        return Scalar(self.whole[index], self.type.dtype or DataType.INT64)

    def as_expr(self) -> Expr:
        """Return the list as one argument: `(2, 3)`, `x.shape[2:]`, or the expression for the whole."""
        if self.elements is None:
            assert self.whole is not None
            return self.whole
        last = last_sizes(self.elements)
        if last is None or len(self.elements) == 1:
            return Display(self.elements, "()")
        x, axis = last
        return x.shape[axis:] if axis else x.shape

    def args(self) -> list[Expr]:
        """Return the list as separate arguments: `x.reshape(*dims.args())` writes `x.reshape(2, 3)` or
        `x.reshape(*size)`."""
        if self.elements is None:
            assert self.whole is not None
            return [Star(self.whole)]
        return list(self.elements)


def last_sizes(elements: Sequence[Scalar]) -> tuple[Tensor, int] | None:
    """Return the tensor x and the axis i, if the elements are `x.shape[i]`, `x.shape[i + 1]` and so on to the last
    axis; else None."""
    first: Tensor | None = None
    for position, element in enumerate(elements):
        match element._expr:
            case Subscript(
                _base=Attribute(_base=Tensor() as x, _name="shape"), _index=(Literal(_value=int() as axis),)
            ):
                first = x if first is None else first
                if x.type.rank != axis + len(elements) - position or not _is_same(first, x):
                    return None
            case _:
                return None
    return None if first is None else (first, (first.type.rank or 0) - len(elements))


def _is_same(a: Tensor, b: Tensor) -> bool:
    first, second = a._expr, b._expr
    return isinstance(first, Ref) and isinstance(second, Ref) and first._key is second._key


Operand = Tensor | Scalar | Dims


def exact_number(value: Any, dtype: DataType | None) -> bool | int | float:
    """Return the Python literal that gives exactly `value` in arithmetic with a tensor of `dtype`.

    PyTorch rounds a Python number to float32 before arithmetic with a float32 tensor. So the shortest text that rounds
    to the same float32 is enough (`0.1`), or a root that does (`math.sqrt(8)`). With a half-precision tensor PyTorch
    uses the number in float32, so all digits are written.
    """
    if dtype == DataType.BOOL:
        return bool(value)
    if dtype == DataType.FLOAT:
        short = root_of_single(float(str(np.float32(value))))
        return short if abs(short) <= FLOAT32_MAX else float(value)  # the shortest text may be just above the largest
    if dtype in (DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16):
        return float(value)
    return int(value)


def size_of(tensor: Tensor, axis: int) -> Scalar:
    """Return the size of one axis: the number itself if it is known, else `x.shape[axis]`."""
    dim = tensor.type.dim(axis)
    if isinstance(dim, int):
        return Scalar(dim)
    return Scalar(Subscript(tensor.shape, (Literal(axis),)), nonnegative=True)


def shape_of(tensor: Tensor) -> Dims:
    """Return all sizes of a tensor, one by one if its rank is known."""
    rank = tensor.type.rank
    if rank is None:
        return Dims(None, tensor.shape)
    return Dims([size_of(tensor, axis) for axis in range(rank)])
