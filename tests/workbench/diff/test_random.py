"""Random graphs: renamed they are the same, and one mutation is what is found."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from fuzz.generate import generate
from fuzz.runtime import run_model
from onnxlift.workbench.diff import DiffReport, diff

from .graphs import changed, renamed, subgraphs

OTHER = {"Relu": "Neg", "Neg": "Abs", "Abs": "Neg", "Add": "Sub", "Sub": "Mul", "Mul": "Add", "Sigmoid": "Tanh"}
OTHER |= {"Tanh": "Sigmoid", "Max": "Min", "Min": "Max", "Exp": "Abs", "Div": "Mul", "Floor": "Ceil"}
PLAIN = ("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Exp", "Floor", "Softmax")
NUMBERS = ("alpha", "beta", "epsilon", "gamma", "lambd", "bias", "momentum")

Mutation = Callable[[onnx.ModelProto, random.Random], bool]


def mutate_weight(model: onnx.ModelProto, choose: random.Random) -> bool:
    read = {name for node in model.graph.node for name in node.input}
    found = [t for t in model.graph.initializer if t.data_type in (1, 11) and t.name in read and 0 not in t.dims]
    if not found:
        return False
    tensor = choose.choice(found)
    array = numpy_helper.to_array(tensor).copy()
    place = choose.randrange(array.size)
    before = array.reshape(-1)[place]
    array.reshape(-1)[place] = before * 2 + 1 if np.isfinite(before) else 0
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return bool(array.reshape(-1)[place] != before)


def mutate_attribute(model: onnx.ModelProto, choose: random.Random) -> bool:
    found = [a for node in model.graph.node for a in node.attribute if a.type == 1 and a.name in NUMBERS]
    if found:
        choose.choice(found).f += 0.5
    return bool(found)


def mutate_operator(model: onnx.ModelProto, choose: random.Random) -> bool:
    found = [node for node in model.graph.node if node.op_type in OTHER]
    if found:
        node = choose.choice(found)
        node.op_type = OTHER[node.op_type]
    return bool(found)


def insert_node(model: onnx.ModelProto, choose: random.Random) -> bool:
    constants = {tensor.name for tensor in model.graph.initializer}
    plain = [node for node in model.graph.node if not any(subgraphs(node)) and "Sequence" not in node.op_type]
    found = [(n, i) for n in plain for i, name in enumerate(n.input) if name and name not in constants]
    if not found:
        return False
    node, place = choose.choice(found)
    nodes = list(model.graph.node)
    new = helper.make_node("Identity", [node.input[place]], ["inserted"])
    nodes.insert(nodes.index(node), new)
    node.input[place] = "inserted"
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return True


def remove_node(model: onnx.ModelProto, choose: random.Random) -> bool:
    kept = {value.name for value in model.graph.output}
    kept.update(name for node in model.graph.node if any(subgraphs(node)) for name in _inner(node))
    found = [node for node in model.graph.node if node.op_type in PLAIN and node.output[0] not in kept]
    if not found:
        return False
    gone = choose.choice(found)
    for node in model.graph.node:
        node.input[:] = [gone.input[0] if name == gone.output[0] else name for name in node.input]
    model.graph.node.remove(gone)
    return True


def _inner(node: onnx.NodeProto) -> set[str]:
    names: set[str] = set()
    for graph in subgraphs(node):
        names.update(value.name for value in graph.output)
        for inner in graph.node:
            names.update(inner.input, _inner(inner))
    return names


def swap_inputs(model: onnx.ModelProto, choose: random.Random) -> bool:
    constants = {tensor.name for tensor in model.graph.initializer}
    constants.update(name for node in model.graph.node if node.op_type == "Constant" for name in node.output)
    found = [
        node
        for node in model.graph.node
        if node.op_type in ("Sub", "Div", "Pow", "Concat")
        and len(node.input) == 2
        and node.input[0] != node.input[1]
        and not constants.intersection(node.input)
    ]
    if found:
        node = choose.choice(found)
        node.input[:] = node.input[::-1]
    return bool(found)


MUTATIONS: tuple[Mutation, ...] = (
    mutate_weight,
    mutate_attribute,
    mutate_operator,
    insert_node,
    remove_node,
    swap_inputs,
)


def kinds(report: DiffReport) -> tuple[int, ...]:
    counts = report.counts
    return counts["added"], counts["removed"], counts["changed"], counts["moved"], counts["weights"]


@pytest.mark.parametrize("start", range(0, 60, 10))
def test_renamed_and_reordered_graphs_are_the_same(start: int) -> None:
    for seed in range(start, start + 10):
        model = generate(seed).model
        report = diff(model, renamed(model, seed))
        assert report.same, f"seed {seed}\n{report}"
        assert report.matched == report.sizes[0].nodes


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.__name__)
def test_one_mutation_is_what_is_found(mutation: Mutation) -> None:
    tried = 0
    for seed in range(40):
        case = generate(seed)
        model, choose = case.model, random.Random(seed)
        copy = changed(model, lambda each: None)
        if not mutation(copy, choose):
            continue
        tried += 1
        other = renamed(copy, seed)
        report = diff(model, other)
        if report.same:  # two values that are computed in the same way were exchanged
            for a, b in zip(run_model(model, case.feeds[0]), run_model(copy, case.feeds[0]), strict=True):
                np.testing.assert_array_equal(a, b)
            continue
        assert sum(report.counts.values()) <= 2, f"seed {seed}\n{report}"
        added, removed, *rest = kinds(diff(other, model))
        assert kinds(report) == (removed, added, *rest), f"seed {seed}"
    assert tried >= 5
