"""Look at weights one after the other: who reads them, and what their numbers are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.interface import interface_of
from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.graph.walk import Region
from onnxlift.workbench.numbers import Numbers, numbers_of, pieces

from .rule import Place
from .subject import Graph, value_place

_PASSING_ON = frozenset("Transpose Reshape Squeeze Unsqueeze Identity Cast DequantizeLinear Flatten".split())
_MOST_STEPS = 4


@dataclass(frozen=True)
class Use:
    """A node that reads a weight, at the given input, perhaps through nodes that only move its elements."""

    node: ir.Node
    index: int


@dataclass(frozen=True)
class Weight:
    """One weight: its tensor, who reads it, and its numbers, which are looked at when first asked for."""

    graph: Graph
    region: Region
    value: ir.Value
    tensor: ir.TensorProtocol
    seen: dict[tuple[object, ...], list[Weight]] = field(repr=False)
    """The weights before this one, by what weights of equal numbers have in common."""

    @property
    def place(self) -> Place:
        return value_place("weight", self.value.name, self.region)

    @property
    def is_float(self) -> bool:
        return self.tensor.dtype in FLOATS

    @cached_property
    def numbers(self) -> Numbers:
        return numbers_of(self.tensor)

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """The nodes that read it, also through nodes that move or convert its elements."""
        found: list[Use] = []
        waiting = [(self.value, 0)]
        while waiting:
            value, steps = waiting.pop()
            for node, index in value.uses():
                if node.domain == "" and index == 0 and node.op_type in _PASSING_ON and steps < _MOST_STEPS:
                    waiting += [(output, steps + 1) for output in node.outputs[:1]]
                else:
                    found.append(Use(node, index))
        return tuple(found)


def weights(graph: Graph) -> Iterator[Weight]:
    """Yield all weights of a model: initialisers, also of subgraphs, Constant nodes, and default values of inputs."""
    seen: dict[tuple[object, ...], list[Weight]] = {}
    inputs = {value.name: value for value in graph.model.graph.inputs}
    for name, tensor in interface_of(graph.model).defaults.items():
        yield Weight(graph, graph.regions[0], inputs[name], tensor, seen)
    for region in graph.regions:
        for value in region.graph.initializers.values():
            if value.const_value is not None and value.const_value.dtype != ir.DataType.STRING:
                yield Weight(graph, region, value, value.const_value, seen)


def fingerprint(tensor: ir.TensorProtocol) -> bytes:
    """Return a digest of the numbers: equal ones have the same, and different ones do not."""
    digest = hashlib.blake2b(digest_size=32)
    for piece in pieces(tensor):
        digest.update(np.ascontiguousarray(piece).view(np.uint8).data)
    return digest.digest()
