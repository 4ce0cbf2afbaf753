"""The fields of operations as plain data: what JSON says is checked against their annotations.

A field is annotated with `str`, `bool`, `int`, `None`, `Array`, `Plain`, a union of these, `tuple[X, ...]` or
`Mapping[str, X]`. `Plain` is what an attribute or an argument may be: a number, a text, an array, or a list of these.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import numpy as np
import onnx_ir as ir

from onnxlift.errors import OnnxLiftError

from .arrays import Array, parse_array, type_name

MAX_DEPTH = 8


if TYPE_CHECKING:
    Plain = Any
else:

    class Plain:
        """The annotation of a field that may be a number, a text, None, an array, or a list of these."""


def decode(hint: Any, data: Any, where: str) -> Any:
    """Return what `data`, from JSON, says of a field of this annotation. `where` is the field, for messages."""
    if hint is Plain:
        return _plain(data, where)
    if hint is Array:
        if isinstance(data, Array):
            return data
        if isinstance(data, dict):
            return parse_array(data, where)
        raise OnnxLiftError(f"{where}: expected an array (dtype, shape, data), not {_kind(data)}.")
    if get_origin(hint) is tuple:
        if not isinstance(data, list | tuple):
            raise OnnxLiftError(f"{where}: expected a list, not {_kind(data)}.")
        return tuple(decode(get_args(hint)[0], each, f"{where}[{index}]") for index, each in enumerate(data))
    if get_origin(hint) is Mapping:
        if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
            raise OnnxLiftError(f"{where}: expected an object, not {_kind(data)}.")
        return {key: decode(get_args(hint)[1], each, f"{where}.{key:.100}") for key, each in data.items()}
    if get_origin(hint) in (Union, types.UnionType):
        return _one_of(get_args(hint), data, where)
    if type(data) is not hint:
        raise OnnxLiftError(f"{where}: expected {_WORDS.get(hint, hint)}, not {_kind(data)}.")
    return data


def _one_of(hints: tuple[Any, ...], data: Any, where: str) -> Any:
    for hint in hints:
        if type(data) is hint:
            return data
    others = [hint for hint in hints if hint not in _WORDS]
    if others and data is not None:
        return decode(others[0], data, where)
    raise OnnxLiftError(f"{where}: expected {' or '.join(_WORDS.get(h, 'a list') for h in hints)}, not {_kind(data)}.")


_WORDS = {str: "a text", bool: "true or false", int: "a whole number", type(None): "nothing", float: "a number"}


def _kind(data: Any) -> str:
    if isinstance(data, dict):
        return "an object"
    return "a list" if isinstance(data, list | tuple) else f"{data!r:.60}"


def _plain(data: Any, where: str, depth: int = 0) -> Any:
    if isinstance(data, dict):
        return parse_array(data, where)
    if isinstance(data, list | tuple):
        if depth > MAX_DEPTH:
            raise OnnxLiftError(f"{where}: lists are nested more than {MAX_DEPTH} deep.")
        return tuple(_plain(each, f"{where}[{index}]", depth + 1) for index, each in enumerate(data))
    if data is None or isinstance(data, bool | int | float | str | Array):
        return data
    raise OnnxLiftError(f"{where}: expected a number, a text, a list or an array, not {_kind(data)}.")


def encode(value: Any) -> Any:
    """Return a field as plain data for JSON."""
    if isinstance(value, Array):
        return value.plain()
    if isinstance(value, float) and not math.isfinite(value):
        return Array.of(np.float64(value), ir.DataType.DOUBLE).plain()
    if isinstance(value, tuple):
        return [encode(each) for each in value]
    if isinstance(value, Mapping):
        return {key: encode(each) for key, each in value.items()}
    return value


def frozen(value: Any, where: str) -> Any:
    """Return what a caller in Python gives as plain data that does not change: arrays are copied, lists are tuples."""
    if isinstance(value, ir.TensorProtocol):
        value = value.numpy()
    if isinstance(value, np.ndarray | np.generic):
        return Array.of(value)
    if isinstance(value, list | tuple):
        return tuple(frozen(each, where) for each in value)
    if isinstance(value, Mapping):
        return {str(key): frozen(each, f"{where}.{key}") for key, each in value.items()}
    if isinstance(value, ir.DataType):
        return type_name(value)
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return type_name(ir.DataType.from_numpy(np.dtype(value)))
    if value is None or isinstance(value, bool | int | float | str | Array):
        return value
    raise OnnxLiftError(f"{where}: expected a number, a text, a list or an array, not {type(value).__name__}.")
