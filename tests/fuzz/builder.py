"""A graph that grows node by node, each run as it is added, so that every value has a known type, shape and content.

An operator template asks for values that suit it, adds nodes, and need not know what they give: ONNX Runtime does. A
node that it refuses, or whose result is useless (NaN, huge), is not added, and the template gives up.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper

from fuzz.names import Names
from fuzz.runtime import Array, RefusedError, captured_names, run_nodes

LARGEST_SIZE = 4096
LARGEST_FLOAT = {np.dtype(np.float16): 200.0}
FLOAT32 = np.dtype(np.float32)


class UnsuitableError(Exception):
    """A template cannot be used here: no value suits it, or what it made is of no use."""


@dataclass(frozen=True, eq=False)
class Value:
    """A named tensor with what it holds for the first set of inputs."""

    name: str
    array: Array
    is_constant: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.array.dtype)

    @property
    def kind(self) -> str:
        return self.dtype.kind

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def rank(self) -> int:
        return self.array.ndim


@dataclass(frozen=True)
class Input:
    """An input of the graph. `dims` are sizes or names of symbolic ones; `make` gives data of a shape."""

    value: Value
    dims: tuple[int | str, ...]
    make: Callable[[tuple[int, ...]], Array]


@dataclass
class Builder:
    """A graph, or with an `outer` one the body of an If, Loop or Scan."""

    opset: int
    choose: random.Random
    """Decides the structure."""
    data: np.random.Generator
    """Fills tensors. Separate, so that a block can be repeated with other weights."""
    names: Names
    outer: Builder | None = None
    float_type: np.dtype[Any] = FLOAT32
    symbols: dict[str, int] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initialisers: dict[str, Value] = field(default_factory=dict)
    pool: list[Value] = field(default_factory=list)
    """The values that templates may use, oldest first."""
    known: dict[str, Array] = field(default_factory=dict)
    """What every named value of this graph holds."""

    # Values

    def pick(
        self,
        kinds: str = "f",
        *,
        ranks: Sequence[int] | None = None,
        where: Callable[[Value], bool] | None = None,
        empty: bool = False,
    ) -> Value:
        """A value of one of the numpy kinds, more often a recent one; perhaps without elements, if `empty`."""
        found = [
            v
            for v in self.pool
            if v.kind in kinds
            and (ranks is None or v.rank in ranks)
            and (empty or v.array.size)
            and (where is None or where(v))
        ]
        if not found:
            raise UnsuitableError
        return found[max(self.choose.randrange(len(found)) for _ in range(2))]

    def integers(self, low: int, high: int, shape: Sequence[int] = ()) -> Array:
        return self.data.integers(low, high, tuple(shape)).astype(np.int64)

    def floats(self, shape: Sequence[int] = (), dtype: np.dtype[Any] | None = None) -> Array:
        return np.asarray(self.data.standard_normal(tuple(shape))).astype(dtype or self.float_type)

    def like(self, value: Value, shape: Sequence[int]) -> Array:
        """Data of another shape, of the type of `value`; integers are small and not zero."""
        if value.kind == "f":
            return self.floats(shape, value.dtype)
        if value.kind == "b":
            return self.data.random(tuple(shape)) < 0.5
        return self.integers(1, 5, shape).astype(value.dtype)

    def constant(self, array: ArrayLike, role: str = "const") -> Value:
        """An initialiser, or at times the output of a Constant node."""
        array = np.asarray(array)
        if self.choose.random() < 0.3:
            node = helper.make_node("Constant", [], [self.names.value("Constant")], **self._constant_attribute(array))
            self.names.name_node(node)
            self.nodes.append(node)
            return self._remember(Value(node.output[0], array, True))
        value = self._remember(Value(self.names.parameter(role), array, True))
        self.initialisers[value.name] = value
        return value

    def _constant_attribute(self, array: Array) -> dict[str, Any]:
        if self.opset >= 12 and array.ndim < 2 and array.size and self.choose.random() < 0.5:
            if array.dtype == np.int64:
                return {"value_ints": array.tolist()} if array.ndim else {"value_int": int(array)}
            if array.dtype == np.float32:
                return {"value_floats": array.tolist()} if array.ndim else {"value_float": float(array)}
        return {"value": numpy_helper.from_array(array)}

    def operand(self, array: ArrayLike, role: str = "const") -> Value:
        """Mostly a constant, sometimes an input that is known only at run time."""
        array = np.asarray(array)
        if self.outer is None and self.choose.random() < 0.12:
            return self.add_input(array.shape, lambda _: array, role)
        return self.constant(array, role)

    def weight(self, shape: Sequence[int], role: str = "weight", dtype: np.dtype[Any] | None = None) -> Value:
        """A weight, at times one that another layer has already, or equal to one."""
        roll = self.choose.random()
        if roll < 0.12:
            twins = [v for v in self.initialisers.values() if v.shape == tuple(shape) and v.dtype == (dtype or v.dtype)]
            if twins and twins[0].kind == "f":
                return self.choose.choice(twins) if roll < 0.08 else self.constant(twins[0].array, role)
        array = self.floats(shape, dtype) * np.asarray(0.5, dtype or self.float_type)
        return self.operand(array, role)

    def add_input(self, dims: Sequence[int | str], make: Callable[[tuple[int, ...]], Array], role: str) -> Value:
        array = make(tuple(self.symbols.get(d, 0) if isinstance(d, str) else d for d in dims))
        value = self._remember(Value(self.names.input(role), array))
        self.inputs.append(Input(value, tuple(dims), make))
        return value

    def _remember(self, value: Value) -> Value:
        self.known[value.name] = value.array
        return value

    # Nodes

    def node(self, op_type: str, inputs: Sequence[Value | None], outputs: int = 1, **attributes: Any) -> list[Value]:
        """The outputs of a new node."""
        node = self.make_node(op_type, [v.name if v else "" for v in inputs], outputs, **attributes)
        return self.add([node], list(node.output))

    def one(self, op_type: str, *inputs: Value | None, **attributes: Any) -> Value:
        """The output of a new node that has one."""
        return self.node(op_type, inputs, **attributes)[0]

    def make_node(self, op_type: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> onnx.NodeProto:
        """A named node that is not part of the graph yet."""
        names = [self.names.value(op_type) for _ in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        node = helper.make_node(op_type, inputs, names, **given)
        self.names.name_node(node)
        return node

    def add(self, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> list[Value]:
        """Nodes that belong together, with those of their outputs that are tensors for others to use."""
        feeds = {name: self._lookup(name) for name in captured_names(nodes)}
        try:
            arrays = run_nodes(nodes, feeds, outputs, self.opset)
        except RefusedError as error:
            raise UnsuitableError(str(error)) from error
        if not all(isinstance(array, np.ndarray) and self._is_useful(array) for array in arrays):
            raise UnsuitableError
        values = [self._remember(Value(name, array)) for name, array in zip(outputs, arrays, strict=True)]
        self.nodes += nodes
        self.pool += values
        return values

    def _lookup(self, name: str) -> Array:
        builder: Builder | None = self
        while builder is not None:
            if name in builder.known:
                return builder.known[name]
            builder = builder.outer
        raise KeyError(name)

    def _is_useful(self, array: Array) -> bool:
        if array.size > LARGEST_SIZE or array.ndim > 6 or (array.size == 0 and self.choose.random() < 0.9):
            return False
        if array.dtype.kind == "f":
            limit = LARGEST_FLOAT.get(array.dtype, 1e4)
            return bool(np.all(np.abs(array) <= limit)) or (
                self.choose.random() < 0.02 and not np.isfinite(array).all() and array.dtype != np.float16
            )
        return array.dtype.kind in "biu" and (array.size == 0 or int(np.abs(array.astype(np.int64)).max()) < 2**31)

    # Bodies

    def body(self) -> Builder:
        """A builder for a subgraph that sees the values of this one."""
        return Builder(
            self.opset, self.choose, self.data, self.names, self, self.float_type, self.symbols, pool=self.pool[-8:]
        )

    def graph(self, name: str, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[Value]) -> onnx.GraphProto:
        """What has been built, as a graph with these outputs, whose types are given and whose shapes are not."""
        infos = [helper.make_tensor_value_info(v.name, element_type(v.array), None) for v in outputs]
        tensors = [numpy_helper.from_array(v.array, v.name) for v in self.initialisers.values()]
        return helper.make_graph(self.nodes, name, inputs, infos, tensors)


def element_type(array: Array) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def feeds_of(inputs: Sequence[Input], symbols: Mapping[str, int]) -> dict[str, Array]:
    """New data for inputs whose symbolic sizes are `symbols`."""
    return {i.value.name: i.make(tuple(symbols[d] if isinstance(d, str) else d for d in i.dims)) for i in inputs}
