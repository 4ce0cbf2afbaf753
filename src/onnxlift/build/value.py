"""The handle of a value: what operators take and give. Python's operators and indexing are written in ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import type_of

from .errors import BuildError, at_the_users_line
from .state import FIXED, made_of


def _operator(name: str, *, reflected: bool = False) -> Callable[[Value, Any], Value]:
    @at_the_users_line
    def apply(self: Value, other: Any) -> Value:
        from .arithmetic import BINARY

        return BINARY[name](other, self) if reflected else BINARY[name](self, other)

    return apply


def _short(given: Any) -> str:
    return "array" if isinstance(given, np.ndarray) else repr(given)


class Value:
    """A value of the model that is being built: it has a type and a name, and a number only when the model runs.

    `==` and `!=` tell whether two handles are the same one, so that values can be keys: op.Equal compares numbers, and
    to compare with a number in Python is an error."""

    __slots__ = ("__weakref__", "_value")
    __array_ufunc__ = None  # let `array + value` come here
    __hash__ = object.__hash__

    def __init__(self, value: ir.Value) -> None:
        self._value = value

    @property
    def name(self) -> str:
        """The name of the value. Names that were not given may get a number in the model, so that each is unique."""
        return self._value.meta.get(FIXED) or self._value.name or ""

    def rename(self, name: str) -> Self:
        """Give the value this name in the model, and return it."""
        from .tensors import check_name

        at_the_users_line(check_name)(name)
        self._value.meta[FIXED] = name
        if self._value.producer() is None:
            made_of(self._value).fixed = name
        return self

    @property
    def dtype(self) -> ir.DataType | None:
        """The element type; None if it is not known. Of a sequence or an optional, that of the tensors inside."""
        return type_of(self._value).dtype

    @property
    def shape(self) -> tuple[int | str, ...] | None:
        """The sizes, each a number or a name; None if not even the rank is known.

        Sizes of which nothing is known have a name as well, which no other size has."""
        return shape_of(self._value)

    @property
    def rank(self) -> int | None:
        """The number of axes; None if it is not known."""
        shape = self.shape
        return None if shape is None else len(shape)

    @property
    def type(self) -> ir.TypeProtocol | None:
        """The type as onnx-ir has it, which also tells sequences and optionals."""
        return self._value.type

    if not TYPE_CHECKING:  # type checkers know by themselves what a value does not have

        @at_the_users_line
        def __getattr__(self, name):
            from .mistaken import no_member

            raise AttributeError(name) if name.startswith("_") else no_member(self, name)

    @at_the_users_line
    def __eq__(self, other: object) -> bool:
        if isinstance(other, int | float | np.ndarray | np.generic):
            raise BuildError(
                f"{self!r} has no numbers until the model runs: compare with op.Equal(x, {_short(other)})."
            )
        return self is other

    def __repr__(self) -> str:
        return f"<{self.name}: {type_of(self._value)}>"

    __add__, __radd__ = _operator("+"), _operator("+", reflected=True)
    __sub__, __rsub__ = _operator("-"), _operator("-", reflected=True)
    __mul__, __rmul__ = _operator("*"), _operator("*", reflected=True)
    __truediv__, __rtruediv__ = _operator("/"), _operator("/", reflected=True)
    __floordiv__, __rfloordiv__ = _operator("//"), _operator("//", reflected=True)
    __mod__, __rmod__ = _operator("%"), _operator("%", reflected=True)
    __pow__, __rpow__ = _operator("**"), _operator("**", reflected=True)
    __matmul__, __rmatmul__ = _operator("@"), _operator("@", reflected=True)
    __and__, __rand__ = _operator("&"), _operator("&", reflected=True)
    __or__, __ror__ = _operator("|"), _operator("|", reflected=True)
    __xor__, __rxor__ = _operator("^"), _operator("^", reflected=True)
    __lt__, __le__, __gt__, __ge__ = _operator("<"), _operator("<="), _operator(">"), _operator(">=")

    @at_the_users_line
    def __neg__(self) -> Value:
        from .arithmetic import call

        return call("Neg", self)

    def __pos__(self) -> Value:
        return self

    @at_the_users_line
    def __abs__(self) -> Value:
        from .arithmetic import call

        return call("Abs", self)

    @at_the_users_line
    def __invert__(self) -> Value:
        from .arithmetic import invert

        return invert(self)

    @at_the_users_line
    def __getitem__(self, index: Any) -> Value:
        from .indexing import take

        return take(self, index)

    @at_the_users_line
    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise BuildError(
            f"a value is never changed: make a new one of {self!r}, with op.ScatterND, op.Where or op.Concat."
        )

    @at_the_users_line
    def __bool__(self) -> bool:
        raise BuildError(
            f"{self!r} is neither true nor false until the model runs: use build.if_, op.Where, or `&` and `|` for "
            "`and` and `or`."
        )

    @at_the_users_line
    def __len__(self) -> int:
        raise BuildError(f"{self!r} has no length until the model runs: see its shape, or take op.Shape.")

    @at_the_users_line
    def __iter__(self) -> NoReturn:
        raise BuildError(
            f"{self!r} cannot be gone through until the model runs: index it, split it (op.Split), or use build.loop."
        )

    @at_the_users_line
    def __contains__(self, item: Any) -> bool:
        raise BuildError(f"what is in {self!r} is not known until the model runs: compare with op.Equal.")

    def _no_number(self, *_: Any, **__: Any) -> NoReturn:
        raise BuildError(f"{self!r} has no numbers until the model runs: make a model of it (build.model) and call it.")

    __float__ = __int__ = __index__ = __complex__ = __array__ = at_the_users_line(_no_number)
