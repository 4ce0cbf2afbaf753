"""Cut models in two at random, and run what comes out."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import onnx

from fuzz.runtime import Array, Session
from onnxlift.ir.reading.protos import subgraphs
from onnxlift.verification.compare import compare

Values = dict[str, Any]


def run(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> Values:
    """The outputs of a model by name, from those of the feeds that it takes."""
    names = [value.name for value in model.graph.output]
    inputs = {value.name for value in model.graph.input}
    results = Session(model).run({name: value for name, value in feeds.items() if name in inputs})
    return dict(zip(names, results, strict=True))


def assert_equal(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """The same nodes on the same values give the same numbers. Only where ONNX Runtime leaves out casts to half
    precision between two nodes, and not if somebody sees the value in between, rounding differs."""
    for name, value in expected.items():
        for comparison in compare(name, actual[name], value):
            assert comparison.passed, comparison


def random_cut(model: onnx.ModelProto, seed: int) -> tuple[list[str], list[str]] | None:
    """The values that cross a random place in the order of nodes, and the outputs that are computed after it.

    None if there is nothing before or after it."""
    nodes = list(model.graph.node)
    if len(nodes) < 2:
        return None
    place = random.Random(seed).randint(1, len(nodes) - 1)
    before = {name for node in nodes[:place] for name in node.output if name}
    after = {name for node in nodes[place:] for name in node.output if name}
    outputs = [value.name for value in model.graph.output if value.name in after]
    needed = set(outputs)
    for node in reversed(nodes[place:]):
        if needed & set(node.output):
            needed.update(_reads(node))
    crossing = [name for node in nodes[:place] for name in node.output if name in before & needed]
    return (crossing, outputs) if crossing and outputs else None


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from _reads(inner)
        yield from (value.name for value in graph.output)


def outputs_of(model: onnx.ModelProto) -> list[str]:
    return [value.name for value in model.graph.output]


def inputs_of(model: onnx.ModelProto) -> list[str]:
    return [value.name for value in model.graph.input]


def feeds_for(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    return {name: feeds[name] for name in inputs_of(model) if name in feeds}
