"""Statements belong to the entry of a list that they depend on, in whatever order an exporter writes them."""

from __future__ import annotations

from small_graphs import Graph, code, step


def test_all_calls_first_and_then_all_sums() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    first, *others = [step(g, x, f"experts.{i}") for i in range(4)]
    for other in others:
        first = g.node("Add", first, other, name="/Add")
    text = code(g.lift(g.node("Cos", first, name="/Cos")))
    assert "        for expert in self.experts[1:]:\n            y = y + expert(x)\n        return y.cos()" in text, (
        text
    )


def test_what_is_computed_between_the_rounds_comes_before_them() -> None:
    """The sums read it, and the calls that come first in the loop do not."""
    g = Graph()
    x = g.input("x", "n", 4)
    first, *others = [step(g, x, f"experts.{i}") for i in range(4)]
    scale = g.node("Sigmoid", g.input("m", "n", 4), name="/Sigmoid")
    for other in others:
        first = g.node("Add", first, g.node("Mul", other, scale, name="/Mul"), name="/Add")
    text = code(g.lift(g.node("Cos", first, name="/Cos")))
    assert "for expert in self.experts[1:]:" in text and text.count("sigmoid()") == 1, text
    assert text.index("sigmoid()") < text.index("for expert"), text


def test_what_comes_after_the_rounds_stays_there() -> None:
    """As the pooled features beside the convolutions of an ASPP."""
    g = Graph()
    x = g.input("x", "n", 4)
    ends = [step(g, x, f"convs.{i}") for i in range(3)]
    ends.append(g.node("Sin", g.linear(x, "pool"), name="/Sin"))
    text = code(g.lift(g.node("Concat", *ends, name="/Concat", axis=1)))
    assert "torch.cat([*(conv(x) for conv in self.convs), sin], 1)" in text, text


def test_what_is_made_for_the_next_entry_belongs_to_that() -> None:
    """The first entry reads the activation of the input, and nobody that of the last one."""
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        x = g.linear(g.node("Tanh", x, name="/Tanh"), f"convs.{i}")
    text = code(g.lift(x))
    assert "        for conv in self.convs:\n            x = conv(x.tanh())\n        return x" in text, text


def test_a_loop_that_is_there_already_is_not_torn_apart() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        x = step(g, x, f"layers.{i}")
    for i in range(3):
        x = g.node("Tanh", step(g, x, f"convs.{i}"), name="/Tanh")
    text = code(g.lift(x))
    assert "for layer in self.layers:" in text and "for conv in self.convs:" in text, text
    assert text.index("for layer") < text.index("for conv"), text


def test_what_comes_before_the_first_round_is_not_taken_for_a_part_of_it() -> None:
    g = Graph()
    x = g.node("Sin", g.input("x", "n", 4), name="/Sin")
    for i in range(3):
        x = g.node("Tanh", step(g, x, f"convs.{i}"), name="/Tanh")
    assert "for conv in self.convs:" in code(g.lift(x))
