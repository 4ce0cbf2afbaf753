"""Cut the place to blame out of both models, and see whether the parts alone differ on the same inputs.

This is the proof: a node that only passes on or enlarges what it reads does not differ if both sides read the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load
from onnxlift.ir.writing.proto import to_proto
from onnxlift.rewriting.normal_form.constant_nodes import constant_tensor
from onnxlift.workbench.cutting import cut, nodes_between
from onnxlift.workbench.diff.numbers import shape_of
from onnxlift.workbench.values import MainValues, has_type, reads

OUTPUT = "result"
"""The name of the output of a part that hands on its input."""


@dataclass(frozen=True)
class Part:
    """A part of a model with one output, and the names of its inputs, each with the value of the first model."""

    model: ir.Model
    inputs: Mapping[str, str]
    output: str
    nodes: int

    def to_bytes(self) -> bytes:
        data: bytes = to_proto(self.model).SerializeToString()
        return data


def cut_part(source: Any, inputs: Mapping[str, str], output: str, values: Mapping[str, Any]) -> Part:
    """Return the part of the model in `source` that computes `output`.

    `inputs` has the names that may be its inputs, each with the name in the first model; `values` are the values of the
    first model, which tell types that nothing else tells."""
    model = load(source)
    infer(model)
    graph, by_name = model.graph, MainValues(model).by_name
    given = [by_name[name] for name in inputs]
    end = by_name[output]
    nodes = nodes_between(graph, given, [end])
    read = {value for node in nodes for value in reads(node)} | {end}
    starts = [value for value in given if value in read]
    for value in (*starts, end):
        if not has_type(value):
            _tell_type(value, values.get(inputs.get(value.name or "", "")))
    _store_constants(model, nodes)
    used = {value.name or "": inputs[value.name or ""] for value in starts}
    cut(model, {node for node in nodes if node.graph is graph}, starts, [end])
    if graph.outputs[0].is_graph_input():
        _hand_on(graph)
    graph.name = "part"
    return Part(model, used, graph.outputs[0].name or "", len(graph))


def _tell_type(value: ir.Value, array: Any) -> None:
    """Give a value the type that it was seen to have; float32 if it was not."""
    is_array = isinstance(array, np.ndarray) and array.dtype.kind != "O"
    value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype) if is_array else ir.DataType.FLOAT)


def _store_constants(model: ir.Model, nodes: set[ir.Node]) -> None:
    """Make the Constant nodes of a part initialisers, so that only nodes are left that compute."""
    graph = model.graph
    for node in [each for each in nodes if is_standard(each, "Constant")]:
        tensor = constant_tensor(node)
        old = node.outputs[0]
        if tensor is None or old.is_graph_output():
            continue
        name = old.name
        new = ir.Value(
            name=name, const_value=tensor, type=ir.TensorType(tensor.dtype), shape=ir.Shape(shape_of(tensor))
        )
        old.replace_all_uses_with(new)
        nodes.discard(node)
        graph.remove(node)
        graph.register_initializer(new)


def _hand_on(graph: ir.Graph) -> None:
    """Let an Identity stand where a part has no node: an output must not be an input."""
    value = graph.outputs[0]
    taken = {each.name for each in graph.inputs}
    name = OUTPUT if OUTPUT not in taken else f"{value.name}_{OUTPUT}"
    node = ir.Node("", "Identity", [value], name=name)
    node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = name, value.type, value.shape
    graph.append(node)
    graph.outputs[0] = node.outputs[0]
