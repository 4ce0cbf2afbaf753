"""Arrays as plain data: what an operation holds of numbers, and how JSON and scripts spell them."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.graph.types import INTEGERS
from onnxlift.ir.reading.tensors import bytes_needed

FEW = 64
"""Arrays of up to this many elements are written out as lists."""
MAX_RANK = 32
_NAMES = {"float": ir.DataType.FLOAT, "double": ir.DataType.DOUBLE, "float32": ir.DataType.FLOAT} | {
    "float64": ir.DataType.DOUBLE
}


def data_type(name: object) -> ir.DataType | None:
    """Return the element type of that name (`float32`, `int64`, `bfloat16`), None if there is none of that name."""
    if not isinstance(name, str):
        return None
    found = _NAMES.get(name.lower())
    if found is not None:
        return found
    known = ir.DataType.__members__.get(name.upper())
    return None if known == ir.DataType.UNDEFINED else known


def tensor_type(text: str) -> ir.DataType | None:
    """Return the element type that a schema calls `tensor(float)`."""
    return data_type(text.removeprefix("tensor(").removesuffix(")")) if text.startswith("tensor(") else None


def type_name(dtype: ir.DataType) -> str:
    """Return the name of an element type, as numpy and PyTorch spell it."""
    return {ir.DataType.FLOAT: "float32", ir.DataType.DOUBLE: "float64"}.get(dtype, dtype.name.lower())


@dataclass(frozen=True)
class Array:
    """A tensor that does not change: its element type, its shape, and its numbers in ONNX's raw encoding.

    Of strings, `data` is a tuple of them."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | tuple[bytes, ...]

    @property
    def type(self) -> ir.DataType:
        found = data_type(self.dtype)
        assert found is not None
        return found

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @classmethod
    def of(cls, array: npt.ArrayLike, dtype: ir.DataType | None = None) -> Array:
        """Return the numbers of `array`, in another element type if one is given."""
        given = np.asarray(array)
        if given.dtype.kind in "OUST":
            texts = [each if isinstance(each, bytes) else str(each).encode() for each in given.reshape(-1).tolist()]
            return cls("string", given.shape, tuple(texts))
        try:
            target = ir.DataType.from_numpy(given.dtype) if dtype is None else dtype
            numbers = given if dtype is None else _converted(given, target)
            data = ir.Tensor(np.ascontiguousarray(numbers).reshape(given.shape), dtype=target).tobytes()
        except (TypeError, ValueError, OverflowError) as error:
            raise OnnxLiftError(f"an array of {given.dtype} cannot be a tensor of ONNX: {error}") from error
        return cls(type_name(target), given.shape, data)

    def numpy(self) -> npt.NDArray[Any]:
        """Return the numbers as a new array."""
        if isinstance(self.data, tuple):
            texts = np.empty(len(self.data), object)
            texts[:] = [text.decode("utf-8", "surrogateescape") for text in self.data]
            return texts.reshape(self.shape)
        return np.array(ir.serde.TensorProtoTensor(self.proto("")).numpy())

    def proto(self, name: str) -> onnx.TensorProto:
        """Return the tensor as a proto of its own."""
        proto = onnx.TensorProto(name=name, data_type=int(self.type), dims=self.shape)
        if isinstance(self.data, tuple):
            proto.string_data.extend(self.data)
        else:
            proto.raw_data = self.data
        return proto

    def plain(self) -> dict[str, Any]:
        """Return it as plain data: a few numbers as nested lists, many as base64."""
        head = {"dtype": self.dtype, "shape": list(self.shape)}
        if isinstance(self.data, tuple):
            return {**head, "data": self.numpy().tolist()}
        if self.size <= FEW and self.type not in _WITHOUT_LISTS:
            numbers = self.numpy()
            if numbers.dtype.kind in "biu" or bool(np.isfinite(numbers.astype(np.float64)).all()):
                exact = numbers if numbers.dtype.kind in "biu" else numbers.astype(np.float64)
                return {**head, "data": exact.tolist()}
        return {**head, "base64": base64.b64encode(self.data).decode()}

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


def _converted(array: npt.NDArray[Any], dtype: ir.DataType) -> npt.NDArray[Any]:
    """Return the numbers in another type. Raises ValueError if whole numbers would not stay what they are."""
    with np.errstate(all="ignore"):
        converted = array.astype(dtype.numpy())
    is_whole = dtype in INTEGERS or dtype == ir.DataType.BOOL
    if is_whole and array.dtype.kind in "biuf" and not np.array_equal(converted.astype(array.dtype), array):
        raise ValueError(f"it holds numbers that {type_name(dtype)} does not have")
    return converted


_WITHOUT_LISTS = {ir.DataType.COMPLEX64, ir.DataType.COMPLEX128, ir.DataType.STRING}


def array(dtype: str, shape: object, data: object) -> Array:
    """Return an array of an element type that numpy may lack: `array("bfloat16", [2], [1.0, 2.0])`.

    `data` are numbers, strings, or bytes in ONNX's raw encoding."""
    known = data_type(dtype)
    if known is None:
        raise OnnxLiftError(f"there is no element type {dtype!r}; they are float32, int64, bfloat16 and so on.")
    sizes = _sizes(shape, "shape")
    if isinstance(data, bytes) and known != ir.DataType.STRING:
        return _of_bytes(known, sizes, data)
    return _of_list(known, sizes, data, "data")


def default_array(value: Any) -> Array:
    """Return numbers as an array of the type that ONNX uses most: bool, int64 or float32; texts as strings."""
    if isinstance(value, Array):
        return value
    try:
        given = np.array(value)
    except (ValueError, OverflowError) as error:
        raise OnnxLiftError(f"{shown(value)} is no array: {error}") from error
    kinds = {"b": ir.DataType.BOOL, "i": ir.DataType.INT64, "u": ir.DataType.INT64, "f": ir.DataType.FLOAT}
    if given.dtype.kind not in "biufU":
        raise OnnxLiftError(f"{shown(value)} is no array of numbers.")
    return Array.of(given, kinds.get(given.dtype.kind))


def shown(value: Any) -> str:
    """Return a value of an operation for a message."""
    return str(value) if isinstance(value, Array) else f"{list(value) if isinstance(value, tuple) else value!r:.80}"


def parse_array(plain: Mapping[str, Any], where: str) -> Array:
    """Return the array that plain data describes. `where` is the field that holds it, for messages."""
    if set(plain) - {"dtype", "shape", "data", "base64"} or "dtype" not in plain or "shape" not in plain:
        raise OnnxLiftError(f"{where}: an array has the keys dtype, shape, and data or base64.")
    dtype = data_type(plain["dtype"])
    if dtype is None:
        raise OnnxLiftError(f"{where}.dtype: {plain['dtype']!r:.100} is no element type, such as float32 or int64.")
    shape = _sizes(plain["shape"], f"{where}.shape")
    if ("data" in plain) == ("base64" in plain):
        raise OnnxLiftError(f"{where}: an array has its numbers either as data or as base64.")
    if "data" in plain:
        return _of_list(dtype, shape, plain["data"], f"{where}.data")
    try:
        raw = base64.b64decode(plain["base64"], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise OnnxLiftError(f"{where}.base64: it is not base64.") from error
    if dtype == ir.DataType.STRING:
        raise OnnxLiftError(f"{where}: strings are written as a list (data).")
    return _of_bytes(dtype, shape, raw, where)


def _sizes(shape: object, where: str) -> tuple[int, ...]:
    if not isinstance(shape, list | tuple) or not all(type(size) is int and 0 <= size < 2**40 for size in shape):
        raise OnnxLiftError(f"{where}: a shape is a list of whole numbers.")
    if len(shape) > MAX_RANK:
        raise OnnxLiftError(f"{where}: a tensor has at most {MAX_RANK} axes.")
    return tuple(shape)


def _of_bytes(dtype: ir.DataType, shape: tuple[int, ...], raw: bytes, where: str = "data") -> Array:
    needed = bytes_needed(dtype, shape)
    if len(raw) != needed:
        raise OnnxLiftError(f"{where}: {type_name(dtype)} {list(shape)} takes {needed:,} bytes, not {len(raw):,}.")
    return Array(type_name(dtype), shape, raw)


def _of_list(dtype: ir.DataType, shape: tuple[int, ...], data: object, where: str) -> Array:
    """Return the array that nested lists, or a flat one, hold. Their length is looked at before memory is taken."""
    flat = list(_flat(data, where))
    if len(flat) != math.prod(shape):
        raise OnnxLiftError(f"{where}: {list(shape)} takes {math.prod(shape):,} elements, not {len(flat):,}.")
    if dtype == ir.DataType.STRING:
        if not all(isinstance(each, str) for each in flat):
            raise OnnxLiftError(f"{where}: an array of strings holds strings only.")
        return Array("string", shape, tuple(each.encode("utf-8", "surrogateescape") for each in flat))
    if not all(isinstance(each, bool | int | float | complex) for each in flat):
        raise OnnxLiftError(f"{where}: an array of {type_name(dtype)} holds numbers only.")
    try:
        wide = np.array(flat, np.float64 if any(isinstance(each, float) for each in flat) else None)
        if not flat:
            wide = np.zeros(0, np.float64)
        if wide.dtype.kind not in "biufc":
            raise ValueError("some are larger than any of ONNX")
        return Array.of(wide.reshape(shape), dtype)
    except (OverflowError, ValueError, TypeError) as error:
        raise OnnxLiftError(f"{where}: these are no numbers of type {type_name(dtype)}: {error}") from error


def _flat(data: object, where: str, depth: int = 0) -> Any:
    if depth > MAX_RANK:
        raise OnnxLiftError(f"{where}: lists are nested more than {MAX_RANK} deep.")
    if isinstance(data, list | tuple):
        for each in data:
            yield from _flat(each, where, depth + 1)
    elif isinstance(data, np.ndarray):
        yield from data.reshape(-1).tolist()
    else:
        yield data
