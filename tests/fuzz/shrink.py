"""`shrink(model, feeds, fails)`: the smallest part of a failing model that still fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .runtime import Array, Refused, captured_names, run_model

Fails = Callable[[onnx.ModelProto, dict[str, Array]], bool]
Candidate = tuple[onnx.ModelProto, dict[str, Array]]


def shrink(model: onnx.ModelProto, feeds: dict[str, Array], fails: Fails) -> Candidate:
    """The model and its inputs after every step that keeps it failing: fewer outputs, values of inner nodes as inputs,
    no attributes, plain names."""
    current = (model, feeds)
    while True:
        for candidate in _smaller(*current):
            if fails(*candidate):
                current = candidate
                break
        else:
            return current


def _smaller(model: onnx.ModelProto, feeds: dict[str, Array]) -> Iterator[Candidate]:
    values = _all_values(model, feeds)
    graph = model.graph
    if len(graph.output) > 1:
        for output in graph.output:
            yield _rebuilt(model, feeds, outputs=[output.name])
    made = [name for node in graph.node for name in node.output if name in values]
    outputs = {output.name for output in graph.output}
    for name in made:
        if name not in outputs:
            yield _rebuilt(model, feeds, outputs=[name])
    for name in [*reversed(made), *(tensor.name for tensor in graph.initializer)]:
        if name not in outputs and name in values:
            yield _rebuilt(model, {**feeds, name: values[name]}, outputs=list(outputs))
    for index, node in enumerate(graph.node):
        for attribute in node.attribute:
            if attribute.type != onnx.AttributeProto.GRAPH:
                smaller = _copy(model)
                kept = [a for a in node.attribute if a.name != attribute.name]
                del smaller.graph.node[index].attribute[:]
                smaller.graph.node[index].attribute.extend(kept)
                yield smaller, feeds
        if node.name or node.metadata_props:
            smaller = _copy(model)
            smaller.graph.node[index].name = ""
            del smaller.graph.node[index].metadata_props[:]
            yield smaller, feeds
    if graph.value_info:
        smaller = _copy(model)
        del smaller.graph.value_info[:]
        yield smaller, feeds


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _all_values(model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    """What every tensor of the main graph holds."""
    exposed = _copy(model)
    del exposed.graph.output[:]
    names = [name for node in model.graph.node for name in node.output if name]
    names += [tensor.name for tensor in model.graph.initializer]
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        arrays: list[Any] = run_model(exposed, feeds)
    except Refused:
        return {}
    return {n: a for n, a in zip(names, arrays, strict=True) if isinstance(a, np.ndarray) and a.dtype != object}


def _rebuilt(model: onnx.ModelProto, feeds: dict[str, Array], outputs: list[str]) -> Candidate:
    """The part of the model that computes `outputs`, with the values in `feeds` as inputs."""
    wanted, kept = set(outputs), []
    for node in reversed(model.graph.node):
        if wanted & set(node.output) and not set(node.output) & feeds.keys():
            kept.append(node)
            wanted.update(captured_names([node]))
    smaller = _copy(model)
    graph = smaller.graph
    declared = {value.name: value for value in model.graph.input}
    inputs = [
        declared.get(name) or helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in feeds.items()
        if name in wanted
    ]
    tensors = [t for t in model.graph.initializer if t.name in wanted and t.name not in feeds]
    for field in ("node", "input", "output", "initializer"):
        graph.ClearField(field)
    graph.node.extend(reversed(kept))
    graph.input.extend(inputs)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    graph.initializer.extend(tensors)
    return smaller, {value.name: feeds[value.name] for value in inputs}
