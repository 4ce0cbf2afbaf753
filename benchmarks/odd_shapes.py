"""Graphs that cost more than they weigh: what is large in them is not the number of layers.

A function for each builds the graph in a given size. `convert.py` compares the times of converting two sizes of each:
ten times the size may take fifteen times as long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

OPSET = 20


def _model(
    nodes: Sequence[NodeProto],
    outputs: Sequence[str],
    inputs: Sequence[str] = ("x",),
    weights: Sequence[TensorProto] = (),
    functions: Sequence[FunctionProto] = (),
) -> ModelProto:
    infos = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8]) for name in names]
             for names in (inputs, outputs)]  # fmt: skip
    graph = helper.make_graph(nodes, "net", *infos, initializer=list(weights))
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def _weight(name: str, seed: int, *shape: int) -> TensorProto:
    values = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return numpy_helper.from_array(values, name)


def deep_scopes(count: int) -> ModelProto:
    """Scopes nested 24 deep, each with a layer at every depth."""
    nodes, weights, x = [], [], "x"
    for i in range(count):
        path = [f"part{(i // 3**depth) % 3}" for depth in reversed(range(24))]
        depth = 1 + i % 24
        scope = "/".join(path[:depth])
        weights.append(_weight(f"{scope.replace('/', '.')}.fc{i}.weight", i, 8, 8))
        nodes.append(helper.make_node("MatMul", [x, weights[-1].name], [f"y{i}"], f"/{scope}/fc{i}/MatMul"))
        x = f"y{i}"
    return _model(nodes, [x], weights=weights)


def long_names(count: int) -> ModelProto:
    """Names of a thousand parts."""
    scope = "/".join(f"part{i}" for i in range(1000))
    nodes = [
        helper.make_node("Sin", ["x" if i == 0 else f"y{i - 1}"], [f"y{i}"], f"/{scope}/Sin_{i}") for i in range(count)
    ]
    return _model(nodes, [f"y{count - 1}"])


def many_inputs(count: int) -> ModelProto:
    """An input for each node."""
    names = [f"x{i}" for i in range(count)]
    nodes = [
        helper.make_node("Add", [names[0] if i == 0 else f"y{i - 1}", name], [f"y{i}"]) for i, name in enumerate(names)
    ]
    return _model(nodes, [f"y{count - 1}"], inputs=names)


def many_readers(count: int) -> ModelProto:
    """One value that every node reads."""
    nodes = [helper.make_node("Exp", ["x"], ["mask"])]
    nodes += [helper.make_node("Add", ["x" if i == 0 else f"y{i - 1}", "mask"], [f"y{i}"]) for i in range(count)]
    return _model(nodes, [f"y{count - 1}"])


def many_outputs(count: int) -> ModelProto:
    """An output for each node."""
    nodes = [helper.make_node("Sin", ["x" if i == 0 else f"y{i - 1}"], [f"y{i}"]) for i in range(count)]
    return _model(nodes, [f"y{i}" for i in range(count)])


def nested_branches(count: int) -> ModelProto:
    """If in If, 30 deep (protobuf reads no deeper than 32), as often as there is room."""

    def branch(name: str, depth: int) -> GraphProto:
        out = f"{name}_out"
        if depth == 0:
            nodes = [helper.make_node("Sin", ["x"], [out])]
        else:
            inner = {"then_branch": branch(f"{name}t", depth - 1), "else_branch": leaf(f"{name}e")}
            nodes = [helper.make_node("If", ["condition"], [out], f"{name}_if", **inner)]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(out, TensorProto.FLOAT, ["n", 8])])

    def leaf(name: str) -> GraphProto:
        return branch(name, 0)

    reduced = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["condition"]),
    ]
    nodes, results = [], []
    for i in range(max(1, count // 64)):
        results.append(f"y{i}")
        inner = {"then_branch": branch(f"b{i}", 29), "else_branch": leaf(f"l{i}")}
        nodes.append(helper.make_node("If", ["condition"], [f"y{i}"], f"if{i}", **inner))
    nodes.append(helper.make_node("Sum", results, ["y"]))
    return _model([*reduced, *nodes], ["y"], weights=[numpy_helper.from_array(np.float32(0), "zero")])


def many_functions(count: int) -> ModelProto:
    """Functions, each called once."""
    opsets = [helper.make_opsetid("", OPSET)]
    functions, nodes = [], []
    for i in range(count):
        body = [helper.make_node("Sin", ["a"], ["b"]), helper.make_node("Add", ["a", "b"], ["c"])]
        functions.append(helper.make_function("local", f"Block{i}", ["a"], ["c"], body, opsets))
        nodes.append(helper.make_node(f"Block{i}", ["x" if i == 0 else f"y{i - 1}"], [f"y{i}"], domain="local"))
    return _model(nodes, [f"y{count - 1}"], functions=functions)


def chain(count: int) -> ModelProto:
    """One node after the other, without names."""
    nodes = [
        helper.make_node("Sin" if i % 3 else "Cos", ["x" if i == 0 else f"y{i - 1}"], [f"y{i}"]) for i in range(count)
    ]
    return _model(nodes, [f"y{count - 1}"])


def nearly_equal_blocks(count: int) -> ModelProto:
    """Equal blocks that differ in one number each."""
    nodes, weights, x = [], [], "x"
    for i in range(count // 3):
        weights.append(_weight(f"blocks.{i}.fc.weight", i, 8, 8))
        scope = f"/blocks.{i}"
        nodes += [
            helper.make_node("MatMul", [x, weights[-1].name], [f"a{i}"], f"{scope}/fc/MatMul"),
            helper.make_node("LeakyRelu", [f"a{i}"], [f"b{i}"], f"{scope}/act/LeakyRelu", alpha=0.01 + i / 1000),
            helper.make_node("Add", [x, f"b{i}"], [f"y{i}"], f"{scope}/Add"),
        ]
        x = f"y{i}"
    return _model(nodes, [x], weights=weights)
