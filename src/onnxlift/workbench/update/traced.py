"""Arrays that know which numbers of which stored tensors they are made of.

Steps, idioms and operators make constants from others with numpy: they transpose, cut, join, put gates in another
order. Each of these arrays carries a `Trace`, the numpy functions that have made it, as long as they only *move*
numbers. To find out where a number comes from, the same functions are called once more, on the positions of the numbers
instead of the numbers. So no step has to say how it is undone, and none can forget to.

    np.concatenate([a.T, b[:2]])   ->   [[0, 2], [1, 3], [4, 5], [6, 7]], if a has positions 0 to 3 and b 4 to 9

Positions are computed only for a weight that has changed and was moved, one weight at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod
from typing import Any, BinaryIO

import numpy as np
import onnx_ir as ir

Array = np.ndarray[Any, Any]

NOWHERE = -1
"""The position of a number that comes from no stored tensor, such as a zero that a step has put in."""

_MOVING_FUNCTIONS = frozenset(
    {
        np.broadcast_to,
        np.concatenate,
        np.copy,
        np.expand_dims,
        np.flip,
        np.moveaxis,
        np.ravel,
        np.repeat,
        np.reshape,
        np.roll,
        np.rot90,
        np.split,
        np.array_split,
        np.squeeze,
        np.stack,
        np.swapaxes,
        np.take,
        np.tile,
        np.transpose,
    }
)
_MOVING_METHODS = (
    "__getitem__",
    "copy",
    "flatten",
    "ravel",
    "repeat",
    "reshape",
    "squeeze",
    "swapaxes",
    "take",
    "transpose",
)


CHUNK = 1 << 24
_SERIALS = count(1)


class NotMovedError(Exception):
    """An array was computed from stored tensors in another way than by moving their numbers."""


@dataclass(frozen=True, eq=False)
class Trace:
    """How an array was made: by `function(*arguments, **options)`, or it is the numbers of `source`.

    The traces of other arrays stand for them among the arguments. If the function gives several arrays, it is the one
    at `index`."""

    function: Callable[..., Any] | None = None
    arguments: Sequence[Any] = ()
    options: dict[str, Any] = field(default_factory=dict)
    index: int | None = None
    source: TracedTensor | None = None
    moves: bool = True

    @property
    def is_turned(self) -> bool:
        """Tell whether the array is a whole tensor with its axes in reverse: no positions are needed to see that."""
        inner = self.arguments[0] if self.function is _turned and len(self.arguments) == 1 else None
        return isinstance(inner, Trace) and inner.source is not None

    def sources(self) -> dict[TracedTensor, None]:
        """Return the tensors that the array was made from, in the order in which they are read."""
        found: dict[TracedTensor, None] = {}
        waiting, seen = [self], {id(self)}
        while waiting:
            trace = waiting.pop()
            if trace.source is not None:
                found[trace.source] = None
            for each in _traces((*trace.arguments, *trace.options.values())):
                if id(each) not in seen:
                    seen.add(id(each))
                    waiting.append(each)
        return found

    def positions(self, starts: dict[TracedTensor, int]) -> Array:
        """Return the position of each number, those of each source counted from its start. Raises NotMovedError."""
        if self.source is not None:
            start, shape = starts[self.source], self.source.shape.numpy()
            return np.arange(start, start + prod(shape)).reshape(shape)
        if not self.moves or self.function is None:
            raise NotMovedError(getattr(self.function, "__name__", "a function"))
        arguments = [_positions_in(each, starts) for each in self.arguments]
        options = {name: _positions_in(each, starts) for name, each in self.options.items()}
        result = self.function(*arguments, **options)
        return np.asarray(result if self.index is None else result[self.index])


def _positions_in(argument: Any, starts: dict[TracedTensor, int]) -> Any:
    """Return an argument with positions in the place of numbers. Integers are indices and sizes, and stay."""
    match argument:
        case Trace():
            return argument.positions(starts)
        case list() | tuple():
            return type(argument)([_positions_in(each, starts) for each in argument])
        case np.ndarray() if argument.dtype.kind not in "iub":
            return np.full(argument.shape, NOWHERE)
    return argument


def _traces(argument: Any) -> Iterator[Trace]:
    if isinstance(argument, Trace):
        yield argument
    elif isinstance(argument, list | tuple):
        for each in argument:
            yield from _traces(each)


class TracedTensor(ir.TensorProtocol):
    """A tensor whose `numpy()` is traced: all that numpy makes of it tells that it comes from here."""

    def __init__(self, inner: ir.TensorProtocol, number: int = 0) -> None:
        self.inner = inner
        self.number = number
        self.serial = next(_SERIALS)
        """A number that grows with each tensor that is made."""
        """Its place among the tensors of the file, if it is one of these."""
        self.name = inner.name
        self.doc_string = inner.doc_string
        self.dtype = inner.dtype
        self.shape: ir.Shape = ir.Shape(inner.shape.numpy())
        self.metadata_props = dict(inner.metadata_props or {})
        self.meta: dict[str, Any] = {}

    @property
    def raw(self) -> ir.TensorProtocol:
        return self.inner

    @property
    def size(self) -> int:
        return prod(self.shape.numpy())

    @property
    def nbytes(self) -> int:
        return self.inner.nbytes

    def plain(self) -> Array:
        """Return the numbers without a trace."""
        return np.asarray(self.inner.numpy())

    def numpy(self) -> Array:
        return with_trace(self.plain(), Trace(source=self))

    def tobytes(self) -> bytes:
        return self.inner.tobytes()

    def tofile(self, file: BinaryIO) -> None:
        file.write(self.tobytes())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.plain().__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self.plain().__dlpack_device__()

    def __repr__(self) -> str:
        return f"TracedTensor<{self.dtype},{self.shape}>(name={self.name!r})"


def with_trace(array: Array, trace: Trace | None) -> Array:
    """Return the array with its trace."""
    traced: Any = array.view(_TRACED)
    traced.trace = trace
    found: Array = traced
    return found


def trace_of(array: Array) -> Trace | None:
    """Return the trace of an array; None if nobody knows where its numbers come from."""
    found = getattr(array, "trace", None)
    return found if isinstance(found, Trace) else None


def _plain(argument: Any) -> Any:
    """Return an argument with arrays in the place of traced ones."""
    match argument:
        case list() | tuple() if type(argument) in (list, tuple):
            return type(argument)([_plain(each) for each in argument])
        case dict():
            return {name: _plain(each) for name, each in argument.items()}
    return argument.view(np.ndarray) if isinstance(argument, _TRACED) else argument


def _recorded(argument: Any) -> Any:
    """Return an argument with traces in the place of traced arrays."""
    match argument:
        case list() | tuple() if type(argument) in (list, tuple):
            return type(argument)([_recorded(each) for each in argument])
        case dict():
            return {name: _recorded(each) for name, each in argument.items()}
    return argument.trace or argument.view(np.ndarray) if isinstance(argument, _TRACED) else argument


def _call(function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any], moves: bool) -> Any:
    """Call a function of numpy on plain arrays, and give what it returns a trace."""
    result = function(*map(_plain, arguments), **_plain(options))
    made = {"function": function, "arguments": _recorded(tuple(arguments)), "options": _recorded(options)}
    if isinstance(result, np.ndarray):
        return with_trace(result, Trace(**made, moves=moves)) if moves or result.dtype.kind != "b" else result
    if isinstance(result, list | tuple) and moves:
        return [with_trace(each, Trace(**made, index=index)) for index, each in enumerate(result)]
    return result


def _array_function(self: Array, function: Any, types: Any, arguments: Any, options: Any) -> Any:
    return _call(function, arguments, options, function in _MOVING_FUNCTIONS)


def _array_ufunc(self: Array, ufunc: Any, method: str, *arguments: Any, **options: Any) -> Any:
    if "out" in options:
        return getattr(ufunc, method)(*map(_plain, arguments), **_plain(options))
    return _call(ufunc if method == "__call__" else getattr(ufunc, method), arguments, options, False)


def _moving_method(name: str) -> Callable[..., Any]:
    """Return the method of arrays of this name, which notes what it does."""
    function = getattr(np.ndarray, name)

    def method(self: Array, *arguments: Any, **options: Any) -> Any:
        return _call(function, (self, *arguments), options, True)

    return method


def _turned(array: Array) -> Array:
    return array.transpose()


def _same(array: Array) -> Array:
    return array


def _astype(self: Array, dtype: Any, *arguments: Any, **options: Any) -> Array:
    """Convert the numbers to another type. They stay where they are, so positions need no conversion."""
    result = self.view(np.ndarray).astype(dtype, *arguments, **options)
    trace = trace_of(self)
    return result if trace is None else with_trace(result, Trace(_same, (trace,)))


_TRACED: Any = type(
    "TracedArray",
    (np.ndarray,),
    {
        "trace": None,
        "T": property(lambda array: _call(_turned, (array,), {}, True)),
        "astype": _astype,
        "__array_function__": _array_function,
        "__array_ufunc__": _array_ufunc,
        **{name: _moving_method(name) for name in _MOVING_METHODS},
    },
)


def same_bits(one: Array, other: Array) -> bool:
    """Tell whether two arrays have the same shape, type and bits. They are compared some rows at a time."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.nbytes <= CHUNK or not one.ndim:
        return one.tobytes() == other.tobytes()
    rows = max(1, CHUNK * len(one) // one.nbytes)
    return all(one[i : i + rows].tobytes() == other[i : i + rows].tobytes() for i in range(0, len(one), rows))
