"""Constants, parameters and inputs: values that no node makes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxlift.ir.graph.types import FLOATS, INTEGERS, ONNX_TYPE

from .errors import BuildError, at_the_users_line, users_line
from .mistaken import call_it
from .state import FIXED, MADE, Made, next_order, scopes
from .types import Array, Dtype, Size, ValueType, data_type, dtype_text, shape_from
from .value import Value

DEFAULT = "default"
"""Key in the `meta` of an input of the tensor that stands for it where it is left out."""

_NATURAL = {
    "b": ir.DataType.BOOL,
    "i": ir.DataType.INT64,
    "f": ir.DataType.FLOAT,
    "c": ir.DataType.COMPLEX128,
    "U": ir.DataType.STRING,
}


@at_the_users_line
def input(
    name: str, dtype: Dtype | ValueType | None, shape: Iterable[Size] | None = None, *, default: Any = None
) -> Value:
    """Return an input of a model: `build.input("x", "float32", ["batch", 784])`.

    Sizes of the same name are equal. Without a shape not even the rank is known. `dtype` may be the type of a sequence
    or an optional (`build.sequence`, `build.optional`), or None, if nothing is to be known of it. An input with a
    `default`, an array, may be left out when the model runs."""
    check_name(name)
    if isinstance(dtype, ValueType):
        type_, sizes = dtype.type, dtype.shape
    elif dtype is None:
        type_, sizes = None, None
    else:
        type_, sizes = ir.TensorType(data_type(dtype)), shape_from(shape, f"input {name!r}")
    if sizes is not None:
        sizes = ir.Shape([_open_size() if size is None else size for size in _sizes(sizes)])
    value = ir.Value(name=name, type=type_, shape=sizes)
    value.meta[MADE] = Made(next_order(), users_line(), None, name, kind="input", fixed=name)
    value.meta[FIXED] = name
    if isinstance(dtype, ValueType) and dtype.proto is not None:
        value.meta[ONNX_TYPE] = dtype.proto
    if default is not None:
        value.meta[DEFAULT] = tensor_from(default, value.dtype, f"the default of input {name!r}")
    return Value(value)


def _sizes(shape: ir.Shape) -> list[int | str | None]:
    return [size if isinstance(size, int) else size.value for size in shape]


def _open_size() -> str:
    from .state import fresh_size

    return fresh_size()


@at_the_users_line
def constant(array: Any, name: str | None = None, *, dtype: Dtype | None = None) -> Value:
    """Return a constant: of a number, a list, a numpy array, or a tensor of ONNX.

    Python's floats become float32, its ints int64, unless `dtype` says otherwise; arrays keep their type. What is
    computed of constants alone is computed at once, and is a constant as well, unless they have a `name`."""
    if name is not None:
        check_name(name)
    tensor = tensor_from(array, None if dtype is None else data_type(dtype), "the constant")
    return Value(constant_value(tensor, name or "constant", fixed=name))


@at_the_users_line
def parameter(
    name: str,
    shape: Sequence[int],
    dtype: Dtype = "float32",
    *,
    make: Callable[[], Array],
) -> Value:
    """Return a parameter of the module around (`build.scope`): an initialiser called by its dotted name.

    `make` gives its array. It is called when the numbers are needed, and again each time: so what the array is made of
    may still change after the model is built."""
    check_name(name)
    if not callable(make):
        raise BuildError(f"the parameter {name}: make is {_shown(make)}, and must be a function that gives its array.")
    if not is_shape(shape):
        raise BuildError(f"the shape of the parameter {name} is {shape!r}: write sizes, such as (64, 10).")
    element, sizes = data_type(dtype), tuple(int(size) for size in shape)
    path = f"{scopes().path}.{name}" if scopes().path else name

    line = users_line()

    def made() -> ir.TensorProtocol:
        array = np.asarray(make())
        if array.shape != sizes or ir.DataType.from_numpy(array.dtype) != element:
            raise BuildError(
                f"the parameter {path} was declared {dtype_text(element)} {sizes}, and its array is "
                f"{array.dtype} {array.shape}.",
                line,
            )
        return ir.Tensor(array, dtype=element)

    tensor = ir.LazyTensor(made, element, ir.Shape(sizes), name=path)
    return Value(constant_value(tensor, path, fixed=path, kind="parameter"))


def constant_value(
    tensor: ir.TensorProtocol, hint: str, *, fixed: str | None = None, kind: str = "constant"
) -> ir.Value:
    """Return a value that holds a tensor, as an initialiser of a graph of its own."""
    value = ir.Value(
        name=hint, const_value=tensor, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy())
    )
    # Inference and the rules ask whether a value is an initialiser, which it is only in a graph.
    ir.Graph([], [], nodes=[], initializers=[value], name="constant")
    value.meta[MADE] = Made(next_order(), users_line(), None, hint, kind=kind, fixed=fixed)
    if fixed is not None:
        value.meta[FIXED] = fixed
    return value


def is_foldable(value: ir.Value | None) -> bool:
    """Tell whether what is computed of this value may be computed at once: it is a constant without a name."""
    if value is None:
        return True
    made: Made | None = value.meta.get(MADE) if value.producer() is None else None
    return made is not None and made.kind == "constant" and made.fixed is None


def tensor_from(given: Any, wanted: ir.DataType | None, what: str, *, beside: bool = False) -> ir.TensorProtocol:
    """Return a tensor of what the user gave, of the `wanted` element type if there is one; or raise a BuildError.

    With `beside`, another value is of that type, and could be cast instead."""
    if isinstance(given, onnx.TensorProto):
        given = ir.serde.deserialize_tensor(given)
    # Whether something is a tensor of onnx-ir is a slow question, so it comes after the frequent answers.
    if not isinstance(given, np.ndarray | np.generic | int | float | list | tuple) and isinstance(
        given, ir.TensorProtocol
    ):
        if wanted is None or given.dtype == wanted:
            return given
        given = given.numpy()
    if isinstance(given, Value) or (isinstance(given, list | tuple) and any(isinstance(e, Value) for e in given)):
        raise BuildError(f"{what} holds a value that is computed when the model runs: join values with op.Concat.")
    try:
        array = np.asarray(given)
    except ValueError:
        raise BuildError(f"{what} is {_shown(given)}, whose rows have different lengths.") from None
    plain = not isinstance(given, np.ndarray | np.generic)
    if array.dtype.kind in "OUST":
        if array.size and not all(isinstance(each, str | bytes) for each in array.reshape(-1).tolist()):
            raise BuildError(f"{what} is {_shown(given)}, which is neither a number nor an array{call_it(given)}.")
        natural = ir.DataType.STRING
    elif plain:
        natural = _NATURAL.get(array.dtype.kind, ir.DataType.FLOAT)
        if array.size == 0 and wanted is not None:
            natural = wanted
    else:
        try:
            natural = ir.DataType.from_numpy(array.dtype)
        except TypeError:
            raise BuildError(f"{what} is an array of {array.dtype}, which ONNX does not have.") from None
    return _converted(array, natural, natural if wanted is None else wanted, given, what, beside)


def _converted(
    array: Array, natural: ir.DataType, wanted: ir.DataType, given: Any, what: str, beside: bool
) -> ir.TensorProtocol:
    if wanted == ir.DataType.STRING or natural == ir.DataType.STRING:
        if wanted != natural:
            is_shape = wanted in INTEGERS and isinstance(given, tuple | list) and any(isinstance(e, str) for e in given)
            advice = (
                ". A size with a name is a number only when the model runs: take it from op.Shape, or let a Reshape "
                "find it (-1, or 0 to keep it)"
            )
            raise BuildError(
                f"{what} is {_shown(given)}, and must be {dtype_text(wanted)} here{advice if is_shape else ''}."
            )
        texts = [each if isinstance(each, bytes) else str(each).encode() for each in array.reshape(-1).tolist()]
        return ir.StringTensor(texts, shape=ir.Shape(array.shape))
    if natural != wanted and not goes(natural, wanted):
        told = dtype_text(natural)
        advice = f', or cast the other value: op.Cast(x, to="{told}")' if beside else ""
        raise BuildError(f"{what} is {_shown(given)}, {_a(told)}, and must be {dtype_text(wanted)} here{advice}.")
    target = wanted.numpy()
    if wanted in INTEGERS and array.size:
        low, high = int(array.min()), int(array.max())
        least, most = _limits(wanted)
        if low < least or high > most:
            raise BuildError(f"{what} is {_shown(given)}, which {dtype_text(wanted)} ({least} to {most}) cannot hold.")
    return ir.Tensor(array.astype(target), dtype=wanted)


def _limits(dtype: ir.DataType) -> tuple[int, int]:
    bits = round(dtype.itemsize * 8)
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.is_signed() else (0, 2**bits - 1)


def goes(natural: ir.DataType, wanted: ir.DataType) -> bool:
    """Tell whether numbers of one type can stand for those of the other: ints for floats, but never floats for ints."""
    if natural in INTEGERS:
        return wanted in INTEGERS or wanted in FLOATS
    return natural in FLOATS and wanted in FLOATS


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def _shown(given: Any) -> str:
    if isinstance(given, np.ndarray) and given.size > 16:
        return f"an array of {given.dtype} {given.shape}"
    text = re.sub(r"\s+", " ", repr(given))
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_shape(given: Any) -> bool:
    """Tell whether this can be the shape of a parameter: sizes that are numbers."""
    return isinstance(given, list | tuple) and all(isinstance(size, int | np.integer) and size >= 0 for size in given)


def check_name(name: Any) -> None:
    """Raise a BuildError unless this can be the name of a value."""
    if not isinstance(name, str) or not name or not _is_unicode(name):
        raise BuildError(f"{name!r} cannot be a name: a name is a text that is not empty.")


def _is_unicode(text: str) -> bool:
    """Tell whether a text can be written to a file: it has no half of a pair of surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
