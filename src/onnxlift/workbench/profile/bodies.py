"""Count an operator without a cost function through its body: the nodes that define it.

The body is that of the operator's schema, or of rewriting/bodies/ for ONNX Runtime's own operators. It only tells how
much is computed: what is read and written are the inputs and the outputs of the node itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.schema import attributes_of
from onnxlift.ir.graph.shapes import shape_of, static_elements
from onnxlift.ir.graph.types import INTEGERS
from onnxlift.ir.graph.walk import opset_of, subgraphs
from onnxlift.ir.inference.infer import infer
from onnxlift.rewriting import bodies
from onnxlift.rewriting.normal_form import expand_operators
from onnxlift.rewriting.normal_form.schema_bodies import has_schema_body

from .amount import Amount
from .node import NotKnownError
from .registry import find_cost

BodyWork = tuple[Amount, Amount]
"""Multiply-accumulates, and all operations."""

Count = Callable[[ir.Model], BodyWork]


class Bodies:
    """Counts nodes through their bodies; one of each kind of node, however many there are."""

    def __init__(self, model: ir.Model, count: Count) -> None:
        self.model = model
        self.count = count
        self._known: dict[object, BodyWork | str] = {}

    def has_body(self, node: ir.Node) -> bool:
        """Tell whether the node's operator has a body."""
        opset = opset_of(node, self.model.opset_imports)
        return not subgraphs(node) and (bodies.has_body(node) or has_schema_body(node, opset))

    def work(self, node: ir.Node) -> BodyWork:
        """Return what the body of a node computes. Raises NotKnownError if there is none for this use."""
        key = self._key(node)
        if key not in self._known:
            self._known[key] = self._counted(node)
        found = self._known[key]
        if isinstance(found, str):
            raise NotKnownError(found)
        return found

    def _counted(self, node: ir.Node) -> BodyWork | str:
        model = _alone(node, self.model)
        infer(model)
        expand_operators.run(model, supported=lambda domain, op_type: find_cost(domain, op_type) is not None)
        reason = next((each.meta["reason"] for each in model.graph if "reason" in each.meta), "")
        if reason:
            return str(reason)
        if any(each.op_identifier() == node.op_identifier() for each in model.graph):
            return "the types of its inputs are not known"
        return self.count(model)

    def _key(self, node: ir.Node) -> object:
        inputs = tuple(_signature(value) for value in node.inputs)
        opset = opset_of(node, self.model.opset_imports)
        attributes = tuple((name, repr(value)) for name, value in attributes_of(node, opset).items())
        present = tuple(bool(value.name) for value in node.outputs)
        return node.op_identifier(), opset, inputs, attributes, present


def _signature(value: ir.Value | None) -> Any:
    if value is None:
        return None
    return value.dtype, shape_of(value), static_elements(value), constant(value) is not None


def _alone(node: ir.Node, model: ir.Model) -> ir.Model:
    """Return a model of this node alone."""
    values: dict[ir.Value, ir.Value] = {}
    inputs: list[ir.Value] = []
    initialisers: list[ir.Value] = []
    for place, value in enumerate(dict.fromkeys(node.inputs)):
        if value is None:
            continue
        tensor = _constant(value)
        values[value] = ir.Value(name=f"i{place}", type=value.type, shape=value.shape, const_value=tensor)
        (inputs if tensor is None else initialisers).append(values[value])
    copy = ir.Node(
        node.domain,
        node.op_type,
        [None if value is None else values[value] for value in node.inputs],
        list(node.attributes.values()),
        overload=node.overload,
        num_outputs=len(node.outputs),
        version=node.version,
        name="node",
    )
    for place, (old, new) in enumerate(zip(node.outputs, copy.outputs, strict=True)):
        new.name = f"o{place}" if old.name else ""
    outputs = [value for value in copy.outputs if value.name]
    graph = ir.Graph(
        inputs, outputs, nodes=[copy], initializers=initialisers, opset_imports=dict(model.opset_imports), name="body"
    )
    return ir.Model(graph, ir_version=model.ir_version)


def _constant(value: ir.Value) -> ir.TensorProtocol | None:
    """Return the tensor of a constant, or of sizes that are all numbers; None for other values."""
    tensor = constant(value)
    elements = static_elements(value)
    if tensor is not None or elements is None or value.dtype not in INTEGERS:
        return tensor
    array = np.array(elements, value.dtype.numpy())
    return ir.tensor(array if shape_of(value) else array.reshape(()))
