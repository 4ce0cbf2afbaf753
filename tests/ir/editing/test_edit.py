"""Showing nodes to passes, and the edits that these make."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnxlift.ir.editing.edit import Edit, LiftedOperator, sweep
from onnxlift.ir.load import load
from rewriting.graphs import parse

GRAPH = "g (float[n] x) => (float[n] y) { a = Neg(x) b = Abs(a) c = Exp(b) y = Neg(c) }"


def seen(model: ir.Model, *operators: str | LiftedOperator) -> list[str | None]:
    names: list[str | None] = []
    sweep(model, {operators: lambda _, node: names.append(node.outputs[0].name)})
    return names


def test_a_function_sees_the_operators_it_asks_for() -> None:
    assert seen(load(parse(GRAPH)), "Neg", "Exp") == ["a", "c", "y"]


def test_a_function_alone_sees_every_node() -> None:
    names: list[str | None] = []
    sweep(load(parse(GRAPH)), lambda _, node: names.append(node.op_type))
    assert names == ["Neg", "Abs", "Exp", "Neg"]


@pytest.mark.parametrize(
    ("domain", "asked", "shown"),
    [
        ("ai.onnx", "Abs", ["b"]),
        ("onnxlift", "Abs", []),
        ("onnxlift", LiftedOperator("Abs"), ["b"]),
        ("", LiftedOperator("Abs"), []),
        ("com.acme", "Abs", []),
    ],
)
def test_a_mere_name_is_an_operator_of_the_default_domain(
    domain: str, asked: str | LiftedOperator, shown: list[str]
) -> None:
    model = load(parse(GRAPH))
    model.graph[1].domain = domain
    assert seen(model, asked) == shown


def test_a_dropped_node_is_shown_to_nobody() -> None:
    names: list[str] = []

    def visit(edit: Edit, node: ir.Node) -> None:
        names.append(node.op_type)
        if node.op_type == "Neg" and not edit.is_output(node.outputs[0]):
            (following,) = node.outputs[0].consumers()
            edit.bypass(following, node.outputs[0])

    assert sweep(load(parse(GRAPH)), {("Neg", "Abs", "Exp"): visit}) == 1
    assert names == ["Neg", "Exp", "Neg"]


def test_an_operator_is_shown_to_one_function() -> None:
    with pytest.raises(ValueError, match="Abs"):
        sweep(load(parse(GRAPH)), {"Abs": lambda edit, _: edit.finish(), ("Neg", "Abs"): lambda *_: None})


@pytest.mark.parametrize(("domain", "version"), [("", 13), ("com.acme", None)])
def test_a_new_node_has_the_version_of_its_neighbour_only_in_the_same_domain(domain: str, version: int | None) -> None:
    model = load(parse(GRAPH))
    node = model.graph[1]
    node.domain, node.version = domain, 13

    def visit(edit: Edit, node: ir.Node) -> None:
        if node.op_type == "Abs":
            value = edit.insert(node, "Sign", node.inputs, like=node.outputs[0], shape=["n"], name="sign")
            edit.replace(node, "Sqrt", [value], domain="")

    sweep(model, visit)
    assert [made.version for made in model.graph if made.op_type in ("Sign", "Sqrt")] == [version, version]
