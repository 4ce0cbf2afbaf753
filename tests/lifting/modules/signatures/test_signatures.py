"""Attentions of one class that are called with one input or two, with a mask or without."""

from __future__ import annotations

import numpy as np

import onnxlift
from small_graphs import Graph, code

SIZE = 4


def attention(
    g: Graph, name: str, x: str, y: str, mask: str = "", *, cls: str = "lib.Attention", last: str = ""
) -> str:
    """What PyTorch's newer exporter makes of an attention: queries of `x`, keys and values of `y`."""

    def node(op_type: str, *inputs: str, layer: str = "", **attributes: object) -> str:
        scopes = ["", name, *([f"{name}.{layer}"] if layer else []), "op"]
        classes = ["lib.Model", cls, *(["torch.nn.modules.linear.Linear"] if layer else []), "aten"] if cls else []
        return g.node(op_type, *inputs, scopes=scopes, classes=classes, **attributes)

    def linear(layer: str, value: str) -> str:
        return node("MatMul", value, g.weight(f"val_{name}_{layer}", SIZE, SIZE), layer=layer)

    q, k, v = linear("q", x), linear("k", y), linear("v", y)
    scores = node("Mul", node("MatMul", q, node("Transpose", k, perm=[0, 2, 1])), g.constant("half", np.float32(0.5)))
    scores = node("Add", scores, mask) if mask else scores
    result = node("MatMul", node("Softmax", scores, axis=-1), v)
    result = linear("o", result)
    return node(last, result) if last else result


def lifted(*, other: str = "lib.Attention", last: str = "") -> onnxlift.Lifted:
    g = Graph()
    own = "lib.Attention" if other else ""
    x, y = g.input("x", "n", 3, SIZE), g.input("y", "n", 5, SIZE)
    mask = g.input("bias", "n", 3, 3)
    x = g.node("Tanh", attention(g, "self_attn", x, x, mask, cls=own), scopes=["", "op"], classes=["lib.Model", "aten"])
    return g.lift(attention(g, "cross_attn", x, y, cls=other, last=last))


def test_self_and_cross_attention_share_a_class() -> None:
    source = code(lifted())
    assert source.count("class ") == 2, source
    assert "def forward(self, x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:" in source, source
    assert "self.self_attn(x, x, bias)" in source, source
    assert "self.cross_attn(x.tanh(), y)" in source, source


def test_what_the_exporter_calls_otherwise_is_another_class() -> None:
    source = code(lifted(other="lib.CrossAttention"))
    assert source.count("class ") == 3 and "None" not in source.replace("-> None", ""), source


def test_code_that_differs_elsewhere_is_another_class() -> None:
    source = code(lifted(last="Sin"))
    assert source.count("class ") == 3 and "None" not in source.replace("-> None", ""), source


def test_without_the_exporters_word_the_same_layers_under_the_same_names_are_enough() -> None:
    source = code(lifted(other=""))
    assert source.count("class ") == 2 and "self.cross_attn = Attention()" in source, source


def test_a_mask_of_numbers_comes_last_as_one_of_truths_does() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    index = g.node("ArgMax", x, name="/ArgMax", axis=1, keepdims=0)
    shown = g.node("Greater", x, g.constant("zero", np.float32(0)), name="/Greater")
    numbers = (g.constant("keep", np.float32(0)), g.constant("drop", np.float32(-5)))
    mask = g.node("Where", shown, *numbers, name="/Where")
    rows = g.node("Gather", g.weight("enc.embed.weight", 4, 4), index, name="/enc/embed/Gather")
    y = g.node("Sin", g.node("Add", rows, mask, name="/enc/Add"), name="/enc/Sin")
    assert "self.enc(x.argmax(1), torch.where(x > 0, 0.0, -5.0))" in g.lift(g.linear(y, "enc.fc")).source
