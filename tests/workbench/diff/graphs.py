"""Models to compare: a small network, and the same with other names in another order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

Change = Callable[[onnx.ModelProto], None]


def parsed(
    body: str, *, opset: int = 20, inputs: str = "float[n, 4] x", outputs: str = "float[n, 4] y"
) -> onnx.ModelProto:
    return parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : {opset}]> net ({inputs}) => ({outputs}) {{ {body} }}'
    )


def network(layers: int = 3) -> onnx.ModelProto:
    """Layers of MatMul, Add, Relu, each in a module of its own."""
    data = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for i in range(layers):
        weights += [
            numpy_helper.from_array(data.standard_normal((8, 8)).astype(np.float32), f"layers.{i}.weight"),
            numpy_helper.from_array(data.standard_normal(8).astype(np.float32), f"layers.{i}.bias"),
        ]
        nodes += [
            helper.make_node("MatMul", [value, f"layers.{i}.weight"], [f"m{i}"], name=f"/layers.{i}/MatMul"),
            helper.make_node("Add", [f"m{i}", f"layers.{i}.bias"], [f"a{i}"], name=f"/layers.{i}/Add"),
            helper.make_node("LeakyRelu", [f"a{i}"], [f"r{i}"], name=f"/layers.{i}/LeakyRelu", alpha=0.1),
        ]
        value = f"r{i}"
    ports = [helper.make_tensor_value_info(name, 1, ["batch", 8]) for name in ("x", value)]
    graph = helper.make_graph(nodes, "network", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9, producer_name="tests")


def changed(model: onnx.ModelProto, change: Change) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    change(copy)
    return copy


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def renamed(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """The same model with other names for all but inputs and outputs, in another order that is sorted, too."""
    choose = random.Random(seed)
    kept = {value.name for value in (*model.graph.input, *model.graph.output)}
    names: dict[str, str] = {"": ""}

    def new(name: str) -> str:
        return name if name in kept else names.setdefault(name, f"value_{choose.randrange(10**9)}_{len(names)}")

    def rename(graph: onnx.GraphProto) -> None:
        inner = () if graph is copy.graph else (*graph.input, *graph.output)
        for each in (*graph.initializer, *graph.value_info, *inner):
            each.name = new(each.name)
        for node in graph.node:
            node.name = f"node_{choose.randrange(10**9)}"
            node.input[:] = [new(name) for name in node.input]
            node.output[:] = [new(name) for name in node.output]
            for subgraph in subgraphs(node):
                rename(subgraph)
        nodes = _shuffled(list(graph.node), choose)
        weights = choose.sample(list(graph.initializer), len(graph.initializer))
        del graph.node[:], graph.initializer[:]
        graph.node.extend(nodes)
        graph.initializer.extend(weights)

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    rename(copy.graph)
    return copy


def _shuffled(nodes: list[onnx.NodeProto], choose: random.Random) -> list[onnx.NodeProto]:
    made = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    needs = [{made[name] for name in _read(node) if name in made} - {i} for i, node in enumerate(nodes)]
    order: list[int] = []
    while len(order) < len(nodes):
        ready = [i for i in range(len(nodes)) if i not in order and needs[i] <= set(order)]
        order.append(choose.choice(ready))
    return [nodes[i] for i in order]


def _read(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for graph in subgraphs(node):
        yield from (value.name for value in graph.output)
        for inner in graph.node:
            yield from _read(inner)


def node_of(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    (found,) = (node for node in model.graph.node if node.name == name)
    return found


def set_weight(model: onnx.ModelProto, name: str, array: np.ndarray) -> None:
    (found,) = (tensor for tensor in model.graph.initializer if tensor.name == name)
    found.CopyFrom(numpy_helper.from_array(array, name))


def weight(model: onnx.ModelProto, name: str) -> np.ndarray:
    (found,) = (tensor for tensor in model.graph.initializer if tensor.name == name)
    return numpy_helper.to_array(found).copy()
