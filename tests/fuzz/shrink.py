"""`shrink(model, feeds, fails)`: the smallest part of a failing model that still fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import onnx
from onnx import helper, numpy_helper

from fuzz.runtime import Array, RefusedError, captured_names, run_model

Candidate = tuple[onnx.ModelProto, dict[str, Array]]
Fails = Callable[[onnx.ModelProto, dict[str, Array]], bool]
Step = Callable[[onnx.ModelProto, dict[str, Array]], Candidate | None]
"""A smaller model, if this way of making it smaller is still open."""


def shrink(model: onnx.ModelProto, feeds: dict[str, Array], fails: Fails) -> Candidate:
    """The model and its inputs after every step that keeps it failing: fewer outputs, values of inner nodes as inputs,
    no attributes, no names of nodes."""
    while True:
        before = model.SerializeToString()
        for step in _steps(model):
            candidate = step(model, feeds)
            if candidate is not None and fails(*candidate):
                model, feeds = candidate
        if model.SerializeToString() == before:
            return model, feeds


def _steps(model: onnx.ModelProto) -> Iterator[Step]:
    graph = model.graph
    made = [name for node in graph.node for name in node.output if name]
    yield from (partial(_with_output, name) for name in (*(value.name for value in graph.output), *made))
    yield from (partial(_with_input, name) for name in (*reversed(made), *(t.name for t in graph.initializer)))
    for node in graph.node:
        yield from (partial(_without_attribute, node.output[0], attribute.name) for attribute in node.attribute)
        yield partial(_without_name, node.output[0])
    yield _without_types


def _with_output(name: str, model: onnx.ModelProto, feeds: dict[str, Array]) -> Candidate | None:
    made = {output for node in model.graph.node for output in node.output}
    if name not in made or [value.name for value in model.graph.output] == [name]:
        return None
    return _rebuilt(model, feeds, [name])


def _with_input(name: str, model: onnx.ModelProto, feeds: dict[str, Array]) -> Candidate | None:
    outputs = [value.name for value in model.graph.output]
    value = None if name in outputs or name in feeds else _value_of(name, model, feeds)
    return None if value is None else _rebuilt(model, {**feeds, name: value}, outputs)


def _value_of(name: str, model: onnx.ModelProto, feeds: dict[str, Array]) -> Array | None:
    """What a tensor of the main graph holds."""
    for tensor in model.graph.initializer:
        if tensor.name == name:
            return numpy_helper.to_array(tensor)
    if not any(name in node.output for node in model.graph.node):
        return None
    try:
        value = run_model(*_rebuilt(model, feeds, [name]))[0]
    except RefusedError:
        return None
    return value if isinstance(value, np.ndarray) and value.dtype != object else None


def _without_attribute(
    output: str, attribute: str, model: onnx.ModelProto, feeds: dict[str, Array]
) -> Candidate | None:
    smaller = _copy(model)
    for node in smaller.graph.node:
        kept = [a for a in node.attribute if a.name != attribute]
        if node.output[0] == output and len(kept) < len(node.attribute):
            del node.attribute[:]
            node.attribute.extend(kept)
            return smaller, feeds
    return None


def _without_name(output: str, model: onnx.ModelProto, feeds: dict[str, Array]) -> Candidate | None:
    smaller = _copy(model)
    for node in smaller.graph.node:
        if node.output[0] == output and (node.name or node.metadata_props):
            node.name = ""
            del node.metadata_props[:]
            return smaller, feeds
    return None


def _without_types(model: onnx.ModelProto, feeds: dict[str, Array]) -> Candidate | None:
    if not model.graph.value_info:
        return None
    smaller = _copy(model)
    del smaller.graph.value_info[:]
    return smaller, feeds


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


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
