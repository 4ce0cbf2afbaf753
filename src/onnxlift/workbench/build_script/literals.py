"""Numbers, texts, arrays, types and shapes as Python literals: the one way of a stranger's text into strings."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxlift.build.types import dtype_text
from onnxlift.ir.graph.types import FLOATS, INTEGERS
from onnxlift.lifting.code.render import quoted

__all__ = ["quoted"]

_NUMPY = frozenset("""FLOAT16 FLOAT DOUBLE INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL""".split())


def float_text(value: float, dtype: ir.DataType = ir.DataType.FLOAT) -> str:
    """Return the shortest text that gives the same number of this type again."""
    if math.isnan(value):
        return "np.nan"
    if math.isinf(value):
        return "np.inf" if value > 0 else "-np.inf"
    if dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        value = float(str(dtype.numpy().type(value)))
    mantissa, exponent, power = repr(float(value)).partition("e")
    if not exponent:
        return mantissa
    sign = "-" if power.startswith("-") else ""
    return f"{mantissa}e{sign}{power.lstrip('+-').lstrip('0')}"


def text_literal(value: str | bytes) -> str:
    """Return a text or bytes as a literal: a text wherever the bytes are one."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return ascii(value)
    try:
        value.encode()
    except UnicodeEncodeError:
        return ascii(value.encode("utf-8", "surrogateescape"))
    return quoted(value)


def is_plain(tensor: ir.TensorProtocol) -> bool:
    """Tell whether the numbers of a tensor can be written as a literal."""
    return tensor.dtype in FLOATS or tensor.dtype in INTEGERS or tensor.dtype in (ir.DataType.BOOL, ir.DataType.STRING)


def numbers_text(tensor: ir.TensorProtocol) -> str:
    """Return the elements of a tensor as a number, a text, or nested lists of these."""
    array = np.asarray(tensor.numpy())
    if tensor.dtype == ir.DataType.STRING:
        return _nested(array, text_literal)
    if tensor.dtype in FLOATS:
        return _nested(array.astype(np.float64), lambda value: float_text(value, tensor.dtype))
    if tensor.dtype == ir.DataType.BOOL:
        return _nested(array.astype(bool), repr)
    return _nested(array.astype(object), lambda value: str(int(value)))


def _nested(array: Any, text: Any) -> str:
    if array.ndim == 0:
        return str(text(array.item() if array.dtype != object else array[()]))
    return f"[{', '.join(_nested(part, text) if array.ndim > 1 else text(_item(part)) for part in array)}]"


def _item(element: Any) -> Any:
    return element.item() if isinstance(element, np.generic) else element


def typed_text(tensor: ir.TensorProtocol) -> str:
    """Return a tensor as an expression that keeps its element type and its shape: `np.array([1, 2], np.int32)`."""
    numbers, name = numbers_text(tensor), tensor.dtype.name
    if tensor.dtype == ir.DataType.STRING:
        text = f"np.array({numbers}, dtype=object)"
        return text if tensor.size else f"{text}.reshape({shape_of(tensor)})"
    if name not in _NUMPY or (tensor.size == 0 and len(tensor.shape) > 1):
        empty = f".reshape({shape_of(tensor)})" if tensor.size == 0 else ""
        numbers = f"np.zeros({shape_of(tensor)})" if empty else numbers
        return f"build.constant({numbers}, dtype={quoted(dtype_text(tensor.dtype))})"
    short = {"FLOAT": "float32", "DOUBLE": "float64", "BOOL": "bool_"}.get(name, name.lower())
    if not tensor.shape.numpy():
        return f"np.{short}({numbers})"
    return f"np.array({numbers}, np.{short if name != 'BOOL' else 'bool_'})"


def shape_of(tensor: ir.TensorProtocol) -> tuple[int, ...]:
    """Return the shape of a tensor as ints."""
    return tuple(int(size) for size in tensor.shape.numpy())


def keywords(named: Sequence[tuple[str, str]]) -> list[str]:
    """Return arguments by name; names that are none in Python in a dict behind two stars."""
    found = [f"{name}={text}" for name, text in named if is_name(name)]
    others = [f"{quoted(name)}: {text}" for name, text in named if not is_name(name)]
    return [*found, *([f"**{{{', '.join(others)}}}"] if others else [])]


def is_name(text: str) -> bool:
    """Tell whether a text can be the name of an argument as it is."""
    return bool(re.fullmatch(r"[A-Za-z_]\w{0,99}", text, re.ASCII)) and not keyword.iskeyword(text)


def type_text(type_: onnx.TypeProto) -> str:
    """Return a type as a call of the builder: `build.tensor("float32", ["n", 4])`."""
    return _type(type_, "build.tensor(")


def argument_text(type_: onnx.TypeProto) -> str:
    """Return a type as the arguments of `build.input`: `"float32", ["n", 4]`."""
    text = _type(type_, "")
    return text.removesuffix(")") if type_.HasField("tensor_type") else text


def _type(type_: onnx.TypeProto, tensor: str) -> str:
    kind = type_.WhichOneof("value")
    if kind == "tensor_type":
        return f"{tensor}{_tensor(type_.tensor_type)})"
    if kind in ("sequence_type", "optional_type"):
        inner = getattr(type_, kind).elem_type
        name = "sequence" if kind == "sequence_type" else "optional"
        if inner.HasField("tensor_type"):
            return f"build.{name}({_tensor(inner.tensor_type)})"
        return f"build.{name}({_type(inner, 'build.tensor(')})"
    if kind == "map_type":
        key, value = type_.map_type.key_type, type_.map_type.value_type.tensor_type.elem_type
        return f"build.map_of({_dtype(key)}, {_dtype(value)})"
    return "build.UNKNOWN"


def _dtype(element: int) -> str:
    return quoted(dtype_text(ir.DataType(element)))


def _tensor(tensor: onnx.TypeProto.Tensor) -> str:
    if not tensor.HasField("shape"):
        return _dtype(tensor.elem_type)
    return f"{_dtype(tensor.elem_type)}, [{', '.join(map(_size, tensor.shape.dim))}]"


def _size(dim: onnx.TensorShapeProto.Dimension) -> str:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return str(dim.dim_value)
    name = str(dim.dim_param)
    return "None" if not name or re.fullmatch(r"unk__\d+", name) else quoted(name)
