"""The constructor makes members as the original did where the file tells, else as `forward` uses them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import onnx
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.ir.origin.tensors import mark_told
from onnxlift.lifting.modules.members.member_order import registration_order
from small_graphs import Graph


def gated(stored: Sequence[str], nodes: Sequence[str] = ("up", "gate")) -> onnx.ModelProto:
    """`down(sigmoid(gate(x)) * up(x))` with its tensors stored, and its first two layers computed, in that order."""
    g = Graph()
    for name in stored:
        g.weight(name, *((4,) if name.endswith("bias") else (4, 4)))
    x = g.input("x", 2, 4)

    def layer(path: str, x: str) -> str:
        bias = [f"{path}.bias"] if f"{path}.bias" in stored else []
        weight = f"{path}.weight" if f"{path}.weight" in stored else g.weight(f"onnx::Gemm_{len(g.nodes)}", 4, 4)
        return g.node("Gemm", x, weight, *bias, transB=1, name=f"/{path}/Gemm")

    made = {path: layer(path, x) for path in nodes}
    y = g.node("Mul", g.node("Sigmoid", made["gate"], name="/Sigmoid"), made["up"], name="/Mul")
    g.node("Identity", layer("down", y), name="/Identity", output="y")
    return g.model("y")


def members(model: onnx.ModelProto) -> list[str]:
    return re.findall(r"self\.(\w+) = ", onnxlift.lift(model).source)


@pytest.mark.parametrize("nodes", [("up", "gate"), ("gate", "up")])
def test_unknown_members_are_in_the_order_of_evaluation_wherever_the_graph_has_them(nodes: Sequence[str]) -> None:
    assert members(gated([], nodes)) == ["gate", "up", "down"]


@pytest.mark.parametrize("nodes", [("scale", "shift"), ("shift", "scale")])
def test_buffers_are_in_the_order_of_evaluation_wherever_the_graph_reads_them(nodes: Sequence[str]) -> None:
    g = Graph()
    x = g.input("x", 2, 4)
    stored = {name: g.weight(f"onnx::Mul_{number}", 4) for number, name in enumerate(("scale", "shift"))}
    made = {name: g.node("Exp" if name == "scale" else "Sin", stored[name], name=f"/{name}") for name in nodes}
    y = g.node("Add", g.node("Mul", x, made["scale"], name="/Mul"), made["shift"], name="/Add")
    source = onnxlift.lift(g.model(y)).source
    first, second = re.findall(r"self\.(\w+)\.(?:exp|sin)\(\)", source)
    assert source.index(f'"{first}"') < source.index(f'"{second}"'), source


def test_known_members_are_in_the_order_of_the_original() -> None:
    model = gated(["down.weight", "down.bias", "up.weight", "up.bias", "gate.weight", "gate.bias"])
    assert members(model) == ["down", "up", "gate"]
    assert list(onnxlift.lift(model).state_dict) == [tensor.name for tensor in model.graph.initializer]


def test_an_unknown_member_follows_the_one_that_is_used_before_it() -> None:
    assert members(gated(["down.weight", "down.bias", "gate.weight"])) == ["down", "gate", "up"]


def test_an_order_in_which_biases_come_first_is_not_the_original_s() -> None:
    model = gated(["down.bias", "down.weight", "up.bias", "up.weight", "gate.bias", "gate.weight"])
    assert members(model) == ["gate", "up", "down"]


def test_a_buffer_that_is_stored_apart_says_nothing_of_its_module() -> None:
    graph = load(gated(["gate.weight", "up.weight", "down.weight", "rotary.table"])).graph
    assert ("rotary",) in registration_order(graph)
    mark_told(graph.initializers["rotary.table"], is_buffer=True, reason="the exporter says so")
    assert ("rotary",) not in registration_order(graph)


def test_a_result_that_others_are_computed_from_is_not_the_first() -> None:
    g = Graph()
    x = g.input("x", 2, 4)
    mask = g.node("Gemm", x, g.weight("onnx::Gemm_1", 4, 4), transB=1, name="/bias/Gemm", output="mask")
    query = g.node("Gemm", x, g.weight("onnx::Gemm_2", 4, 4), transB=1, name="/query/Gemm")
    g.node("Mul", query, mask, name="/Mul", output="y")
    assert members(g.model("mask", "y")) == ["query", "bias"]


def test_numbered_members_are_in_the_order_of_their_numbers() -> None:
    """Also in a list with gaps, and whoever is used first: the upsampling of a YOLO has no weights."""
    g = Graph()
    x = g.input("x", "n", 4)
    for number in (0, 12, 3, 2):
        x = g.node("Relu", g.linear(x, f"model.{number}"))
    numbers = re.findall(r'"(\d+)": nn.Linear', g.lift(x).source)
    assert numbers == ["0", "2", "3", "12"]
