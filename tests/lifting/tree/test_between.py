"""Code without names between nodes with names: optimisers and quantisers keep only the keys of weights."""

from __future__ import annotations

import onnxlift
from small_graphs import Graph, code


def norm(g: Graph, x: str, path: str) -> str:
    return g.node("LayerNormalization", x, g.weight(f"{path}.weight", 4), g.weight(f"{path}.bias", 4))


def linear(g: Graph, x: str, path: str = "", rows: int = 4, columns: int = 4) -> str:
    """A matrix product, whose weight has no name; with a path, its bias has one."""
    y = g.node("MatMul", x, g.weight(f"onnx::MatMul_{len(g.nodes)}", rows, columns))
    return g.node("Add", y, g.weight(f"{path}.bias", columns)) if path else y


def keys(lifted: onnxlift.Lifted) -> set[str]:
    return {key.rpartition(".")[0] for key in lifted.state_dict}


def test_a_residual_stream_does_not_take_blocks_apart() -> None:
    """Each addition is read by this block and by the next one."""
    g = Graph()
    x = norm(g, g.input("x", "n", 5, 4), "net.norm")
    for i in range(3):
        path = f"net.layers.{i}"
        x = g.node("Add", x, linear(g, norm(g, x, f"{path}.norm1"), f"{path}.attn.proj"))
        y = g.node("Tanh", linear(g, norm(g, x, f"{path}.norm2"), f"{path}.mlp.fc1", columns=8))
        x = g.node("Add", x, linear(g, y, f"{path}.mlp.fc2", rows=8))
    lifted = g.lift(norm(g, x, "net.head"))
    assert "for layer in self.layers" in code(lifted)
    assert {f"net.layers.2.{name}" for name in ("norm1", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")} < keys(lifted)


def stream(after_last: bool) -> onnxlift.Lifted:
    """Blocks whose norm has a name, and the product after it has none."""
    g = Graph()
    x = norm(g, g.input("x", "n", 5, 4), "net.norm")
    for i in range(3):
        y = norm(g, x, f"net.layers.{i}.norm")
        if i < 2 or after_last:
            y = linear(g, g.node("Tanh", linear(g, y, columns=8)), rows=8)
        x = g.node("Add", x, y)
    return g.lift(norm(g, x, "net.head"))


def test_what_follows_each_item_alike_is_its_end() -> None:
    lifted = stream(after_last=True)
    assert "for layer in self.layers" in code(lifted)
    assert {f"net.layers.{i}.{name}" for i in range(3) for name in ("norm", "linear", "linear_1")} < keys(lifted)


def test_what_only_lies_between_items_is_code_of_the_caller() -> None:
    lifted = stream(after_last=False)
    assert "for layer in self.layers" not in code(lifted)
    assert {key for key in keys(lifted) if "layers" in key} == {f"net.layers.{i}.norm" for i in range(3)}


def test_keys_without_a_bias_lie_beside_queries_and_values() -> None:
    g = Graph()
    x = norm(g, g.input("x", "n", 5, 4), "block.norm")
    q, v = (linear(g, x, f"block.attn.{name}") for name in ("q", "v"))
    k = g.node("Transpose", linear(g, x), perm=[0, 2, 1])
    weights = g.node("Softmax", g.node("MatMul", q, k))
    y = linear(g, g.node("MatMul", weights, v), "block.attn.out")
    lifted = g.lift(norm(g, g.node("Add", x, y), "block.norm2"))
    assert keys(lifted) == {
        "block.norm",
        "block.norm2",
        *(f"block.attn.{name}" for name in ("q", "v", "out", "k_proj")),
    }


def test_a_role_is_the_name_of_a_layer_that_lost_its_own() -> None:
    """It was a dictionary of one layer: `q_proj.linear`."""
    g = Graph()
    x = norm(g, g.input("x", "n", 5, 4), "net.block.norm")
    q, k, v = (linear(g, x) for _ in range(3))
    weights = g.node("Softmax", g.node("MatMul", q, g.node("Transpose", k, perm=[0, 2, 1])))
    y = g.node("Add", x, g.node("MatMul", weights, v))
    lifted = g.lift(norm(g, y, "net.block.norm2"))
    assert {f"net.block.{name}" for name in ("q_proj", "k_proj", "v_proj")} < keys(lifted)
