"""Lowering: every node once, whatever becomes of the scopes around it."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir
import pytest
from tests.small_graphs import Graph

from onnxlift.lifting.modules.lower import ForwardBody


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> Counter[ir.Node]:
    """How often each node has been lowered."""
    counts: Counter[ir.Node] = Counter()
    lower_node = ForwardBody._lower_node

    def counting(self: ForwardBody, node: ir.Node) -> None:
        counts[node] += 1
        lower_node(self, node)

    monkeypatch.setattr(ForwardBody, "_lower_node", counting)
    return counts


def nested(depth: int) -> tuple[Graph, str]:
    """Scopes in scopes, none of which can be a module: each has a member that is a mere number, and is no chain."""
    graph = Graph()
    x = graph.input("x", "n", 4)
    for level in range(depth):
        path = ".".join(f"part{inner}" for inner in range(level + 1))
        scope = path.replace(".", "/")
        y = graph.linear(x, f"{path}.0", name=f"/{scope}/{scope.rpartition('/')[2]}.0/Gemm")
        x = graph.node("Mul", y, x, name=f"/{scope}/Mul")
    for level in reversed(range(depth)):
        scope = "/".join(f"part{inner}" for inner in range(level + 1))
        x = graph.node("Sin", x, name=f"/{scope}/Sin")
    return graph, x


@pytest.mark.parametrize("depth", [6, 12, 20, 24])
def test_nested_scopes_that_are_no_modules_are_lowered_once(depth: int, lowered: Counter[ir.Node]) -> None:
    graph, result = nested(depth)
    graph.lift(result)
    assert len(lowered) == 3 * depth
    assert set(lowered.values()) == {1}


def test_nested_steps_of_chains_that_are_none_are_lowered_once(lowered: Counter[ir.Node]) -> None:
    """A step is a module in a chain, and code where the chain is none; so are those of the chains inside."""
    graph = Graph()
    x = graph.input("x", "n", 4)
    path = "chain"
    for _ in range(8):
        y = graph.linear(x, f"{path}.0", name=f"/{path.replace('.', '/')}/0/Gemm")
        y = graph.node("Sin", y, name=f"/{path.replace('.', '/')}/1/Sin")
        x = graph.node("Mul", y, x, name=f"/{path.replace('.', '/')}/1/Mul")
        path = f"{path}.2"
    lifted = graph.lift(graph.linear(x, f"{path}.0", name=f"/{path.replace('.', '/')}/0/Gemm"))
    assert set(lowered.values()) == {1}
    assert lifted.source.count("class ") == 1


def test_a_model_that_is_no_chain_has_the_code_of_its_steps(lowered: Counter[ir.Node]) -> None:
    graph = Graph()
    x = graph.input("x", "n", 4)
    y = graph.linear(x, "0", name="/0/Gemm")
    y = graph.node("Mul", graph.node("Sin", y, name="/1/Sin"), y, name="/1/Mul")
    y = graph.linear(y, "2", name="/2/Gemm")
    lifted = graph.lift(graph.node("Add", y, x, name="/3/Add"))
    assert set(lowered.values()) == {1}
    assert lifted.source.count("class ") == 1
    assert [*lifted.state_dict] == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_scope_that_is_no_module_may_take_sizes() -> None:
    """The size comes into the scope as a parameter; where the scope is dissolved, it is what it is to the caller."""
    graph = Graph()
    x = graph.input("x", "n", 4)
    table = graph.input("table", "m", 4)
    rows = graph.node("Slice", graph.node("Shape", table), *(graph.constant(f"c{i}", [i]) for i in (0, 1)))
    y = graph.linear(x, "net.0", name="/net/net.0/Gemm")
    shape = graph.node("Concat", rows, graph.constant("c4", [4]), axis=0, name="/net/Concat")
    y = graph.node("ReduceMean", y, graph.constant("c0", [0]), name="/net/ReduceMean")
    y = graph.node("Expand", y, shape, name="/net/Expand")
    lifted = graph.lift(graph.node("Sin", y))
    assert "table.shape[0]" in lifted.source
    assert lifted.source.count("class ") == 1


def test_a_layer_of_two_dissolved_calls_is_one_member() -> None:
    """Both scopes make the layer; where they stand in one module, it is the same one."""
    graph = Graph()
    x = graph.input("x", "n", 4)
    for scope in ("net", "net_1"):
        y = graph.linear(x, "net.0", name=f"/{scope}/{scope}.0/Gemm")
        x = graph.node("Mul" if scope == "net" else "Add", y, x, name=f"/{scope}/Op")
    lifted = graph.lift(x)
    assert lifted.source.count("nn.Linear(") == 1
    assert lifted.source.count("self.net[0](") == 2
