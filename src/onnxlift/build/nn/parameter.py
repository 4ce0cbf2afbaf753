"""Parameters and buffers: the weights of layers, which operators take like other values."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxlift.build import init as initialisers
from onnxlift.build import state, tensors
from onnxlift.build.errors import BuildError, at_the_users_line
from onnxlift.build.init import Initialiser
from onnxlift.build.types import Array, Dtype, data_type, dtype_text
from onnxlift.build.value import Value
from onnxlift.ir.graph.types import FLOATS

from .naming import tree

if TYPE_CHECKING:
    from .module import Module


class Parameter(Value):
    """A weight of a module: it is made of a shape, `nn.Parameter((64, 10))`, or of an array.

    It is called by its place among the modules (`layers.0.weight`). Its numbers come from `init`, the seed that was in
    force when it was made, and that name, whenever they are needed, until `data` is set."""

    is_buffer = False

    @at_the_users_line
    def __init__(
        self,
        data: Sequence[int] | Array,
        *,
        dtype: Dtype | None = None,
        init: Initialiser | None = None,
        name: str | None = None,
    ) -> None:
        if isinstance(data, Value | str):
            raise BuildError(f"the parameter is made of {data!r}, and must be made of a shape or an array.")
        self._data: Array | None = None
        if isinstance(data, list | tuple):
            if not tensors.is_shape(data):
                raise BuildError(f"the shape of the parameter is {data!r}: write sizes, such as (64, 10), or an array.")
            self._shape = tuple(int(size) for size in data)
            self._dtype = data_type(dtype or "float32")
        else:
            array = np.asarray(data)
            self._shape, self._dtype = array.shape, data_type(dtype or array.dtype)
            self._data = _cast(array, self._dtype)
        self._init = init or initialisers.zeros()
        self._seed = state.seed()
        self._name = name
        self._stream: str | None = None
        self._owner: tuple[Module, str] | None = None
        self._values: dict[str, ir.Value] = {}

    @property
    def dtype(self) -> ir.DataType:
        """The element type."""
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return self._shape

    @property
    def type(self) -> ir.TypeProtocol:
        """The type as onnx-ir has it."""
        return ir.TensorType(self._dtype)

    @property
    def name(self) -> str:
        """The name: the place among the modules."""
        found = tree()
        if found is not None and self in found.parameters:
            return found.parameters[self]
        if self._owner is None:
            return self._name or "parameter"
        module, name = self._owner
        return f"{module.path}.{name}" if module.path else name

    def rename(self, name: str) -> NoReturn:
        """Raise an error: a parameter is called by its place among the modules."""
        raise BuildError(f"the parameter {self.name} is called by its place among the modules, and not {name!r}.")

    def numel(self) -> int:
        """Return how many numbers it has."""
        return prod(self._shape)

    @property
    def data(self) -> Array:
        """The numbers. They can be set to an array of the same shape, also after a model was built."""
        return self.numpy()

    @data.setter
    def data(self, array: Any) -> None:
        self.load(array)

    @at_the_users_line
    def load(self, array: Any) -> None:
        """Take the numbers of an array of the same shape."""
        found = to_array(array)
        if found.shape != self._shape:
            raise BuildError(f"the parameter {self.name} is {self._shape}, and the array {found.shape}.")
        if not castable(found, self._dtype):
            raise BuildError(
                f"the parameter {self.name} is {dtype_text(self._dtype)}, and the array {found.dtype}: cast it first."
            )
        self._data = _cast(found, self._dtype)

    @property
    def init(self) -> Initialiser:
        """What makes the numbers."""
        return self._init

    @init.setter
    def init(self, init: Initialiser) -> None:
        self.initialise(init)

    @at_the_users_line
    def initialise(self, init: Initialiser | None = None, *, seed: int | None = None) -> None:
        """Make the numbers anew: by `init`, else as before, with this seed, else the same one."""
        if init is not None and not isinstance(init, Initialiser):
            raise BuildError(f"the parameter {self.name} is given {init!r} as init: write, say, init.kaiming_normal().")
        if seed is not None:
            initialisers.check_seed(seed)
            self._seed = int(seed)
        self._init = init or self._init
        self._data = None

    def numpy(self) -> Array:
        """Return the numbers as an array."""
        if self._data is not None:
            return self._data
        if self._stream is None:
            self._stream = self.name
        try:
            return self._init(self._shape, seed=self._seed, name=self._stream, dtype=self._dtype.numpy())
        except BuildError as error:
            raise BuildError(f"the parameter {self._stream} of {self._init!r}: {error.text}", error.line) from None

    @at_the_users_line
    def to(self, dtype: Dtype) -> None:
        """Change the element type, and round the numbers."""
        self._dtype = data_type(dtype)
        if self._data is not None:
            self._data = _cast(self._data, self._dtype)
        self._values.clear()

    def place(self, path: str) -> None:
        """Note the name of the parameter in the model, which decides its random numbers, unless it has some already."""
        if self._stream is None:
            self._stream = path

    # A value of the model is made for each name that the parameter has: one, unless its module is a part of several.
    @property
    def _value(self) -> ir.Value:  # type: ignore[override]
        found = tree()
        if found is None:
            around = state.scopes().path
            path = f"{around}.{self.name}" if around else self.name
        elif self in found.parameters:
            path = found.parameters[self]
        else:
            raise BuildError(
                f"the parameter {self.name}, {dtype_text(self._dtype)} {self._shape}, belongs to no module of "
                f"{type(found.root).__name__}: make it an attribute of one, in a list as nn.ParameterList."
            )
        if path not in self._values:
            self.place(path)
            with state.outside_scopes():
                self._values[path] = tensors.parameter(path, self._shape, self._dtype, make=self.numpy)._value
        return self._values[path]

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        copy: Parameter = type(self).__new__(type(self))
        memo[id(self)] = copy
        copy._shape, copy._dtype, copy._data = self._shape, self._dtype, self._data
        copy._init, copy._seed, copy._name = self._init, self._seed, self._name
        copy._stream, copy._owner, copy._values = None, None, {}
        return copy

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.name}: {dtype_text(self._dtype)} {self._shape}>"


class Buffer(Parameter):
    """Numbers of a module that training does not learn, such as a running mean."""

    is_buffer = True


def to_array(given: Any) -> Array:
    """Return an array of what may be a tensor of torch as well."""
    if hasattr(given, "detach"):
        given = given.detach().cpu()
        if "bfloat16" in str(given.dtype):
            return np.asarray(given.float().numpy()).astype(ml_dtypes.bfloat16)
        given = given.numpy()
    return np.asarray(given)


def castable(array: Array, dtype: ir.DataType) -> bool:
    """Tell whether the numbers of an array can be those of a parameter of this type."""
    try:
        given = ir.DataType.from_numpy(array.dtype)
    except TypeError:
        return False
    return given == dtype or tensors.goes(given, dtype)


def _cast(array: Array, dtype: ir.DataType) -> Array:
    if not castable(array, dtype):
        raise BuildError(f"the parameter is {dtype_text(dtype)}, and its array {array.dtype}.")
    return np.array(array, dtype=dtype.numpy())


def is_float(parameter: Parameter) -> bool:
    """Tell whether a parameter holds floats."""
    return parameter.dtype in FLOATS
