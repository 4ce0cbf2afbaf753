"""A model as `diff` sees it: without names and order, and with one spelling for what means the same.

1. A Constant node is a constant, as an initialiser is, and no node.
2. An attribute that is left out has its default: that of the schema, or the one that the text of the standard implies.
3. Inputs that are left out at the end are no inputs, and optional outputs at the end that nobody reads no outputs.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import onnx.defs
import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.functions import FunctionId
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.schema import attributes_of, schema_for
from onnxlift.ir.graph.walk import Region, all_nodes, subgraphs
from onnxlift.rewriting.normal_form.constant_nodes import constant_tensor

from .numbers import digest, is_setting, shape_of

COMMUTATIVE = frozenset("Add Mul And Or Xor Equal BitwiseAnd BitwiseOr BitwiseXor Max Min Sum Mean".split())
"""Operators whose inputs may come in any order."""

_WINDOWS = frozenset("Conv ConvTranspose ConvInteger QLinearConv MaxPool AveragePool LpPool".split())
_WEIGHT_AT = {"Conv": 1, "ConvTranspose": 1, "ConvInteger": 1, "QLinearConv": 3}


class Level(IntEnum):
    """What two nodes must have in common for equal labels."""

    EXACT = 0
    """Operator, attributes, and the numbers of constants."""
    SHAPED = 1
    """Operator, attributes, types and shapes of constants, and the numbers of those that are settings."""
    BARE = 2
    """The operator."""


@dataclass(eq=False, slots=True)
class Item:
    """A node, with its inputs and attributes in one spelling.

    `bodies` are the graphs that it holds, by attribute, and `captured` the outer values that these read."""

    node: ir.Node
    index: int
    op: Hashable
    opset: int
    operands: tuple[ir.Value | None, ...]
    outputs: tuple[ir.Value, ...]
    attributes: Mapping[str, Any]
    tensors: Mapping[str, ir.TensorProtocol]
    bodies: Mapping[str, tuple[ir.Graph, ...]]
    captured: tuple[ir.Value, ...]
    is_commutative: bool

    @property
    def schema(self) -> onnx.defs.OpSchema | None:
        return schema_for(self.node.domain, self.node.op_type, self.opset)

    @property
    def title(self) -> str:
        return f"{self.node.domain}::{self.node.op_type}" if self.node.domain else self.node.op_type


@dataclass(eq=False, slots=True)
class Body:
    """A graph as items, sorted; who makes each value, and who reads it (the item, and the place among its inputs).

    The place of an outer value that a subgraph of the item reads is -1."""

    graph: ir.Graph
    items: list[Item]
    inputs: tuple[ir.Value, ...]
    outputs: tuple[ir.Value, ...]
    maker: dict[ir.Value, tuple[Item, int]] = field(default_factory=dict)
    readers: dict[ir.Value, list[tuple[Item, int]]] = field(default_factory=dict)


class Side:
    """One of the two models."""

    def __init__(self, model: ir.Model, *, with_numbers: bool = True) -> None:
        self.model = model
        self.with_numbers = with_numbers
        """Whether weights are told apart by their numbers. Settings always are."""
        self.functions: dict[FunctionId, Hashable] = {}
        """What stands for a function in labels: the same for the function of the other model that it matches."""
        self._tensors: dict[ir.Value, ir.TensorProtocol | None] = {}
        self._digests: dict[int, tuple[ir.TensorProtocol, bytes]] = {}
        self._bodies: dict[ir.Graph, Body] = {}

    def tensor(self, value: ir.Value | None) -> ir.TensorProtocol | None:
        """Return the tensor of a constant; None for any other value."""
        if value is None:
            return None
        if value not in self._tensors:
            maker = value.producer()
            is_node = maker is not None and is_standard(maker, "Constant")
            self._tensors[value] = constant_tensor(maker) if is_node and maker is not None else constant(value)
        return self._tensors[value]

    def constant_key(self, tensor: ir.TensorProtocol, level: Level) -> Hashable:
        if level is Level.BARE:
            return "constant"
        key = (tensor.dtype, shape_of(tensor))
        exact = is_setting(tensor) or (level is Level.EXACT and self.with_numbers)
        return (*key, self.digest(tensor)) if exact else key

    def digest(self, tensor: ir.TensorProtocol) -> bytes:
        """Return the hash of the numbers; each tensor is read only once."""
        found = self._digests.get(id(tensor))
        if found is None:
            found = self._digests[id(tensor)] = (
                tensor,
                digest(tensor),
            )  # the tensor itself, so that its id stays its own
        return found[1]

    def body(self, graph: ir.Graph, opsets: Mapping[str, int]) -> Body:
        """Return the graph as items; made once."""
        if graph not in self._bodies:
            self._bodies[graph] = self._body(graph, opsets)
        return self._bodies[graph]

    def _body(self, graph: ir.Graph, opsets: Mapping[str, int]) -> Body:
        region = Region(graph, opsets)
        nodes = [node for node in graph if not (is_standard(node, "Constant") and self._is_constant(node))]
        items = [self._item(node, index, region) for index, node in enumerate(nodes)]
        body = Body(graph, items, tuple(graph.inputs), tuple(graph.outputs))
        for item in items:
            for place, value in enumerate(item.outputs):
                body.maker[value] = (item, place)
            for place, operand in enumerate(item.operands):
                if operand is not None and self.tensor(operand) is None:
                    body.readers.setdefault(operand, []).append((item, place))
            for value in item.captured:
                body.readers.setdefault(value, []).append((item, -1))
        return body

    def _is_constant(self, node: ir.Node) -> bool:
        return self.tensor(node.outputs[0]) is not None

    def _item(self, node: ir.Node, index: int, region: Region) -> Item:
        opset = region.opset(node)
        operands = tuple(node.inputs)
        while operands and operands[-1] is None:
            operands = operands[:-1]
        attributes = attributes_of(node, opset)
        bodies: dict[str, tuple[ir.Graph, ...]] = {}
        tensors: dict[str, ir.TensorProtocol] = {}
        for name, found in node.attributes.items():
            if found.is_ref():
                attributes[name] = Reference(found.ref_attr_name or "")
            elif found.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
                is_one = found.type is ir.AttributeType.GRAPH
                bodies[name] = (found.as_graph(),) if is_one else tuple(found.as_graphs())
            elif found.type is ir.AttributeType.TENSOR:
                tensors[name] = found.as_tensor()
            elif found.type is ir.AttributeType.TENSORS:
                tensors.update((f"{name}[{place}]", each) for place, each in enumerate(found.as_tensors()))
                attributes.pop(name)
        self._imply(node, operands, attributes)
        apart = {*bodies, *tensors}
        plain = {name: value for name, value in attributes.items() if value is not None and name not in apart}
        return Item(
            node=node,
            index=index,
            op=self.functions.get(node.op_identifier(), (node.domain, node.op_type)),
            opset=opset,
            operands=operands,
            outputs=_outputs(node, opset),
            attributes=plain,
            tensors=tensors,
            bodies=bodies,
            captured=tuple(self._captured(node)) if bodies else (),
            is_commutative=node.domain == "" and node.op_type in COMMUTATIVE,
        )

    def _imply(self, node: ir.Node, operands: tuple[ir.Value | None, ...], attributes: dict[str, Any]) -> None:
        """Fill in what a convolution or pooling does if it does not say."""
        if node.domain or node.op_type not in _WINDOWS:
            return
        at = _WEIGHT_AT.get(node.op_type, len(operands))
        weight = self.tensor(operands[at]) if at < len(operands) else None
        if weight is not None and attributes.get("kernel_shape") is None:
            attributes["kernel_shape"] = shape_of(weight)[2:]
        kernel = attributes.get("kernel_shape")
        if not isinstance(kernel, tuple):
            return
        implied = {"strides": (1,) * len(kernel), "dilations": (1,) * len(kernel)}
        if attributes.get("auto_pad") in ("NOTSET", None):
            implied["pads"] = (0,) * (2 * len(kernel))
        for name, value in implied.items():
            if name in attributes and attributes[name] is None:
                attributes[name] = value

    def _captured(self, node: ir.Node) -> Iterator[ir.Value]:
        """Yield the values of outer graphs that the subgraphs of a node read, each once, in order."""
        inside: set[ir.Value] = set()
        read: dict[ir.Value, None] = {}
        for graph in subgraphs(node):
            inside.update(graph.inputs, graph.initializers.values())
            read.update(dict.fromkeys(graph.outputs))
            for inner in all_nodes(graph):
                inside.update(inner.outputs)
                read.update(dict.fromkeys(value for value in inner.inputs if value is not None))
                for deeper in subgraphs(inner):
                    inside.update(deeper.inputs, deeper.initializers.values())
                    read.update(dict.fromkeys(deeper.outputs))
        yield from (value for value in read if value not in inside and self.tensor(value) is None)


@dataclass(frozen=True)
class Reference:
    """The value of an attribute that is an attribute of the function around it."""

    name: str

    def __str__(self) -> str:
        return f"@{self.name}"


def _outputs(node: ir.Node, opset: int) -> tuple[ir.Value, ...]:
    outputs = tuple(node.outputs)
    schema = schema_for(node.domain, node.op_type, opset)
    formal = schema.outputs if schema is not None else ()
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    while outputs and not outputs[-1].uses() and not outputs[-1].is_graph_output():
        if not outputs[-1].name:  # a place that is left empty
            outputs = outputs[:-1]
            continue
        if len(outputs) > len(formal) or formal[len(outputs) - 1].option != optional:
            break
        outputs = outputs[:-1]
    return outputs


def value_key(value: Any) -> Hashable:
    """Return what two values of an attribute must share to be equal: floats by their bits, NaN included."""
    if isinstance(value, float):
        try:
            return struct.pack("<f", value)
        except OverflowError:
            return value
    if isinstance(value, (list, tuple)):
        return tuple(map(value_key, value))
    return value if isinstance(value, Hashable) else repr(value)


def attribute_keys(side: Side, item: Item, level: Level) -> Iterable[Hashable]:
    """Yield what the label of an item says of its attributes, in the order of their names."""
    if level is Level.BARE:
        return
    for name in sorted({*item.attributes, *item.tensors}):
        if name in item.tensors:
            yield name, side.constant_key(item.tensors[name], level)
        else:
            yield name, value_key(item.attributes[name])
