"""Modules in branches and loops: those that are there alone have classes, as they would outside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper

import onnxlift
from small_graphs import Graph, code, compare, step


def branch(g: Graph, write: Callable[[Graph], str], name: str, *inputs: onnx.ValueInfoProto) -> onnx.GraphProto:
    """What `write` adds to the graph, as a graph of its own; the weights stay outside."""
    inner = Graph(g.random.integers(1000))
    inner.weights = g.weights
    inner.nodes = [helper.make_node("Identity", ["x"], [f"{name}_start"])]
    result = write(inner)
    for number, node in enumerate(inner.nodes):
        rename = {f"val_{n}": f"{name}_val_{n}" for n in range(len(inner.nodes))}
        node.input[:] = [rename.get(each, each) for each in node.input]
        node.output[:] = [rename.get(each, each) for each in node.output]
        node.name = node.name or f"{name}_{number}"
    info = helper.make_tensor_value_info(rename.get(result, result), TensorProto.FLOAT, None)
    return helper.make_graph(inner.nodes, name, list(inputs), [info])


def either(g: Graph, then: Callable[[Graph], str], otherwise: Callable[[Graph], str]) -> str:
    """`then` where the sum of x is positive."""
    x = g.input("x", "n", 4)
    total = g.node("ReduceSum", x, keepdims=0)
    condition = g.node("Greater", total, g.constant("zero", np.float32(0)))
    branches = {"then_branch": branch(g, then, "then"), "else_branch": branch(g, otherwise, "else")}
    return g.node("If", condition, output="result", **branches)


def test_modules_of_branches_have_classes_and_share_them() -> None:
    g = Graph()
    text = code(g.lift(either(g, lambda b: step(b, "x", "small"), lambda b: step(b, "x", "large"))))
    assert text.count("class ") == 2 and '"""small, large"""' in text
    assert "result = self.small(x)" in text and "result = self.large(x)" in text


def test_a_module_that_is_used_in_both_branches_is_no_class() -> None:
    """Two modules would hold the weights of one."""
    g = Graph()
    lifted = g.lift(either(g, lambda b: step(b, "x", "both"), lambda b: b.node("Exp", step(b, "x", "both"))))
    assert code(lifted).count("class ") == 1
    assert set(lifted.state_dict) == {"both.a.weight", "both.a.bias", "both.b.weight", "both.b.bias"}


def test_a_module_with_a_part_outside_is_no_class() -> None:
    g = Graph()
    result = either(g, lambda b: step(b, "x", "head"), lambda b: step(b, "x", "other"))
    lifted = g.lift(g.linear(result, "head.last"))
    assert {key.rpartition(".")[0] for key in lifted.state_dict if key.startswith("head")} == {
        "head.a",
        "head.b",
        "head.last",
    }


def test_a_module_in_a_loop_is_called_in_every_round() -> None:
    g = Graph()
    g.input("x", "n", 4)
    inputs = [
        helper.make_tensor_value_info("round", TensorProto.INT64, []),
        helper.make_tensor_value_info("proceed", TensorProto.BOOL, []),
        helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
    ]
    body = branch(g, lambda b: step(b, "state", "cell"), "body", *inputs)
    body.node.append(helper.make_node("Identity", ["proceed"], ["again"]))
    body.output.insert(0, helper.make_tensor_value_info("again", TensorProto.BOOL, []))
    rounds = g.constant("rounds", np.int64(3))
    text = code(g.lift(g.node("Loop", rounds, g.constant("yes", np.True_), "x", body=body)))
    assert "class Cell(nn.Module):" in text and "= self.cell(" in text


def test_a_value_that_is_two_results_is_given_to_both() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 18]>
        agraph (float[n, 4] x, bool c) => (float[n, 4] first, float[n, 4] second) {
            first, second = If (c) <
                then_branch = a () => (float[n, 4] t, float[n, 4] t) { t = Exp(x) },
                else_branch = b () => (float[n, 4] p, float[n, 4] q) { p = Sin(x) q = Exp(p) }
            >
        }
    """)
    lifted = onnxlift.lift(model)
    for condition in (False, True):
        compare(
            lifted, model, {"x": np.random.default_rng(1).standard_normal((3, 4), np.float32), "c": np.array(condition)}
        )
