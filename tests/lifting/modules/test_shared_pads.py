"""What several convolutions pad alike is padded once."""

from __future__ import annotations

import pytest

from small_graphs import Graph, code


def convolution(g: Graph, x: str, name: str, pads: tuple[int, ...] = (2, 0), scope: str = "") -> str:
    weight, path = g.weight(f"{scope}{name}.weight", 3, 3, 2), f"/{scope.replace('.', '/')}{name}/Conv"
    return g.node("Conv", x, weight, name=path, dilations=[2], pads=list(pads))


def test_pads_that_are_the_same_are_written_once() -> None:
    g = Graph()
    x = g.input("x", "n", 3, 8)
    text = code(g.lift(g.node("Mul", g.node("Tanh", convolution(g, x, "filter")), convolution(g, x, "gate"))))
    assert text.count("F.pad(") == 1 and "(2, 0)" in text


def test_pads_that_differ_are_not() -> None:
    g = Graph()
    x = g.input("x", "n", 3, 8)
    text = code(g.lift(g.node("Mul", convolution(g, x, "filter"), convolution(g, x, "gate", (0, 2)))))
    assert text.count("F.pad(") == 2


def test_what_another_value_is_padded_by_is_another_thing() -> None:
    g = Graph()
    x = g.input("x", "n", 3, 8)
    text = code(g.lift(g.node("Mul", convolution(g, x, "filter"), convolution(g, g.node("Sin", x), "gate"))))
    assert text.count("F.pad(") == 2


@pytest.mark.parametrize("count", [2, 3])
def test_each_module_pads_for_itself(count: int) -> None:
    g = Graph()
    x = g.input("x", "n", 3, 8)
    values = [g.node("Sin", convolution(g, x, "conv", scope=f"{c}."), name=f"/{c}/Sin") for c in "abc"[:count]]
    while len(values) > 1:
        values = [g.node("Add", values[0], values[1]), *values[2:]]
    g.lift(values[0])
