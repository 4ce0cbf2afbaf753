"""Attributes of a node, from what the user wrote: of the type that the schema wants, or an error that says which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import onnx
import onnx_ir as ir

from .errors import BuildError
from .tensors import tensor_from
from .types import ValueType, data_type
from .value import Value

Kind = ir.AttributeType

_NAMES_OF_TYPES = frozenset({"to", "dtype", "output_dtype", "stash_type", "softmax_precision"})
"""Attributes of ints that are element types: "float16" is written as its number."""

_SAID = {
    Kind.FLOAT: "a float",
    Kind.INT: "an int",
    Kind.STRING: "a text",
    Kind.TENSOR: "an array",
    Kind.GRAPH: "a graph",
    Kind.SPARSE_TENSOR: "a sparse tensor",
    Kind.TYPE_PROTO: "a type (build.sequence, build.optional)",
    Kind.FLOATS: "a list of floats",
    Kind.INTS: "a list of ints",
    Kind.STRINGS: "a list of texts",
    Kind.TENSORS: "a list of arrays",
    Kind.GRAPHS: "a list of graphs",
    Kind.TYPE_PROTOS: "a list of types",
}


@runtime_checkable
class GraphMaker(Protocol):
    """The body of a node, traced from a Python function."""

    captures: tuple[ir.Value, ...]

    @property
    def functions(self) -> tuple[ir.Function, ...]: ...

    def graph(self, name: str) -> ir.Graph: ...


class _Wrong(Exception):  # noqa: N818 - turned into a BuildError, which has more to say
    pass


class AttributeOfFunction:
    """An attribute of the function that is being made: its value is known where the function is called."""

    def __init__(self, name: str, kind: ir.AttributeType) -> None:
        self.name, self.kind = name, kind

    def _no_value(self, *others: Any) -> Any:
        if any(isinstance(each, Value) for each in others):
            return NotImplemented  # the value knows what to do
        raise BuildError(
            f"the attribute {self.name} has a value only where the function is called, and can only be passed on to "
            "operators in it."
        )

    __bool__ = __int__ = __float__ = __index__ = __len__ = __iter__ = _no_value
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _no_value
    __lt__ = __le__ = __gt__ = __ge__ = __floordiv__ = __rfloordiv__ = __mod__ = __pow__ = __getitem__ = _no_value


def attribute_from(name: str, kind: ir.AttributeType, given: Any, title: Callable[[], str]) -> ir.Attr:
    """Return the attribute, or raise a BuildError that says what is wanted."""
    if isinstance(given, AttributeOfFunction):
        if given.kind != kind:
            raise BuildError(
                f"{title()}: its attribute {name} is {_SAID[kind]}, and {given.name} of the function is "
                f"{_SAID[given.kind]}."
            )
        return ir.RefAttr(name, given.name, kind)
    try:
        return ir.Attr(name, kind, _FORMS[kind](name, given))
    except _Wrong:
        raise BuildError(f"{title()}: its attribute {name} is {_shown(given)}, and must be {_SAID[kind]}.") from None


def _shown(given: Any) -> str:
    if isinstance(given, Value):
        return f"{given!r}, a value that is computed when the model runs"
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _int(name: str, given: Any) -> int:
    if name in _NAMES_OF_TYPES and isinstance(given, str | type | np.dtype):
        return int(data_type(given))
    if isinstance(given, bool | int | np.integer | np.bool_):
        return int(given)
    raise _Wrong


def _float(name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float | np.integer | np.floating):
        raise _Wrong
    return float(given)


def _string(name: str, given: Any) -> str | bytes:
    if name in _NAMES_OF_TYPES and isinstance(given, str | type | np.dtype | ir.DataType):
        return data_type(given).name  # before opset 6, a Cast has the name of the type
    if isinstance(given, str):
        return given
    if isinstance(given, bytes):
        return given.decode("utf-8", "surrogateescape")
    raise _Wrong


def _tensor(name: str, given: Any) -> ir.TensorProtocol:
    if isinstance(given, Value):
        raise _Wrong
    return tensor_from(given, None, f"the attribute {name}")


def _graph(name: str, given: Any) -> ir.Graph:
    if isinstance(given, GraphMaker):
        return given.graph(name)
    if not isinstance(given, ir.Graph):
        raise _Wrong
    return given


def _type(name: str, given: Any) -> ir.TypeAndShape:
    if isinstance(given, ir.TypeAndShape):
        return given
    if isinstance(given, ValueType) and given.type is not None:
        return ir.TypeAndShape(given.type, given.shape)
    if isinstance(given, onnx.TypeProto):
        return ir.TypeAndShape(
            ir.serde.deserialize_type_proto_for_type(given), ir.serde.deserialize_type_proto_for_shape(given)
        )
    raise _Wrong


def _sparse(name: str, given: Any) -> Any:
    raise _Wrong


def _list(of: Callable[[str, Any], Any]) -> Callable[[str, Any], tuple[Any, ...]]:
    def convert(name: str, given: Any) -> tuple[Any, ...]:
        if isinstance(given, np.ndarray) and given.ndim == 1:
            given = given.tolist()
        if not isinstance(given, list | tuple | range):
            raise _Wrong
        return tuple(of(name, each) for each in given)

    return convert


_FORMS: Mapping[ir.AttributeType, Callable[[str, Any], Any]] = {
    Kind.FLOAT: _float,
    Kind.INT: _int,
    Kind.STRING: _string,
    Kind.TENSOR: _tensor,
    Kind.GRAPH: _graph,
    Kind.SPARSE_TENSOR: _sparse,
    Kind.TYPE_PROTO: _type,
    Kind.FLOATS: _list(_float),
    Kind.INTS: _list(_int),
    Kind.STRINGS: _list(_string),
    Kind.TENSORS: _list(_tensor),
    Kind.GRAPHS: _list(_graph),
    Kind.TYPE_PROTOS: _list(_type),
    Kind.SPARSE_TENSORS: _list(_sparse),
}
