"""RNN, LSTM and GRU. Weights are those of PyTorch, with its order of gates; the model gets them in ONNX's.

For each layer there are initialisers `W_l0`, `R_l0` and `B_l0`, as the operators want them. They are made of
`weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0` and `bias_hh_l0` when the numbers are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from onnxlift.build import op, state
from onnxlift.build.errors import BuildError, at_the_users_line
from onnxlift.build.tensors import parameter
from onnxlift.build.types import Array, Dtype
from onnxlift.build.value import Value

from .linear import between
from .module import Module, check_input, positive
from .parameter import Parameter
from .spelling import squeezed, unsqueezed


class _Recurrent(Module):
    operator: ClassVar[str]
    gates: ClassVar[tuple[int, ...]]
    """The gates in ONNX's order, each as its place in PyTorch's."""
    states: ClassVar[tuple[str, ...]] = ("h",)

    def _make(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        dtype: Dtype | None,
    ) -> None:
        positive(type(self).__name__, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        self._values: dict[object, Value] = {}
        default, rows = between(1 / sqrt(hidden_size)), len(self.gates) * hidden_size
        for layer in range(num_layers):
            size = input_size if layer == 0 else hidden_size * (1 + bidirectional)
            for suffix in self._suffixes(layer):
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, size), "weight_hh": (rows, hidden_size)}
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                for name, shape in shapes.items():
                    setattr(self, f"{name}_{suffix}", Parameter(shape, dtype=dtype, init=default))

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}", f"l{layer}_reverse"] if self.bidirectional else [f"l{layer}"]

    def weight(self, name: str) -> Parameter:
        """Return a weight by its name: `weight_ih_l0`."""
        found: Parameter = getattr(self, name)
        return found

    @at_the_users_line
    def set_onnx_weights(self, W: Array, R: Array, B: Array | None = None, *, layer: int = 0) -> None:
        """Give a layer the weights of ONNX's operator, in its order of gates: W, R and, with biases, B."""
        if not 0 <= layer < self.num_layers:
            self.refuse(f"there is no layer {layer}: it has {self.num_layers}.")
        if (B is None) == self.bias:
            self.refuse("B is missing, and it has biases." if B is None else "it has no biases, and B is given.")
        suffixes = self._suffixes(layer)
        names: dict[str, tuple[str, ...]] = {"W": ("weight_ih",), "R": ("weight_hh",), "B": ("bias_ih", "bias_hh")}
        for letter, given in {"W": W, "R": R, "B": B}.items():
            if given is None:
                continue
            array, parts = np.asarray(given), names[letter]
            rows, *columns = self.weight(f"{parts[0]}_{suffixes[0]}").shape
            shape = (len(suffixes), len(parts) * rows, *columns)
            if array.shape != shape:
                self.refuse(f"{letter} is {array.shape}, and must be {shape}, as the operator {self.operator} has it.")
            for suffix, weights in zip(suffixes, array, strict=True):
                for name, part in zip(parts, np.split(weights, len(parts)), strict=True):
                    gates = np.split(part, len(self.gates))
                    self.weight(f"{name}_{suffix}").data = np.concatenate([gates[at] for at in np.argsort(self.gates)])

    def _in_order(self, array: Array) -> Array:
        """Bring the gates, which lie along the first axis, in ONNX's order."""
        parts = np.split(array, len(self.gates))
        return np.concatenate([parts[gate] for gate in self.gates])

    def _stacked(self, names: Sequence[str], layer: int) -> Callable[[], Array]:
        """Return what makes the array of a layer: the weights of these names one below the other, by direction."""

        def make() -> Array:
            return np.stack(
                [
                    np.concatenate([self._in_order(self.weight(f"{name}_{suffix}").numpy()) for name in names])
                    for suffix in self._suffixes(layer)
                ]
            )

        return make

    def _tensor(self, letter: str, names: Sequence[str], layer: int) -> Value:
        """Return an initialiser of the operator; the same one if the layer is called again."""
        first = self.weight(f"{names[0]}_l{layer}")
        key = (state.scopes().path, letter, layer, first.dtype)
        if key not in self._values:
            shape = (1 + self.bidirectional, len(names) * first.shape[0], *first.shape[1:])
            make = self._stacked(names, layer)
            self._values[key] = parameter(f"{letter}_l{layer}", shape, first.dtype, make=make)
        return self._values[key]

    def _attributes(self) -> dict[str, Any]:
        return {}

    def _started(self, hx: Any) -> tuple[Value | None, ...]:
        """Return the initial states, or None for each that is zero."""
        if hx is None:
            return (None,) * len(self.states)
        given = hx if isinstance(hx, tuple | list) else (hx,)
        if len(given) != len(self.states) or not all(isinstance(each, Value) for each in given):
            told = "a value" if len(self.states) == 1 else "a pair of values, (h_0, c_0)"
            self.refuse(f"its initial state must be {told}.")
        return tuple(given)

    def _run(self, input: Value, hx: Any) -> tuple[Value, tuple[Value, ...]]:
        check_input(self, input, -1, self.input_size, "input_size", (2, 3))
        started, single = self._started(hx), input.rank == 2
        if single:
            input = unsqueezed(input, [1])
            started = tuple(None if each is None else unsqueezed(each, [1]) for each in started)
        elif self.batch_first:
            input = op.Transpose(input, perm=[1, 0, 2])
        directions = 1 + self.bidirectional
        for each in started:
            count = None if each is None or each.shape is None else each.shape[0]
            if isinstance(count, int) and count != self.num_layers * directions:
                self.refuse(
                    f"its initial state has {count} layers, and must have {self.num_layers * directions}: one for "
                    "each layer and direction."
                )
        ended: list[list[Value]] = [[] for _ in self.states]
        for layer in range(self.num_layers):
            part = slice(layer * directions, (layer + 1) * directions)
            input, states = self._layer(
                input, layer, [each if each is None or self.num_layers == 1 else each[part] for each in started]
            )
            for all_of, each in zip(ended, states, strict=True):
                all_of.append(each)
        last = tuple(each[0] if len(each) == 1 else op.Concat(*each, axis=0) for each in ended)
        if single:
            return squeezed(input, [1]), tuple(squeezed(each, [1]) for each in last)
        return op.Transpose(input, perm=[1, 0, 2]) if self.batch_first else input, last

    def _layer(self, input: Value, layer: int, started: Sequence[Value | None]) -> tuple[Value, Sequence[Value]]:
        biases = ("bias_ih", "bias_hh")
        made = getattr(op, self.operator)(
            input,
            self._tensor("W", ["weight_ih"], layer),
            self._tensor("R", ["weight_hh"], layer),
            self._tensor("B", biases, layer) if self.bias else None,
            None,
            *started,
            hidden_size=self.hidden_size,
            direction="bidirectional" if self.bidirectional else None,
            outputs=1 + len(self.states),
            **self._attributes(),
        )
        output, *states = made
        if not self.bidirectional:
            return squeezed(output, [1]), states
        return op.Reshape(op.Transpose(output, perm=[0, 2, 1, 3]), [0, 0, 2 * self.hidden_size]), states


class RNN(_Recurrent):
    """h = tanh(W x + b + R h + c) at each step."""

    operator, gates = "RNN", (0,)

    @at_the_users_line
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: Dtype | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise BuildError(f'RNN: nonlinearity is {nonlinearity!r}, and must be "tanh" or "relu".')
        self.nonlinearity = nonlinearity
        self._make(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype)

    def _attributes(self) -> dict[str, Any]:
        if self.nonlinearity == "tanh":
            return {}
        return {"activations": ["Relu"] * (1 + self.bidirectional)}

    @at_the_users_line
    def __call__(self, input: Value, hx: Value | None = None) -> tuple[Value, Value]:
        """Make the nodes, and return the states of all steps, and the last ones of each layer."""
        made: tuple[Value, Value] = Module.__call__(self, input, hx)
        return made

    def forward(self, input: Value, hx: Value | None = None) -> tuple[Value, Value]:
        """Return the states of all steps, and the last ones of each layer."""
        output, (last,) = self._run(input, hx)
        return output, last


class GRU(_Recurrent):
    """Gated recurrent units. PyTorch's order of gates is reset, update, new."""

    operator, gates = "GRU", (1, 0, 2)

    @at_the_users_line
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: Dtype | None = None,
    ) -> None:
        self._make(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype)

    def _attributes(self) -> dict[str, Any]:
        return {"linear_before_reset": 1}

    @at_the_users_line
    def __call__(self, input: Value, hx: Value | None = None) -> tuple[Value, Value]:
        """Make the nodes, and return the states of all steps, and the last ones of each layer."""
        made: tuple[Value, Value] = Module.__call__(self, input, hx)
        return made

    def forward(self, input: Value, hx: Value | None = None) -> tuple[Value, Value]:
        """Return the states of all steps, and the last ones of each layer."""
        output, (last,) = self._run(input, hx)
        return output, last


class LSTM(_Recurrent):
    """Long short-term memory. PyTorch's order of gates is input, forget, cell, output."""

    operator, gates, states = "LSTM", (0, 3, 1, 2), ("h", "c")

    @at_the_users_line
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        dtype: Dtype | None = None,
    ) -> None:
        if proj_size:
            raise BuildError("LSTM: proj_size is not 0, and ONNX's LSTM has no projection.")
        self._make(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype)

    @at_the_users_line
    def __call__(self, input: Value, hx: tuple[Value, Value] | None = None) -> tuple[Value, tuple[Value, Value]]:
        """Make the nodes, and return the outputs of all steps, and the last states and cells of each layer."""
        made: tuple[Value, tuple[Value, Value]] = Module.__call__(self, input, hx)
        return made

    def forward(self, input: Value, hx: tuple[Value, Value] | None = None) -> tuple[Value, tuple[Value, Value]]:
        """Return the outputs of all steps, and the last states and cells of each layer."""
        output, (hidden, cell) = self._run(input, hx)
        return output, (hidden, cell)
