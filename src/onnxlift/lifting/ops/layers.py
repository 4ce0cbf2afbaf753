"""The layers that operator functions make of nodes, with their arguments and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.rewriting.idioms.parts.computed_weight import KEY, ComputedWeight

from .kinds import LayerKind

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Weight:
    """A tensor of the state dict. It is a constant of the model, read through `transform` if the layer stores it in
    another way (an ONNX matrix transposed for `nn.Linear`, LSTM gates in PyTorch's order). It is lazy: nothing is read
    before it is written or loaded."""

    value: ir.Value
    shape: tuple[int, ...]
    transform: Callable[[Array], Array] | None = None

    def array(self) -> Array:
        assert self.value.const_value is not None
        array = self.value.const_value.numpy()
        if self.transform is not None:
            array = np.asarray(self.transform(array), order="C")
        assert array.shape == self.shape, f"{self.value.name}: {array.shape} is not {self.shape}"
        return array


def turned(matrix: Array) -> Array:
    """Return a linear layer's matrix in PyTorch's layout (out, in), from ONNX's (in, out)."""
    return matrix.T


@dataclass(eq=False)
class Layer:
    """One layer of the model, such as an `nn.Conv2d(...)`.

    `arguments` holds all arguments by name; those at their default are not written. `node` is the ONNX node that it
    comes from; its name and scope give the attribute's name. `computed` is set if the layer computes its weight: then
    it is wrapped in the function that does so.
    """

    kind: LayerKind
    arguments: dict[str, Any]
    weights: dict[str, Weight] = field(default_factory=dict)
    node: ir.Node | None = None
    computed: ComputedWeight | None = None

    @property
    def constructor(self) -> str:
        """The name to call to make the layer."""
        return self.kind.constructor

    @property
    def signature(self) -> Mapping[str, Any]:
        return self.kind.signature

    @property
    def identity(self) -> tuple[object, ...]:
        """A key that is equal for two uses of one layer: same kind, arguments and weights, read in the same way (a
        square matrix may be used both as it is and transposed)."""
        weights = tuple((name, id(weight.value), weight.transform is None) for name, weight in self.weights.items())
        return (self.kind.name, repr(self.arguments), weights)

    @property
    def buffers(self) -> frozenset[str]:
        """The names of its weights that are in the state dict, but not trained."""
        own = self.kind.buffers | self.kind.steps
        return own if self.computed is None else own | self.computed.buffers

    @property
    def wrapper(self) -> tuple[object, ...]:
        """The function that it is wrapped in, with arguments: equal for layers that are wrapped alike."""
        return () if self.computed is None else (self.computed.function, *self.computed.arguments.items())

    @property
    def is_plain_activation(self) -> bool:
        """Tell whether this is an activation without weights and with all arguments at their defaults. Another such
        layer could replace it."""
        is_plain = self.kind.family == "activation" and not self.weights
        return is_plain and self.complete_arguments() == self.signature

    def hold(self, name: str, weight: Weight) -> None:
        """Give the layer a weight, or the parts from which it computes its weight."""
        computed = weight.value.meta.get(KEY)
        if name == "weight" and weight.transform is None and computed is not None:
            self.computed = computed
            self.weights.update({part: Weight(value, _shape(value)) for part, value in computed.parts.items()})
        else:
            self.weights[name] = weight

    def complete_arguments(self) -> dict[str, Any]:
        """Return every argument in the order of the constructor, with defaults filled in."""
        unknown = self.arguments.keys() - self.signature.keys()
        assert not unknown, f"{self.constructor} has no argument {', '.join(sorted(unknown))}"
        return {name: self.arguments.get(name, default) for name, default in self.signature.items()}


def _shape(value: ir.Value) -> tuple[int, ...]:
    assert value.const_value is not None
    return tuple(value.const_value.shape.numpy())
